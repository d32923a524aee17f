//! What a person can do about a call that was refused, or a list that is empty.

use serde_json::Value;

use crate::cli::agents::{list, text};
use crate::surface::control::CliCall;

/// What to do about a refusal, where the gateway's own words don't say it.
pub(super) fn step(call: &CliCall, error: &Value) -> Option<String> {
    let whose = match &call.agent {
        Some(agent) => format!(" --agent {agent}"),
        None => String::new(),
    };
    match text(error, "code").as_str() {
        "RESOURCE_NOT_FOUND" => {
            Some(format!("`drawgate tools list{whose}` shows what can be called"))
        }
        "INVALID_ARGUMENTS" => {
            Some(format!("`drawgate tools show {}` has what it takes", call.tool))
        }
        "PERMISSION_DENIED" => {
            let missing = list(&error["details"], "missing");
            let first = missing.split(' ').next().filter(|first| !first.is_empty())?;
            let agent = call.agent.as_ref().map_or("local", |agent| agent.as_str());
            Some(format!("`drawgate grants add {first} --agent {agent} --for 8h` gives it"))
        }
        "UNAVAILABLE" => Some("`drawgate servers doctor` may say why".to_owned()),
        _ => None,
    }
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
