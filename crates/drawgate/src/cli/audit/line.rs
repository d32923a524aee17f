//! An event of the audit log on one line: what happened, by whom, about what, how it ended.

use drawgate_core::audit::search::AuditEntry;
use drawgate_core::registry::visible_line;
use serde_json::Value;

use crate::cli::screen::local_time;

/// Characters of a call's arguments on a line.
const SHORT: usize = 60;

/// What an event may be about, in the order of the line.
const SUBJECTS: [&str; 13] = [
    "toolId",
    "agent",
    "toolpack",
    "server",
    "profile",
    "plugin",
    "hook",
    "point",
    "taskId",
    "capability",
    "scope",
    "approvalId",
    "artifact",
];

/// A call or another event as a row of a table.
pub(super) fn row(entry: &AuditEntry) -> Vec<String> {
    let last = entry.events.last().unwrap_or(&Value::Null);
    let when = local_time(last["createdAt"].as_u64().unwrap_or(0));
    let mut who = text(last, "principal");
    if last["runId"].is_string() && last["agent"].is_string() {
        who = format!("{who} ({})", text(last, "agent"));
    }
    let is_call = last["callId"].is_string();
    let what = if is_call { text(last, "toolId") } else { joined(subjects(last)) };
    let took = last["durationMs"].as_u64().map(|ms| format!("{ms} ms")).unwrap_or_default();
    let ended = match last["kind"].as_str() {
        Some("outcome") => joined([ended(last), took]),
        Some(_) if is_call => "no outcome yet".to_owned(),
        _ => joined([ended(last), text(last, "reason")]),
    };
    let arguments = entry.arguments.as_deref().map(in_short).unwrap_or_default();
    vec![
        entry.sequence.to_string(),
        when,
        who,
        text(last, "surface"),
        what,
        arguments,
        first_line(&ended),
        approval(entry),
    ]
}

/// Who decided about a call, or that a person was asked.
fn approval(entry: &AuditEntry) -> String {
    let asked = entry.events.iter().find_map(|event| event["approvalId"].as_str());
    match (&entry.approval, asked) {
        (Some(decided), _) => {
            let (who, id) = (text(decided, "principal"), text(decided, "approvalId"));
            format!("{} by {who} ({id})", ended(decided))
        }
        (None, Some(id)) if entry.events.iter().all(|event| event["callId"].is_string()) => {
            format!("asked ({id})")
        }
        (None, _) => String::new(),
    }
}

/// The beginning of a call's arguments.
fn in_short(arguments: &str) -> String {
    let shown = visible_line(arguments);
    match shown.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}…", shown.get(..at).unwrap_or_default()),
        None => shown.into_owned(),
    }
}

fn joined(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

fn first_line(text: &str) -> String {
    text.split(['\n', '\r']).next().unwrap_or_default().to_owned()
}

/// What happened, and about what.
fn subjects(event: &Value) -> Vec<String> {
    let mut parts = vec![kind(event), named(event)];
    parts.extend(SUBJECTS.map(|key| text(event, key)));
    parts
}

/// The event, without its number and time. The arguments are those of a call that begins.
pub(super) fn line(event: &Value, arguments: Option<&str>) -> String {
    let mut columns = vec![kind(event), text(event, "principal"), named(event)];
    columns.extend(SUBJECTS.map(|key| text(event, key)));
    columns.extend([ended(event), text(event, "reason")]);
    columns.extend(arguments.map(in_short));
    columns.extend(event["remote"].as_str().map(|remote| format!("from {remote}")));
    columns.extend(event["durationMs"].as_u64().map(|ms| format!("{ms} ms")));
    // Some reasons are others' words; they get no line of their own.
    let shown = columns.iter().filter_map(|column| column.split(['\n', '\r']).next());
    shown.filter(|column| !column.is_empty()).collect::<Vec<_>>().join("  ")
}

/// What happened; of an act that is not done, also which one.
fn kind(event: &Value) -> String {
    match (event["kind"].as_str(), event["act"].as_str()) {
        (Some("act_started"), Some(act)) => format!("begins: {act}"),
        (Some("act_failed"), Some(act)) => format!("failed: {act}"),
        (kind, _) => kind.unwrap_or_default().to_owned(),
    }
}

/// A pack or an agent that dialled in, or whatever else has a name.
fn named(event: &Value) -> String {
    match (event["purpose"].as_str(), event["name"].as_str()) {
        (Some(purpose), Some(name)) => format!("{purpose} {name}"),
        (_, name) => name.unwrap_or_default().to_owned(),
    }
}

/// What every start writes.
const PLAIN: [&str; 9] = [
    "clean",
    "createdAt",
    "hash",
    "install",
    "kind",
    "prev",
    "previousHead",
    "sequence",
    "version",
];

/// Whether a log was opened after a regular end, and nothing was found about it.
pub(super) fn is_uneventful(event: &Value) -> bool {
    let says = |key: &String| !PLAIN.contains(&key.as_str());
    event["kind"] == "log_opened"
        && event["clean"] == true
        && !event.as_object().is_some_and(|event| event.keys().any(says))
}

/// How it ended, in a word.
pub(super) fn ended(event: &Value) -> String {
    match event["kind"].as_str() {
        Some("log_opened") => missing(event),
        Some("decision") => text(&event["decision"], "decision"),
        Some("outcome") => event["code"].as_str().unwrap_or("OK").to_owned(),
        Some("run_ended") => text(event, "ending"),
        Some("task_ended") => text(event, "state"),
        Some("hook_changed") => list(event, "changed"),
        Some("hook_objected") => text(event, "demand"),
        Some("approval_decided") if event["approved"] == true => "approved".to_owned(),
        Some("approval_decided") => "denied".to_owned(),
        Some("grant_issued" | "grant_revoked" | "act_started" | "act_failed") => {
            list(event, "grantIds")
        }
        _ => String::new(),
    }
}

/// What a start found missing from the log.
fn missing(event: &Value) -> String {
    let lost = event["lostHead"].as_u64().map(|lost| format!(": a signed head is of event {lost}"));
    let lost = lost.unwrap_or_default();
    match (event["logMissing"] == true, event["headMissing"] == true) {
        (true, _) => format!("THE LOG WAS MISSING{lost}"),
        (false, true) => "THE SIGNED HEADS WERE MISSING".to_owned(),
        (false, false) if !lost.is_empty() => format!("EVENTS WERE MISSING{lost}"),
        (false, false) if event["stateSetBack"] == true => "THE STATE WAS SET BACK".to_owned(),
        (false, false) => String::new(),
    }
}

/// A text member of an event.
fn text(event: &Value, key: &str) -> String {
    event[key].as_str().unwrap_or_default().to_owned()
}

/// A list of texts, joined.
fn list(event: &Value, key: &str) -> String {
    let items = event[key].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_say_whom_they_are_about() {
        let rows = [
            (
                json!({ "kind": "peer_connected", "purpose": "pack", "name": "one", "remote": "192.0.2.7",
                        "fingerprint": "SHA256:x", "connection": "grpc-1" }),
                "peer_connected  pack one  from 192.0.2.7",
            ),
            (
                json!({ "kind": "peer_disconnected", "purpose": "agent", "name": "bot", "reason": "kicked" }),
                "peer_disconnected  agent bot  kicked",
            ),
            (
                json!({ "kind": "peer_refused", "purpose": "pack", "name": "one",
                        "reason": "unknown_key", "remote": "2001:db8::1" }),
                "peer_refused  pack one  unknown_key  from 2001:db8::1",
            ),
            (
                json!({ "kind": "peer_refused", "reason": "timeout", "remote": "192.0.2.7" }),
                "peer_refused  timeout  from 192.0.2.7",
            ),
            (
                json!({ "kind": "key_added", "principal": "local", "purpose": "pack", "name": "one" }),
                "key_added  local  pack one",
            ),
            (
                json!({ "kind": "agent_added", "principal": "local", "agent": "bot" }),
                "agent_added  local  bot",
            ),
            (
                json!({ "kind": "grant_issued", "principal": "local", "capability": "file.read",
                        "scope": "user:bot", "grantIds": ["g_1"] }),
                "grant_issued  local  file.read  user:bot  g_1",
            ),
            (
                json!({ "kind": "approval_decided", "principal": "local", "toolId": "a:b",
                        "approvalId": "a_1", "approved": true }),
                "approval_decided  local  a:b  a_1  approved",
            ),
            (
                json!({ "kind": "hook_changed", "principal": "bot", "toolId": "a:b", "hook": "mover",
                        "point": "rewrite_call", "changed": ["/path"], "enforced": true }),
                "hook_changed  bot  a:b  mover  rewrite_call  /path",
            ),
            (
                json!({ "kind": "plugin_added", "principal": "local", "plugin": "notes", "hash": "sha256:0" }),
                "plugin_added  local  notes",
            ),
            (
                json!({ "kind": "run_ended", "principal": "local", "agent": "helper", "ending": "done" }),
                "run_ended  local  helper  done",
            ),
            (
                json!({ "kind": "decision", "principal": "bot", "toolId": "a:b", "grantIds": ["g_1"],
                        "decision": { "decision": "allow", "reason": "no rule matches" } }),
                "decision  bot  a:b  allow",
            ),
        ];
        for (event, expected) in rows {
            assert_eq!(line(&event, None), expected);
        }
    }

    #[test]
    fn a_start_says_what_it_found_missing() {
        let rows = [
            (json!({ "kind": "log_opened", "version": "1" }), "log_opened"),
            (
                json!({ "kind": "log_opened", "logMissing": true, "lostHead": 9 }),
                "log_opened  THE LOG WAS MISSING: a signed head is of event 9",
            ),
            (
                json!({ "kind": "log_opened", "lostHead": 9 }),
                "log_opened  EVENTS WERE MISSING: a signed head is of event 9",
            ),
            (
                json!({ "kind": "log_opened", "headMissing": true }),
                "log_opened  THE SIGNED HEADS WERE MISSING",
            ),
        ];
        for (event, expected) in rows {
            assert_eq!(line(&event, None), expected);
        }
    }

    #[test]
    fn a_call_ends_in_one_of_three_ways() {
        let rows = [
            (json!({ "toolId": "a:b", "durationMs": 3 }), "outcome  a:b  OK  3 ms"),
            (json!({ "toolId": "a:b", "code": "TIMEOUT" }), "outcome  a:b  TIMEOUT"),
            (
                json!({ "toolId": "a:b", "code": "ASKED", "inputRequired": ["roots/list"] }),
                "outcome  a:b  ASKED",
            ),
        ];
        for (mut event, expected) in rows {
            event["kind"] = "outcome".into();
            assert_eq!(line(&event, None), expected);
        }
    }

    #[test]
    fn an_act_that_is_not_done_does_not_look_as_if_it_were() {
        let rows = [
            (
                json!({ "kind": "act_started", "act": "grant_revoked", "principal": "local",
                        "actId": "a1", "grantIds": ["g_1"] }),
                "begins: grant_revoked  local  g_1",
            ),
            (
                json!({ "kind": "act_failed", "act": "toolpack_enabled", "principal": "local",
                        "actId": "a2", "toolpack": "kit",
                        "reason": "it can't be read\r  1  forged line\n  2  another" }),
                "failed: toolpack_enabled  local  kit  it can't be read",
            ),
        ];
        for (event, expected) in rows {
            assert_eq!(line(&event, None), expected);
        }
    }
}
