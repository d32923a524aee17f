//! Approvals: what waits for a person, the exact call, and the decision.

use anyhow::bail;
use axum::Json;
use axum::extract::{Path, State};
use drawgate_core::policy::ApprovalState;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Answer, Control, answer};
use drawgate_runtime::operations::Operations;

/// A person's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Yes or no.
    pub approve: bool,
    /// The operator's token, from a program that has no terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Asks for the exact arguments of a call.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reveal {
    /// The operator's token, from a program that has no terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

pub(super) async fn list(State(control): State<Control>) -> Answer {
    let gateway = &control.operations.gateway;
    let page = gateway.settings().approval_page.clone();
    let mut shown = Vec::new();
    for approval in gateway.approvals() {
        let mut value = serde_json::to_value(&approval)?;
        if approval.state == ApprovalState::Pending {
            value["isAwaited"] = gateway.is_awaited(&approval.id).into();
            if let Some(page) = &page {
                value["page"] = format!("{page}/{}", approval.id).into();
            }
        }
        shown.push(value);
    }
    answer(shown)
}

pub(super) async fn decide(
    State(control): State<Control>,
    Path(id): Path<String>,
    Json(decision): Json<Decision>,
) -> Answer {
    check(&control.operations, decision.token.as_deref())?;
    let state = if decision.approve { ApprovalState::Approved } else { ApprovalState::Denied };
    answer(control.operations.decide(&id, state).await?)
}

/// The exact arguments; they are in memory only.
pub(super) async fn reveal(
    State(control): State<Control>,
    Path(id): Path<String>,
    Json(reveal): Json<Reveal>,
) -> Answer {
    check(&control.operations, reveal.token.as_deref())?;
    let arguments = control.operations.exact_arguments(&id);
    let arguments: Option<Value> = arguments.map(|text| serde_json::from_str(&text)).transpose()?;
    answer(json!({ "arguments": arguments }))
}

fn check(operations: &Operations, token: Option<&str>) -> anyhow::Result<()> {
    match token {
        Some(token) if !operations.is_operator(token) => {
            bail!("this is not the operator's token; it is in `admin.token` in the data folder")
        }
        Some(_) | None => Ok(()),
    }
}
