//! The API that the example `openapi-local` describes, for real, and what it was asked.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

type Asked = Arc<Mutex<Vec<String>>>;

/// A running API.
pub(super) struct Notes {
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    asked: Asked,
    serving: JoinHandle<()>,
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Notes {
    pub(super) async fn start() -> Self {
        let asked = Asked::default();
        let router = Router::new()
            .route("/notes", get(list).post(add))
            .route("/notes/{id}", get(one))
            .with_state(Arc::clone(&asked));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, asked, serving }
    }

    /// Everything that was asked so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

async fn list(State(asked): State<Asked>, RawQuery(query): RawQuery) -> Json<Value> {
    asked.lock().push(format!("GET /notes?{}", query.unwrap_or_default()));
    Json(json!({ "notes": [note(1)] }))
}

async fn one(State(asked): State<Asked>, Path(id): Path<u64>) -> (StatusCode, Json<Value>) {
    asked.lock().push(format!("GET /notes/{id}"));
    match id {
        1 => (StatusCode::OK, Json(note(1))),
        _ => (StatusCode::NOT_FOUND, Json(json!({ "error": "there is no such note" }))),
    }
}

async fn add(
    State(asked): State<Asked>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, Json<Value>) {
    let kind = headers["content-type"].to_str().unwrap();
    asked.lock().push(format!("POST /notes {kind} {body}"));
    (StatusCode::CREATED, Json(note(2)))
}

fn note(id: u64) -> Value {
    json!({ "id": id, "title": "Milk", "text": "Two bottles.", "tags": ["shop"] })
}
