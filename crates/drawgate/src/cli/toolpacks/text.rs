//! Toolpacks in words.

use std::fmt::Write as _;
use std::path::Path;

use drawgate_core::registry::SourceState;
use drawgate_runtime::operations::{ToolpackToolView, ToolpackView};
use serde_json::Value;

use crate::cli::doctor;

/// Characters of a commit that people compare.
const SHORT_COMMIT: usize = 12;
/// Tools that are listed before the rest is only counted.
const MANY_TOOLS: usize = 40;

/// One line of the list.
pub(super) fn row(pack: &ToolpackView) -> Vec<String> {
    let complaints = complaints(pack);
    let problem = complaints.first().and_then(|first| first.lines().next()).unwrap_or_default();
    let count = offered(pack).unwrap_or(pack.tools.len());
    vec![
        pack.id.clone(),
        pack.version.clone().unwrap_or_default(),
        pack.state.clone(),
        count.to_string(),
        origin(pack),
        problem.to_owned(),
    ]
}

/// Everything about a pack.
pub(super) fn shown(pack: &ToolpackView) -> String {
    let mut text = title(pack);
    let _ = writeln!(text, ": {}", state(pack));
    if let Some(description) = &pack.description {
        let _ = writeln!(text, "  {description}");
    }
    let _ = writeln!(text, "from       {}", origin(pack));
    if let Some(hash) = &pack.content_hash {
        let _ = writeln!(text, "content    {hash}");
    }
    if let Some(at) = &pack.installed_at {
        let _ = writeln!(text, "installed  {at}");
    }
    let _ = writeln!(text, "folder     {}", pack.folder.display());
    text.push_str(&contents(pack));
    for problem in complaints(pack) {
        let _ = writeln!(text, "problem: {problem}");
    }
    text.push_str(&left_out(pack));
    text
}

/// What was installed, and what comes next.
pub(super) fn installed(pack: &ToolpackView, was_on: bool) -> String {
    let mut text = format!("installed {} from {}\n", title(pack), origin(pack));
    if let Some(description) = &pack.description {
        let _ = writeln!(text, "  {description}");
    }
    text.push_str(&contents(pack));
    let off = if was_on { "it was enabled before, and is off now" } else { "it is off" };
    let _ =
        writeln!(text, "{off}; to let callers use it:\n  drawgate toolpacks enable {}", pack.id);
    text
}

/// What is open to callers now.
pub(super) fn enabled(pack: &ToolpackView, running: bool) -> String {
    let mut text = format!("enabled {}\n", title(pack));
    text.push_str(&contents(pack));
    let id = &pack.id;
    let _ = match (&pack.running, running) {
        (Some(running), _) if running.status.state == SourceState::Ready => {
            let (count, verb) = match running.status.tools {
                1 => ("1 tool".to_owned(), "is"),
                count => (format!("{count} tools"), "are"),
            };
            writeln!(text, "in force: {count} {verb} offered now")
        }
        (Some(running), _) => writeln!(
            text,
            "it does not work yet: {}; `drawgate toolpacks doctor {id}` says more",
            running.status.problem.as_deref().unwrap_or("it is still starting")
        ),
        (None, true) => writeln!(
            text,
            "it does not run: {}",
            pack.problem.as_deref().unwrap_or("see `drawgate toolpacks doctor`")
        ),
        (None, false) => writeln!(text, "no gateway runs; it is in force when one starts"),
    };
    for complaint in complaints(pack).into_iter().filter(|_| is_ready(pack)) {
        let _ = writeln!(text, "problem: {complaint}");
    }
    text.push_str(&left_out(pack));
    text
}

/// What is closed to callers now.
pub(super) fn disabled(pack: &ToolpackView, running: bool) -> String {
    let when = if running { "its tools are gone from the running gateway" } else { "it stays off" };
    format!("disabled {}; {when}", title(pack))
}

/// Tools and permissions.
fn contents(pack: &ToolpackView) -> String {
    let mut text = "tools\n".to_owned();
    let names = pack.tools.iter().map(|tool| tool.name.len());
    let width = names.max().unwrap_or(0).min(40);
    for tool in pack.tools.iter().take(MANY_TOOLS) {
        let _ = writeln!(text, "  {}", tool_line(tool, width));
    }
    if pack.tools.len() > MANY_TOOLS {
        let _ = writeln!(text, "  and {} more", pack.tools.len() - MANY_TOOLS);
    }
    if !pack.permissions.is_empty() {
        text.push_str("while it is enabled, it\n");
    }
    for line in &pack.permissions {
        let _ = writeln!(text, "  - {line}");
    }
    text
}

fn tool_line(tool: &ToolpackToolView, width: usize) -> String {
    let kind = tool.kind.as_deref().unwrap_or("openapi");
    let description = tool.description.as_deref().unwrap_or_default();
    let first = description.lines().next().unwrap_or_default();
    format!("{:width$}  {kind:7}  {first}", tool.name).trim_end().to_owned()
}

fn title(pack: &ToolpackView) -> String {
    let version = pack.version.as_deref().unwrap_or_default();
    match &pack.name {
        Some(name) => format!("`{}` {version} ({name})", pack.id),
        None => format!("`{}`", pack.id),
    }
}

/// Where a pack came from.
pub(super) fn origin(pack: &ToolpackView) -> String {
    let mut text = pack.source.clone().unwrap_or_else(|| "unknown origin".to_owned());
    if let Some(reference) = &pack.reference {
        let _ = write!(text, "@{reference}");
    }
    if let Some(commit) = &pack.commit {
        let _ = write!(text, " (commit {})", short(commit));
    }
    text
}

/// The beginning of a commit.
pub(super) fn short(commit: &str) -> String {
    commit.chars().take(SHORT_COMMIT).collect()
}

fn state(pack: &ToolpackView) -> String {
    match (pack.state.as_str(), offered(pack)) {
        ("enabled", Some(1)) => "enabled, 1 tool is offered".to_owned(),
        ("enabled", Some(count)) => format!("enabled, {count} tools are offered"),
        ("enabled", None) => "enabled; in force when a gateway starts".to_owned(),
        ("disabled", _) => "disabled".to_owned(),
        (other, _) => format!("{other}, and not used"),
    }
}

fn is_ready(pack: &ToolpackView) -> bool {
    pack.running.as_ref().is_some_and(|running| running.status.state == SourceState::Ready)
}

fn offered(pack: &ToolpackView) -> Option<usize> {
    pack.running.as_ref().map(|running| running.status.tools)
}

/// Everything that is wrong, in sentences.
pub(super) fn complaints(pack: &ToolpackView) -> Vec<String> {
    let mut all: Vec<String> = pack.problem.iter().cloned().collect();
    if let Some(running) = &pack.running {
        let problem = running.status.problem.clone();
        let problem = problem.filter(|problem| pack.problem.as_ref() != Some(problem));
        all.extend(problem);
        let left_out = doctor::left_out(running).into_iter();
        all.extend(left_out.map(|(tool, reason)| format!("`{tool}` was left out: {reason}")));
        all.extend(waits(&pack.id, running.status.quarantined.len()));
    }
    all
}

/// What connectors have and can't offer, such as operations of an API.
fn left_out(pack: &ToolpackView) -> String {
    let mut text = String::new();
    let connectors = pack.running.as_ref().map(|it| &doctor::diagnostics(it)["connectors"]);
    for (connector, report) in connectors.and_then(Value::as_object).into_iter().flatten() {
        let reported = list(&report["leftOut"]);
        for one in reported {
            let name = one["operation"].as_str().or_else(|| one["tool"].as_str());
            let (name, reason) =
                (name.unwrap_or_default(), one["reason"].as_str().unwrap_or_default());
            let _ = writeln!(text, "left out: `{name}` of `{connector}`: {reason}");
        }
        let count = report["leftOutCount"].as_u64().and_then(|count| usize::try_from(count).ok());
        if let Some(more) =
            count.and_then(|count| count.checked_sub(reported.len())).filter(|n| *n > 0)
        {
            let _ = writeln!(text, "left out: {more} more of `{connector}`");
        }
    }
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What waits for a person.
fn waits(id: &str, waiting: usize) -> Option<String> {
    (waiting > 0).then(|| {
        format!("{waiting} definitions changed; `drawgate servers review {id}` shows them")
    })
}

/// A folder as it can be typed again for `install` and `validate`.
pub(super) fn typed(folder: &Path) -> String {
    let text = folder.display().to_string();
    if text.starts_with(['/', '.']) { text } else { format!("./{text}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_is_left_out_is_said() {
        let pack: ToolpackView = serde_json::from_value(json!({
            "id": "pets", "state": "enabled", "folder": "/packs/pets", "tools": [], "permissions": [],
            "problems": [],
            "running": {
                "id": "pets", "state": "ready", "since": 0, "failures": 0, "tools": 2,
                "leftOut": [{ "source_id": "pets", "tool": "a", "reason": "its schema is no schema" }],
                "diagnostics": {
                    "leftOut": [{ "tool": "b", "reason": "`main` offers no `b`" }],
                    "connectors": { "api": {
                        "leftOutCount": 3,
                        "leftOut": [{ "operation": "GET /c", "reason": "a cookie is needed" }],
                    } },
                },
            },
        }))
        .unwrap();
        for text in [shown(&pack), enabled(&pack, true)] {
            assert!(
                text.contains("problem: `a` was left out: its schema is no schema\n"),
                "{text}"
            );
            assert!(text.contains("problem: `b` was left out: `main` offers no `b`\n"), "{text}");
            assert!(text.contains("left out: `GET /c` of `api`: a cookie is needed\n"), "{text}");
            assert!(text.contains("left out: 2 more of `api`\n"), "{text}");
        }
    }
}
