//! The operator's door to definitions that wait for a person.

use axum::Json;
use axum::extract::{Path, State};
use drawgate_core::registry::{Acceptance, Held, SourceStatus};
use serde::{Deserialize, Serialize};

use super::{Answer, Control, Failure, answer};

/// What waits at a server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Review {
    /// Where the server stands.
    pub state: String,
    /// Why, if it does not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The definitions.
    pub waiting: Vec<Held>,
}

/// What a person accepts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Accept {
    /// Each by the hash of what was shown.
    pub accept: Vec<Acceptance>,
}

pub(super) async fn show(State(control): State<Control>, Path(name): Path<String>) -> Answer {
    let waiting = masked(&control, control.keeper.review(&name).await?);
    let status = control.keeper.status().into_iter().find(|status| status.id.as_str() == name);
    answer(Review {
        state: status.as_ref().map(state).unwrap_or_default(),
        problem: status.and_then(|status| status.problem),
        waiting,
    })
}

pub(super) async fn accept(
    State(control): State<Control>,
    Path(name): Path<String>,
    Json(accept): Json<Accept>,
) -> Answer {
    let done = control.keeper.accept(&name, accept.accept).await.map_err(Failure::from)?;
    answer(masked(&control, done))
}

/// A server may have put into its definitions what the gateway told it in confidence.
fn masked(control: &Control, mut all: Vec<Held>) -> Vec<Held> {
    let redactor = control.operations.gateway.redactor();
    for held in &mut all {
        redactor.mask_known_in(&mut held.definition);
        held.pinned.as_mut().map(|pinned| redactor.mask_known_in(pinned));
    }
    all
}

fn state(status: &SourceStatus) -> String {
    let word = serde_json::to_value(status.state).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}
