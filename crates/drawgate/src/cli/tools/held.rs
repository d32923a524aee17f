//! A call that takes its time: what it waits for is shown.

use std::time::Duration;

use drawgate_core::model::ToolResult;
use drawgate_core::policy::ApprovalState;
use drawgate_runtime::operations::{ListedApproval, NewCall};

use crate::cli::backend::Backend;
use crate::cli::progress::Progress;

/// How often it is asked whether the call waits for a person.
const PAUSE: Duration = Duration::from_millis(500);
/// Who calls where no agent is named.
const LOCAL: &str = "local";

/// Makes a call.
pub(super) async fn call(backend: &Backend, call: &NewCall) -> anyhow::Result<ToolResult> {
    let progress = Progress::new(format!("calling `{}`", call.tool));
    let result = backend.post("/call", call);
    tokio::pin!(result);
    let mut asked = None;
    loop {
        tokio::select! {
            result = &mut result => return result,
            () = tokio::time::sleep(PAUSE) => {
                let question = question(backend, call).await;
                if let Some(question) = &question && asked.as_ref() != Some(question) {
                    progress.announce(question, "waiting for a person");
                }
                asked = question.or(asked);
            }
        }
    }
}

/// What a person has to decide before the call goes on, if it waits for one.
async fn question(backend: &Backend, call: &NewCall) -> Option<String> {
    let caller = call.agent.as_ref().map_or(LOCAL, |agent| agent.as_str());
    let all: Vec<ListedApproval> = backend.get("/approvals").await.ok()?;
    let is_ours = |it: &&ListedApproval| {
        it.approval.state == ApprovalState::Pending
            && it.is_awaited == Some(true)
            && it.approval.principal.as_str() == caller
    };
    let newest = all.iter().filter(is_ours).max_by_key(|it| it.approval.created_at)?;
    let id = &newest.approval.id;
    let page = newest.page.as_ref().map(|page| format!(", or at {page}")).unwrap_or_default();
    Some(format!(
        "waiting for a person: `drawgate approvals approve {id}` in another terminal{page}"
    ))
}
