//! What a person can do about a call that was refused, or a list that is empty.

use drawgate_core::model::{ErrorCode, ToolError};
use drawgate_runtime::assemble::DISABLED_SERVER;
use drawgate_runtime::operations::NewCall;
use drawgate_runtime::toolpack_sources::{DISABLED_TOOLPACK, NOT_ENABLED};
use drawgate_sources::mcp::ALLOWED_BY;

/// What to do about a refusal, where the gateway's own words don't say it.
pub(super) fn step(call: &NewCall, error: &ToolError) -> Option<String> {
    let whose = match &call.agent {
        Some(agent) => format!(" --agent {agent}"),
        None => String::new(),
    };
    match error.code {
        ErrorCode::ResourceNotFound => {
            Some(format!("`drawgate tools list{whose}` shows what can be called"))
        }
        ErrorCode::InvalidArguments if is_about_the_call(error) => {
            Some("`drawgate tools call --help` has the options".to_owned())
        }
        ErrorCode::InvalidArguments => {
            Some(format!("`drawgate tools show {}` has what it takes", call.tool))
        }
        ErrorCode::PermissionDenied if call.narrowing.grant_ids.is_some() => {
            Some("name another grant with `--grant`, or leave it out to use all".to_owned())
        }
        ErrorCode::PermissionDenied => {
            let first = error.details.as_ref()?["missing"].get(0)?.as_str()?;
            let agent = call.agent.as_ref().map_or("local", |agent| agent.as_str());
            Some(format!("`drawgate grants add {first} --agent {agent} --for 8h` gives it"))
        }
        ErrorCode::Unavailable => absent(&error.message),
        ErrorCode::ExecutionFailed
        | ErrorCode::Timeout
        | ErrorCode::PermissionEscalationRequired
        | ErrorCode::SandboxViolation
        | ErrorCode::RateLimited
        | ErrorCode::Conflict
        | ErrorCode::ValidationError
        | ErrorCode::Cancelled => None,
    }
}

/// What to do about a source that is not there.
fn absent(message: &str) -> Option<String> {
    // It says so itself.
    if message.contains(ALLOWED_BY) {
        return None;
    }
    let id = message.split('`').nth(1).unwrap_or_default();
    let enable = |kind: &str| Some(format!("`drawgate {kind} enable {id}` enables it"));
    if message.contains(DISABLED_SERVER) {
        return enable("servers");
    }
    if message.contains(DISABLED_TOOLPACK) || message.contains(NOT_ENABLED) {
        return enable("toolpacks");
    }
    Some("`drawgate servers doctor` may say why".to_owned())
}

/// Whether it is about what narrows the call, not about an argument of the tool.
fn is_about_the_call(error: &ToolError) -> bool {
    error.details.as_ref().is_some_and(|details| details.get("member").is_some())
}

/// What to say instead of an empty list.
pub(super) fn no_tools(agent: Option<&str>) -> String {
    match agent {
        None => "no tools; `drawgate servers doctor` may say why".to_owned(),
        Some(name) => format!(
            "`{name}` may call no tools; `drawgate tools list` shows what each requires, and \
             `drawgate grants add CAPABILITY --agent {name}` gives that"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_against_an_absent_source_is_said_once() {
        for (message, expected) in [
            (
                "`off` is disabled in the configuration",
                Some("`drawgate servers enable off` enables it"),
            ),
            (
                "`pack` is disabled; an operator can enable it",
                Some("`drawgate toolpacks enable pack` enables it"),
            ),
            ("`down` failed: no connection", Some("`drawgate servers doctor` may say why")),
            (
                "`db` failed: it exited; an operator can allow it by `drawgate servers allow db --write /d`",
                None,
            ),
        ] {
            assert_eq!(absent(message).as_deref(), expected, "{message}");
        }
    }
}
