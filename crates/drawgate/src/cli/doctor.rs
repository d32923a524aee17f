//! What a server's state means, in sentences.

use std::collections::BTreeMap;

use drawgate_core::model::SourceId;
use drawgate_core::registry::{SourceState, visible_line};
use drawgate_runtime::operations::{ServerReport, SourceReport};
use drawgate_runtime::packages::{NOT_FETCHED, NOT_PINNED};
use serde_json::Value;

use super::login;
use super::screen::count;
use super::tools::callers;

/// How many of a server's last lines are shown; `servers logs` has more.
const STDERR_LINES: usize = 20;
/// How many names one line lists.
const SHOWN_NAMES: usize = 3;
/// For how many tools the demands of annotations are listed.
const SHOWN_DEMANDS: usize = 10;

/// Whether nothing needs a person.
pub(super) fn is_ok(server: &ServerReport) -> bool {
    server.source.status.state == SourceState::Ready
        && server.fault.is_none()
        && login::complaint(server).is_none()
        && diagnostics(&server.source)["refusedForSeconds"].is_null()
}

/// Everything that is known about a server, most important first.
pub(super) fn explain(server: &ServerReport) -> String {
    let status = &server.source.status;
    let diagnostics = diagnostics(&server.source);
    let mut lines = vec![state(&server.source)];
    if let Some(fault) = server.fault.as_ref().filter(|_| server.fault != status.problem) {
        lines.push(format!("  tried now, and does not work: {fault}"));
    }
    lines.extend(login::complaint(server).map(|complaint| format!("  {complaint}")));
    let supervision = supervision(diagnostics, status.problem.as_deref());
    lines.extend(supervision.into_iter().map(|line| format!("  {line}")));
    lines.extend(access(server).map(|line| format!("  {line}")));
    lines.extend(demands(server));
    for held in &status.quarantined {
        let (kind, name, reason) = (held.kind.as_str(), &held.name, held.reason.as_str());
        let command = format!("drawgate servers review {}", status.id);
        lines.push(format!("  quarantined: {kind} `{name}` is {reason}; run `{command}`"));
    }
    for (tool, reason) in left_out(&server.source) {
        lines.push(format!("  left out: `{tool}`: {reason}"));
    }
    lines.extend(misfits(diagnostics));
    let stderr = list(&diagnostics["stderrTail"]);
    if status.state != SourceState::Ready && !stderr.is_empty() {
        lines.push("  last lines of stderr:".to_owned());
        let last = stderr.iter().skip(stderr.len().saturating_sub(STDERR_LINES));
        lines.extend(without_repeats(last.filter_map(Value::as_str)));
    }
    let lines: Vec<_> = lines.iter().map(|line| visible_line(line)).collect();
    lines.join("\n")
}

/// Lines, where the same one comes several times in a row only once.
fn without_repeats<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for line in lines {
        match runs.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => runs.push((line, 1)),
        }
    }
    let shown = runs.into_iter().map(|(line, times)| match times {
        1 => format!("    {line}"),
        _ => format!("    {line} ({times} times)"),
    });
    shown.collect()
}

/// What a source says about itself; `null` if it says nothing.
pub(super) fn diagnostics(source: &SourceReport) -> &Value {
    source.diagnostics.as_ref().unwrap_or(&Value::Null)
}

/// Tools that are not offered, each with the reason: by the gateway, then by the source.
pub(super) fn left_out(source: &SourceReport) -> Vec<(&str, &str)> {
    let refused = source.status.left_out.iter();
    let refused = refused.map(|tool| (tool.tool.as_str(), tool.reason.as_str()));
    let missing = list(&diagnostics(source)["leftOut"]).iter();
    let missing = missing.map(|tool| (word(tool, "tool"), word(tool, "reason")));
    refused.chain(missing).collect()
}

/// What the server's own annotations demand, and whether that counts.
fn demands(server: &ServerReport) -> Vec<String> {
    let id = &server.source.status.id;
    let mut lines = Vec::new();
    for (name, demands) in server.demands.iter().take(SHOWN_DEMANDS) {
        let counts = if demands.in_force { "in force" } else { "ignored" };
        let confirmation = demands.requires_confirmation.then(|| "a confirmation".to_owned());
        let scopes = demands.required_scopes.iter().map(|scope| format!("`{scope}`"));
        let action = demands.policy_action.iter().map(|action| format!("the action `{action}`"));
        let all: Vec<String> = confirmation.into_iter().chain(scopes).chain(action).collect();
        lines.push(format!("  its annotations, {counts}: `{name}` demands {}", all.join(", ")));
    }
    if let Some(more) = server.demands.len().checked_sub(SHOWN_DEMANDS).filter(|more| *more > 0) {
        lines.push(format!("  and those of {}", count(more, "more tool")));
    }
    if server.demands.values().any(|demands| demands.in_force) {
        let key = "`annotations = \"ignore\"`";
        lines.push(format!("  {key} in `[servers.{id}]` switches its annotations off"));
    }
    lines
}

/// Members of definitions that callers are not shown, each reason once.
fn misfits(diagnostics: &Value) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for misfit in list(&diagnostics["misfits"]) {
        by_reason.entry(word(misfit, "reason")).or_default().push(word(misfit, "tool"));
    }
    let line = |(reason, names): (&str, Vec<&str>)| {
        let shown = names.iter().take(SHOWN_NAMES).copied().collect::<Vec<_>>().join("`, `");
        let more = match names.len().saturating_sub(SHOWN_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("  not shown to callers: {reason}; in `{shown}`{more}")
    };
    by_reason.into_iter().map(line).collect()
}

/// Who may call its tools.
fn access(server: &ServerReport) -> Option<String> {
    let mut all = server.requires.iter();
    match (all.next(), all.next()) {
        (None, _) => None,
        (Some(requires), None) => Some(format!("callers: {}", callers(requires))),
        (Some(_), Some(_)) => {
            Some("callers: differ by tool; `drawgate tools list` shows them".to_owned())
        }
    }
}

fn state(source: &SourceReport) -> String {
    let status = &source.status;
    let (id, problem) = (&status.id, status.problem.as_deref().unwrap_or_default());
    match status.state {
        SourceState::Ready => {
            let asleep = diagnostics(source)["state"] == "idle";
            let state = if asleep { "idle" } else { "ready" };
            let server = status.server.as_deref().unwrap_or_default();
            format!("{id}: {state}, {}, {server}", count(status.tools, "tool"))
        }
        SourceState::Starting => format!("{id}: starting; it has not answered yet"),
        SourceState::Away => {
            format!("{id}: a pack that has disconnected and may return; its tools are still listed")
        }
        SourceState::Failed => {
            format!("{id}: failed, and is tried again: {}", advised_server(id, problem))
        }
        SourceState::Refused => {
            let problem = advised_server(id, problem);
            format!("{id}: can't be used until the configuration changes: {problem}")
        }
    }
}

/// Why a server is not used, with the command that helps.
pub(super) fn advised_server(id: &SourceId, problem: &str) -> String {
    let is_fetched = ![NOT_FETCHED, NOT_PINNED].iter().any(|reason| problem.contains(reason));
    let advice = match missing_variable(problem) {
        Some(name) => format!(
            "; `drawgate secrets set {name}` stores it, and `drawgate servers restart {id}` uses it"
        ),
        None if is_fetched => String::new(),
        None => format!("; run `drawgate servers fetch {id}`"),
    };
    format!("{problem}{advice}")
}

/// The variable that a problem is about, if it is one that is not set.
fn missing_variable(problem: &str) -> Option<&str> {
    let (_, rest) = problem.split_once("the environment variable `")?;
    let (name, rest) = rest.split_once('`')?;
    rest.starts_with(" is not set").then_some(name)
}

/// How its connection is looked after.
fn supervision(diagnostics: &Value, problem: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    match (diagnostics["transport"].as_str(), diagnostics["protocolVersion"].as_str()) {
        (Some(transport), Some(revision)) => {
            lines.push(format!("reached by `{transport}`, protocol revision {revision}"));
        }
        (Some(transport), None) => lines.push(format!("reached by `{transport}`")),
        (None, _) => {}
    }
    if diagnostics["state"] == "idle" {
        lines.push("not running; the next call starts it".to_owned());
    }
    if let Some(seconds) = diagnostics["nextAttemptSeconds"].as_u64() {
        lines.push(format!("the next attempt begins in {seconds} s"));
    }
    match diagnostics["refusedForSeconds"].as_u64() {
        Some(0) => {
            lines.push("too many calls in a row have failed; the next one tries it".to_owned());
        }
        Some(seconds) => lines.push(format!(
            "too many calls in a row have failed; calls are refused for another {seconds} s"
        )),
        None => {}
    }
    let clients = &diagnostics["clients"];
    if let (Some(open), Some(limit)) = (clients["open"].as_u64(), clients["limit"].as_u64()) {
        lines
            .push(format!("{} of their own, of {limit} at most", count(open, "client connection")));
    }
    if let Some(restarts) = diagnostics["restarts"].as_u64().filter(|restarts| *restarts > 0) {
        // What is the problem now has been said.
        let why = diagnostics["lastError"].as_str().filter(|why| !why.is_empty());
        let why = why.filter(|why| problem != Some(*why));
        let why = why.map(|why| format!(", last because: {why}")).unwrap_or_default();
        let times = if restarts == 1 { "once".to_owned() } else { format!("{restarts} times") };
        lines.push(format!("started again {times}{why}"));
    }
    lines
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use drawgate_host::secrets::SecretError;
    use serde_json::json;

    use super::*;

    /// A report as the gateway sends it, with what every report has.
    fn report(mut members: Value) -> ServerReport {
        for key in ["since", "tools", "failures"] {
            let own = members[key].take();
            members[key] = if own.is_null() { json!(0) } else { own };
        }
        serde_json::from_value(members).unwrap()
    }

    #[track_caller]
    fn check(server: &ServerReport, expected: &str) {
        assert_eq!(explain(server), expected);
    }

    #[test]
    fn a_ready_server() {
        let server = report(json!({
            "id": "files", "state": "ready", "tools": 3, "server": "fs 1.2",
            "leftOut": [{ "source_id": "files", "tool": "rm", "reason": "its schema is no schema" }],
            "diagnostics": {
                "state": "ready", "transport": "stdio", "protocolVersion": "2025-11-25", "restarts": 0,
                "leftOut": [{ "tool": "x", "reason": "it has no name" }], "stderrTail": ["hello"],
                "misfits": [
                    { "tool": "a", "reason": "`title` must be a text" },
                    { "tool": "b", "reason": "`icons[0]` has no `src`" },
                    { "tool": "b", "reason": "`title` must be a text" },
                    { "tool": "c", "reason": "`title` must be a text" },
                    { "tool": "d", "reason": "`title` must be a text" },
                ],
            },
        }));
        check(
            &server,
            "files: ready, 3 tools, fs 1.2\n  \
             reached by `stdio`, protocol revision 2025-11-25\n  \
             left out: `rm`: its schema is no schema\n  \
             left out: `x`: it has no name\n  \
             not shown to callers: `icons[0]` has no `src`; in `b`\n  \
             not shown to callers: `title` must be a text; in `a`, `b`, `c` and 1 more",
        );
        assert!(is_ok(&server));
    }

    #[test]
    fn no_text_of_a_server_begins_a_line() {
        let forged = "1\nfiles: ready\u{1b}[2J";
        let server = report(json!({
            "id": "evil", "state": "failed", "tools": 0, "server": forged, "fault": forged, "problem": forged,
            "leftOut": [{ "source_id": "evil", "tool": forged, "reason": forged }],
            "demands": { forged: { "inForce": true, "requiresConfirmation": true, "requiredScopes": [] } },
            "diagnostics": {
                "state": forged, "transport": forged, "protocolVersion": forged, "restarts": 1, "lastError": "x\ny",
                "leftOut": [{ "tool": forged, "reason": forged }], "stderrTail": [forged],
                "misfits": [{ "tool": forged, "reason": forged }],
            },
        }));
        let said = explain(&server);
        assert!(said.lines().all(|line| !line.starts_with("files")), "{said}");
        assert!(!said.contains('\u{1b}') && said.contains(r"1\nfiles: ready\u{1b}[2J"), "{said}");
    }

    #[test]
    fn a_server_that_was_ready_and_is_gone_now() {
        let server = report(json!({
            "id": "api", "state": "ready", "tools": 2, "server": "API 1",
            "fault": "no connection to `127.0.0.1:9`: connection refused",
        }));
        check(
            &server,
            "api: ready, 2 tools, API 1\n  \
             tried now, and does not work: no connection to `127.0.0.1:9`: connection refused",
        );
        assert!(!is_ok(&server));
    }

    #[test]
    fn who_may_call_is_said() {
        let with = |requires: &Value| {
            report(
                json!({ "id": "a", "state": "ready", "tools": 1, "server": "s 1", "requires": requires }),
            )
        };
        for (requires, expected) in [
            (json!([["source.a"]]), "local user; others with source.a"),
            (json!([["demo", "file.read"]]), "with demo, file.read"),
            (json!([[]]), "everyone"),
            (json!([[], ["demo"]]), "differ by tool; `drawgate tools list` shows them"),
        ] {
            let said = format!("a: ready, 1 tool, s 1\n  callers: {expected}");
            check(&with(&requires), &said);
        }
    }

    #[test]
    fn what_annotations_demand_is_said_and_whether_it_counts() {
        let demands = |in_force: bool| {
            report(json!({
                "id": "a", "state": "ready", "tools": 1, "server": "s 1",
                "demands": { "wipe": {
                    "inForce": in_force, "requiresConfirmation": true, "requiredScopes": ["disk"],
                    "policyAction": "file.write",
                } },
            }))
        };
        check(
            &demands(true),
            "a: ready, 1 tool, s 1\n  \
             its annotations, in force: `wipe` demands a confirmation, `disk`, the action `file.write`\n  \
             `annotations = \"ignore\"` in `[servers.a]` switches its annotations off",
        );
        check(
            &demands(false),
            "a: ready, 1 tool, s 1\n  \
             its annotations, ignored: `wipe` demands a confirmation, `disk`, the action `file.write`",
        );
    }

    #[test]
    fn an_idle_server_is_well() {
        let server = report(json!({
            "id": "files", "state": "ready", "tools": 3, "server": "fs 1.2",
            "diagnostics": { "state": "idle", "transport": "stdio", "protocolVersion": "2025-11-25" },
        }));
        check(
            &server,
            "files: idle, 3 tools, fs 1.2\n  \
             reached by `stdio`, protocol revision 2025-11-25\n  \
             not running; the next call starts it",
        );
        assert!(is_ok(&server));
    }

    #[test]
    fn a_server_that_waits_for_its_next_start() {
        let server = report(json!({
            "id": "web", "state": "failed", "tools": 0, "problem": "the server exited with code 3",
            "diagnostics": {
                "state": "failed", "transport": "stdio", "nextAttemptSeconds": 7, "restarts": 4,
                "lastError": "the server exited with code 3",
                "stderrTail": ["starting", "no database", "no database"],
            },
        }));
        check(
            &server,
            "web: failed, and is tried again: the server exited with code 3\n  \
             reached by `stdio`\n  \
             the next attempt begins in 7 s\n  \
             started again 4 times\n  \
             last lines of stderr:\n    starting\n    no database (2 times)",
        );
        assert!(!is_ok(&server));
    }

    #[test]
    fn an_open_breaker_and_clients_of_their_own() {
        let with = |seconds: u64| {
            report(json!({
                "id": "db", "state": "ready", "tools": 1, "server": "db 2",
                "diagnostics": {
                    "state": "ready", "transport": "websocket", "protocolVersion": "2025-06-18",
                    "refusedForSeconds": seconds, "clients": { "open": 5, "limit": 32 }, "restarts": 1,
                    "lastError": "the server closed the connection",
                },
            }))
        };
        check(
            &with(12),
            "db: ready, 1 tool, db 2\n  \
             reached by `websocket`, protocol revision 2025-06-18\n  \
             too many calls in a row have failed; calls are refused for another 12 s\n  \
             5 client connections of their own, of 32 at most\n  \
             started again once, last because: the server closed the connection",
        );
        assert!(explain(&with(0)).contains("have failed; the next one tries it"));
        assert!(!is_ok(&with(0)));
    }

    #[test]
    fn a_login_is_asked_for() {
        let server = report(json!({
            "id": "mail", "state": "failed", "tools": 0, "login": { "state": "needed" },
            "problem": "the server does not accept the gateway's credentials (HTTP 401)",
            "diagnostics": { "state": "failed", "transport": "streamable_http" },
        }));
        check(
            &server,
            "mail: failed, and is tried again: the server does not accept the gateway's credentials (HTTP 401)\n  \
             it needs a login; run `drawgate servers login mail`\n  \
             reached by `streamable_http`",
        );
    }

    #[test]
    fn servers_that_are_not_there_yet_or_never_will() {
        check(
            &report(json!({ "id": "a", "state": "starting" })),
            "a: starting; it has not answered yet",
        );
        let unset = SecretError::Missing("KEY".to_owned()).to_string();
        check(
            &report(json!({ "id": "a", "state": "refused", "problem": unset })),
            &format!(
                "a: can't be used until the configuration changes: {unset}; `drawgate secrets set KEY` stores it, and `drawgate servers restart a` uses it"
            ),
        );
        check(
            &report(json!({ "id": "a", "state": "refused", "problem": "two tools `x`" })),
            "a: can't be used until the configuration changes: two tools `x`",
        );
    }
}
