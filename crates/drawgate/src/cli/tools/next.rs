//! What a person can do about a call that was refused, or a list that is empty.

use drawgate_core::model::{ErrorCode, ToolError};
use drawgate_runtime::operations::NewCall;

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
        ErrorCode::Unavailable => Some("`drawgate servers doctor` may say why".to_owned()),
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
