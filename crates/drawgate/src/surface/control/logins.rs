//! The operator's door to logins at protected servers.

use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Answer, Control, answer};
use drawgate_core::model::SourceId;
use drawgate_sources::mcp::oauth::LoginState;

/// A login that waits for a person.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoginBegun {
    /// By which its end can be waited for.
    pub attempt: String,
    /// What the person must open.
    pub url: String,
}

pub(super) async fn begin(State(control): State<Control>, Path(name): Path<String>) -> Answer {
    let begun = control.operations.begin_login(&name).await?;
    answer(LoginBegun { attempt: begun.attempt, url: begun.url })
}

pub(super) async fn end(
    State(control): State<Control>,
    Path((name, attempt)): Path<(String, String)>,
) -> Answer {
    answer(control.operations.end_login(&name, &attempt).await?)
}

pub(super) async fn log_out(State(control): State<Control>, Path(name): Path<String>) -> Answer {
    control.operations.log_out(&name).await?;
    answer(json!({}))
}

/// Where the login at a server stands, if that matters.
pub(super) fn standing(control: &Control, id: &SourceId) -> Option<Value> {
    match control.operations.logins.get(id)?.state() {
        LoginState::None => None,
        state => serde_json::to_value(state).ok(),
    }
}
