//! Documents that are fetched and lead elsewhere, and answers that lead to two places.

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use drawgate_core::source::ToolSource;
use drawgate_sources::openapi::OpenApiSource;
use serde_json::{Value, json};

use super::{api, call, document, gate, host, said, serve};
use crate::support::id;

/// A source whose document is served, with more of a configuration.
fn fetched(document: &Value, more: Value) -> OpenApiSource {
    let text = document.to_string();
    let server = serve(Router::new().route("/api.json", get(move || async move { text })));
    let mut config = json!({ "spec_url": format!("{server}/api.json"), "retries": 0 });
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
    OpenApiSource::new(id(), serde_json::from_value(config).unwrap(), &host(&[])).unwrap()
}

fn leading(server: &str) -> Value {
    let paths =
        json!({ "/a": { "get": { "operationId": "one", "security": [{ "machine": [] }] } } });
    let mut document = document(server, paths);
    document["components"] = json!({ "securitySchemes": { "machine": { "type": "oauth2",
        "flows": { "clientCredentials": { "tokenUrl": "https://tokens.example/t", "scopes": {} } } } } });
    document
}

#[tokio::test]
async fn a_fetched_document_does_not_choose_who_gets_the_credentials() {
    const GITHUB: &str = "https://api.github.com";
    let client = json!({ "machine": { "client_id": "i", "client_secret": "s" } });
    let written = json!({ "machine": {
        "client_id": "i", "client_secret": "s", "token_url": "https://tokens.example/t",
    } });
    let away = "leads to another server, `http://127.0.0.1:8500/v1`";
    let advice = "set `base_url` to it, or add its host to `hosts`";
    for (server, more, expected) in [
        ("http://127.0.0.1:8500/v1", json!({}), Some(away)),
        (GITHUB, json!({}), Some(advice)),
        (GITHUB, json!({ "hosts": ["127.0.0.1:*"] }), Some(advice)),
        (GITHUB, json!({ "hosts": ["127.0.0.1:*", "api.github.com"] }), None),
        (GITHUB, json!({ "base_url": GITHUB }), None),
        ("/v1", json!({}), None),
        ("/v1", json!({ "auth": client }), Some("another server, `https://tokens.example/t`")),
        ("/v1", json!({ "auth": client }), Some("if it is meant, set `token_url`")),
        ("/v1", json!({ "auth": written }), None),
        ("/v1", json!({ "auth": client, "hosts": ["127.0.0.1:*", "tokens.example"] }), None),
    ] {
        let found = fetched(&leading(server), more.clone()).manifest().await.err();
        match (found.map(|error| error.to_string()), expected) {
            (None, None) => {}
            (Some(found), Some(expected)) => assert!(found.contains(expected), "{more}: {found}"),
            (found, _) => panic!("{server} {more}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn one_operation_that_leads_away_is_left_out() {
    let mut document = leading("/v1");
    document["paths"]["/b"] =
        json!({ "get": { "operationId": "two", "servers": [{ "url": "https://evil.example" }] } });
    let source = fetched(&document, json!({}));
    let names: Vec<String> =
        source.manifest().await.unwrap().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["one"]);
    let told = source.diagnostics().to_string();
    assert!(told.contains("leads to another server, `https://evil.example/`"), "{told}");
}

#[tokio::test]
async fn an_answer_that_leads_to_two_places_is_refused() {
    let twice = || async {
        let mut answer = StatusCode::FOUND.into_response();
        for place in ["/b", "/c"] {
            answer.headers_mut().append(header::LOCATION, HeaderValue::from_static(place));
        }
        answer
    };
    let router = Router::new().route("/a", get(twice)).fallback(async || "followed");
    let paths = json!({ "/a": { "get": { "operationId": "get" } } });
    let api = api(&document(&serve(router), paths), json!({}), &[]);
    let result = call(&gate(&api).await, "get", json!({})).await;
    assert!(said(&result).contains("there is more than one `Location`"), "{}", said(&result));
}
