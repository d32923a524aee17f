//! Resolve: from a name to a tool that the caller may know about.
//!
//! Entitlement is checked here, first of all, so that an outsider learns nothing from later errors: towards
//! strangers, a tool that their grants do not cover is as unknown as one that does not exist.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::audit::Trace;
use super::gateway::{CallOptions, Gateway};
use super::{Refusal, refuse};
use crate::model::{
    Caller, Capability, Disclosure, ErrorCode, Operation, ToolError, ToolId, ToolInvocation,
    shown_name,
};
use crate::policy::{Cover, Missing};
use crate::registry::{Entry, Resolution};

/// A call whose tool is known and covered by the caller's grants.
pub(crate) struct Resolved {
    pub(super) entry: Arc<Entry>,
    pub(super) call: Box<ToolInvocation>,
    pub(super) cover: Cover,
}

impl Gateway {
    pub(super) fn resolve(
        &self,
        caller: &Caller,
        call: Box<ToolInvocation>,
        trace: &mut Trace,
    ) -> Result<Resolved, Refusal> {
        let now = self.parts.clock.now_ms();
        let grants = &self.parts.grants;
        let lineage = caller.lineage.as_deref();
        // A name means the same tool however a call is narrowed.
        let visible = |entry: &Entry| {
            entry.is_for(lineage) && grants.cover(caller, &entry.requires, None, now).is_ok()
        };
        let registry = self.parts.registry.peek();
        let resolution = match call.operation {
            Operation::CallTool => registry.resolve(&call.tool_id, caller, visible),
            beside => registry.operation(&call.tool_id, beside),
        };
        drop(registry);
        let entry = match resolution {
            Resolution::Found(entry) => entry,
            Resolution::Unknown => return Err(self.unknown(caller, &call, now)),
            Resolution::Ambiguous(candidates) => {
                let list: Vec<&str> = candidates.iter().map(ToolId::as_str).collect();
                let message = format!(
                    "`{}` is ambiguous; use one of `{}`",
                    shown_name(&call.tool_id),
                    list.join("`, `")
                );
                return Err(refuse(ErrorCode::Conflict, message)
                    .with_details(json!({ "candidates": list })));
            }
        };
        if !entry.is_for(lineage) {
            trace.resolved(&entry, None);
            return Err(not_for(&call.tool_id));
        }
        let cover = grants.cover(caller, &entry.requires, call.grant_ids.as_deref(), now);
        trace.resolved(&entry, cover.as_ref().ok());
        match cover {
            Ok(cover) => Ok(Resolved { entry, call, cover }),
            Err(Missing(missing)) => {
                let refusal = uncovered(caller, &call, &entry, &missing);
                // Who narrowed the call knows the tool.
                let is_known = call.grant_ids.is_some() && visible(&entry);
                Err(if is_known {
                    Refusal { disclosure: Disclosure::Open, ..refusal }
                } else {
                    refusal
                })
            }
        }
    }

    /// Waits for a source that is starting and was never met, if the call is of a tool that only it can have
    /// and the caller may use it.
    pub(super) async fn await_unknown(
        &self,
        caller: &Caller,
        call: &ToolInvocation,
        options: &CallOptions,
    ) -> Result<(), Refusal> {
        if call.operation != Operation::CallTool {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            let changed = self.parts.registry.absences_changed();
            let Some(patience) = self.awaited(caller, call) else { return Ok(()) };
            let asked = call.timeout_ms.map(Duration::from_millis);
            let patience = asked.map_or(patience, |asked| asked.min(patience));
            tokio::select! {
                () = changed => {}
                () = options.cancel.cancelled() => {
                    return Err(refuse(ErrorCode::Cancelled, "the caller cancelled the call"));
                }
                // That it is starting is what the caller hears.
                () = tokio::time::sleep_until(begun + patience) => return Ok(()),
            }
        }
    }

    /// How long a call of a tool that no source has yet waits for the one that is starting.
    fn awaited(&self, caller: &Caller, call: &ToolInvocation) -> Option<Duration> {
        let (_, absence) = self.parts.registry.absent(&call.tool_id)?;
        let patience = absence.starting?;
        let now = self.parts.clock.now_ms();
        self.parts.grants.cover(caller, &absence.requires, None, now).ok()?;
        let registry = self.parts.registry.peek();
        let found = registry.resolve(&call.tool_id, caller, |_| true);
        matches!(found, Resolution::Unknown).then_some(patience)
    }

    /// No tool has this name. Who may use a source that offers nothing now hears why, and has it tried
    /// again; anybody else learns nothing.
    fn unknown(&self, caller: &Caller, call: &ToolInvocation, now: u64) -> Refusal {
        let unknown = || ToolError::unknown_tool(&call.tool_id);
        if call.operation != Operation::CallTool {
            return unknown();
        }
        let Some((id, absence)) = self.parts.registry.absent(&call.tool_id) else {
            return unknown();
        };
        if self.parts.grants.cover(caller, &absence.requires, None, now).is_err() {
            return unknown();
        }
        if let Some(again) = &absence.again {
            again.notify_one();
        }
        refuse(ErrorCode::Unavailable, format!("`{id}` {}", absence.reason))
    }
}

/// It is meant for others: to this caller it is an unknown tool.
pub(super) fn not_for(name: &str) -> Refusal {
    Refusal { disclosure: Disclosure::ToolIsHidden, ..ToolError::unknown_tool(name) }
}

/// No grant covers it. Surfaces towards strangers turn this into an unknown tool.
fn uncovered(
    caller: &Caller,
    call: &ToolInvocation,
    entry: &Entry,
    missing: &[Capability],
) -> Refusal {
    let list: Vec<&str> = missing.iter().map(Capability::as_str).collect();
    let why = match (&caller.lineage, &call.grant_ids) {
        (Some(_), None) => "which no live grant gives below the ceilings of the run",
        (Some(_), Some(_)) => "which no grant in `grantIds` gives below the ceilings of the run",
        (None, None) => "which no live grant gives",
        (None, Some(_)) => "which no live grant in `grantIds` gives",
    };
    let message = format!("`{}` needs `{}`, {why}", entry.id, list.join("`, `"));
    let error =
        refuse(ErrorCode::PermissionDenied, message).with_details(json!({ "missing": list }));
    Refusal { disclosure: Disclosure::ToolIsHidden, ..error }
}
