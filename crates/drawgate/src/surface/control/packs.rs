//! Packs, for the operator.

use axum::extract::{Path, State};
use serde_json::json;

use super::{Answer, Control, answer};

pub(super) async fn list(State(control): State<Control>) -> Answer {
    answer(control.operations.packs.list())
}

pub(super) async fn show(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    let pack = control.operations.pack(&id)?;
    let tools = control.operations.packs.tools(&id);
    answer(json!({ "pack": pack, "tools": tools }))
}

pub(super) async fn kick(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    control.operations.kick_pack(&id).await?;
    answer(json!({}))
}
