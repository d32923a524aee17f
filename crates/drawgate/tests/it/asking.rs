//! Asking the audit log: who did what, when, and who approved it.

use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};

use crate::load::{events, offers};
use crate::support::{Gateway, TestFolder, eventually, text};

/// Deleting needs a person's yes.
const CONFIG: &str = "[approvals]\nhold_seconds = 60\n[policy.defaults]\nfallback = \"allow\"\n\
    [[policy.rules]]\nid = \"ask\"\naction = \"*\"\nwhen = { toolId = \"builtin:vfs_delete\" }\n\
    decision = \"allow_with_confirm\"\nreason = \"deleting is serious\"\n";

/// Two agents: one writes and deletes a file, after a yes; the other may do nothing.
async fn history(place: &TestFolder) -> Gateway {
    let ada = place.ok(&["agents", "add", "ada", "--tools", "vfs_*", "--quiet"]);
    let bob = place.ok(&["agents", "add", "bob", "--quiet"]);
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    let content = format!("hello {}", gateway.token);
    let write = json!({ "path": "Notes.txt", "content": content });
    gateway.call(ada.trim(), "vfs_write", write).await;
    let delete = json!({ "path": "Notes.txt" });
    let approve = async {
        let waiting = eventually("an approval", async || {
            place.json(&["approvals", "list"]).as_array().unwrap().first().cloned()
        });
        assert!(place.approve(waiting.await["id"].as_str().unwrap()).status.success());
    };
    tokio::join!(gateway.call(ada.trim(), "vfs_delete", delete.clone()), approve);
    gateway.call(bob.trim(), "vfs_delete", delete).await;
    gateway
}

fn search(place: &TestFolder, question: &[&str]) -> Vec<Value> {
    let found = place.json(&[&["audit", "search"], question].concat());
    found.as_array().unwrap().clone()
}

/// What is found, as agent and tool.
fn found(place: &TestFolder, question: &[&str]) -> Vec<String> {
    let shown = |entry: &Value| {
        let last = entry["events"].as_array().unwrap().last().unwrap();
        let tool = last["toolId"].as_str().or(last["kind"].as_str()).unwrap();
        format!("{} {tool}", last["principal"].as_str().unwrap_or("-"))
    };
    search(place, question).iter().map(shown).collect()
}

fn check(place: &TestFolder, token: &str, when: &str) {
    let rows: [(&[&str], &[&str]); 9] = [
        (&["--tool", "*delete*"], &["ada builtin:vfs_delete", "bob builtin:vfs_delete"]),
        (&["--tool", "*delete*", "--code", "ok", "--since", "1h"], &["ada builtin:vfs_delete"]),
        (&["--agent", "bob", "--code", "permission_denied"], &["bob builtin:vfs_delete"]),
        // What was denied has its arguments in the log, too.
        (
            &["--text", "notes.TXT"],
            &["ada builtin:vfs_write", "ada builtin:vfs_delete", "bob builtin:vfs_delete"],
        ),
        (&["--text", "deleting is serious"], &["ada builtin:vfs_delete"]),
        (&["--text", "hello", "--agent", "ada"], &["ada builtin:vfs_write"]),
        // What the log does not hold is not found.
        (&["--text", token], &[]),
        (&["--until", "2026-01-01"], &[]),
        (&["--tool", "*delete*", "-n", "1"], &["bob builtin:vfs_delete"]),
    ];
    for (question, expected) in rows {
        assert_eq!(found(place, question), expected, "{when}: {question:?}");
    }
    let table = place.ok(&["audit", "search", "--tool", "*delete*", "--code", "OK"]);
    let words: Vec<&str> = table.split_whitespace().collect();
    for part in
        ["ada", "mcp_http", "builtin:vfs_delete", r#"{"path":"Notes.txt"}"#, "approved by local ("]
    {
        assert!(words.join(" ").contains(part), "{when}: {part}: {table}");
    }
    let tail = place.ok(&["audit", "tail", "--agent", "ada", "--tool", "vfs_write"]);
    assert_eq!(tail.lines().count(), 2, "{when}: {tail}");
    assert!(tail.contains("Notes.txt") && !tail.contains(token), "{when}: {tail}");
    let nothing = place.ok(&["audit", "search", "--agent", "nobody"]);
    assert!(nothing.starts_with("nothing in the audit log matches"), "{nothing}");
}

/// An id is shown, whatever it is of.
fn check_ids(place: &TestFolder, when: &str) {
    let deleted = search(place, &["--tool", "*delete*", "--code", "ok"]).remove(0);
    let decision = &deleted["events"].as_array().unwrap()[1];
    assert_eq!(decision["kind"], "decision", "{decision}");
    let [call, approval] = ["callId", "approvalId"].map(|key| decision[key].as_str().unwrap());
    let sequence = decision["sequence"].to_string();
    let rows = [
        (call.to_owned(), vec!["approval_required", "decision", "outcome"]),
        (
            approval.to_owned(),
            vec!["approval_required", "act_started", "approval_decided", "decision", "outcome"],
        ),
        (sequence.clone(), vec!["decision"]),
        (format!("event:{sequence}"), vec!["decision"]),
        (format!("call:{call}"), vec!["approval_required", "decision", "outcome"]),
    ];
    for (id, expected) in rows {
        let shown = place.ok(&["audit", "show", &id, "--json"]);
        let events = serde_json::Deserializer::from_str(&shown).into_iter::<Value>();
        let kinds: Vec<Value> = events.map(|event| event.unwrap()["kind"].clone()).collect();
        assert_eq!(json!(kinds), json!(expected), "{when}: {id}");
    }
    // The caller's own number, which is also an event's.
    let both = place.run(&["audit", "show", "1"]);
    let said = text(&both.stderr);
    assert!(said.contains("event 1: 1 event\n") && said.contains("request 1: "), "{when}: {said}");
    let wrong = place.run(&["audit", "show", "approval:1"]);
    assert_eq!(wrong.status.code(), Some(1));
}

#[tokio::test]
async fn a_question_is_one_command_with_and_without_a_gateway() {
    let place = TestFolder::new(CONFIG);
    let gateway = history(&place).await;
    let token = gateway.token.clone();
    check(&place, &token, "running");
    check_ids(&place, "running");
    assert_eq!(gateway.terminate(), Some(0));
    let before = events(&place).len();
    check(&place, &token, "alone");
    check_ids(&place, "alone");
    assert_eq!(events(&place).len(), before, "asking writes nothing");
}

#[tokio::test]
async fn times_are_those_of_the_clock_on_the_wall() {
    let place = TestFolder::new(CONFIG);
    drop(history(&place).await);
    let all = events(&place);
    let is_delete = |event: &&Value| event["toolId"] == "builtin:vfs_delete";
    let deleted = all.iter().rfind(is_delete).unwrap();
    let at = i64::try_from(deleted["createdAt"].as_u64().unwrap()).unwrap();
    let at = DateTime::from_timestamp_millis(at).unwrap();
    for (zone, minutes) in [("UTC0", 0), ("XXX-5:30", 330), ("YYY3", -180)] {
        let local = at + TimeDelta::minutes(minutes);
        let ask = |time: &str| {
            let question = ["audit", "search", "--agent", "bob", "--since", time, "--until", time];
            let output = place.command(&question).env("TZ", zone).output().unwrap();
            text(&output.stdout)
        };
        for format in ["%H:%M", "%H:%M:%S", "%Y-%m-%d", "%Y-%m-%dT%H:%M"] {
            let table = ask(&local.format(format).to_string());
            let shown = local.format("%Y-%m-%d %H:%M:%S").to_string();
            assert!(table.contains(&shown), "{zone} {format}: {table}");
        }
        let other = ask(&(local - TimeDelta::hours(2)).format("%H:%M").to_string());
        assert!(other.starts_with("nothing"), "{zone}: {other}");
    }
    let wrong = place.run(&["audit", "search", "--since", "soon"]);
    assert!(text(&wrong.stderr).contains("write `14:05`"), "{}", text(&wrong.stderr));
}
