//! Servers that break the protocol, through the whole program: the caller gets an answer or an
//! error, the log one outcome, and nobody else notices.

use serde_json::{Value, json};

use super::misbehaving;
use crate::load::{events, offers};
use crate::support::{Gateway, TestFolder, eventually};

/// Name in the catalogue, which is the server's mode too; settings of the server; what comes back.
const ROWS: &[(&str, &str, Expected)] = &[
    ("wrong_id", "timeout_seconds = 1", Expected::Code("TIMEOUT")),
    ("twice", "", Expected::Text("first")),
    ("error_and_result", "", Expected::Code("EXECUTION_FAILED")),
    ("server_request", "", Expected::Holds("-32601")),
    ("progress_flood", "timeout_seconds = 60", Expected::Text("hello")),
    ("split_writes", "", Expected::Text("hello")),
    ("exit_mid_call", "", Expected::Code("UNAVAILABLE")),
    ("old_protocol", "", Expected::Text("hello")),
    ("garbage", "", Expected::Text("hello")),
    ("flood_stderr", "", Expected::Text("hello")),
    ("slow", "timeout_seconds = 1", Expected::Code("TIMEOUT")),
];

#[derive(Debug)]
enum Expected {
    Code(&'static str),
    Text(&'static str),
    Holds(&'static str),
}

async fn echo(gateway: &Gateway, server: &str, message: &str) -> Value {
    let tool = format!("{server}__echo");
    gateway.call(&gateway.token, &tool, json!({ "message": message })).await
}

fn said(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

fn code(result: &Value) -> &str {
    result["_meta"]["drawgate/error"]["code"].as_str().unwrap_or("OK")
}

#[tokio::test]
async fn upstream_result_and_stdio_upstream() {
    let mut config = misbehaving("good", "echo", "");
    for (mode, more, _) in ROWS {
        config += &misbehaving(mode, mode, more);
    }
    let place = TestFolder::new(&config);
    let gateway = place.serve();
    for name in ROWS.iter().map(|(mode, ..)| *mode).chain(["good"]) {
        offers(&gateway, &format!("{name}__echo")).await;
    }
    for (mode, _, expected) in ROWS {
        let result = echo(&gateway, mode, "hello").await;
        let good = match expected {
            Expected::Code(wanted) => code(&result) == *wanted,
            Expected::Text(wanted) => said(&result) == *wanted,
            Expected::Holds(wanted) => said(&result).contains(wanted),
        };
        assert!(good, "{mode}: {expected:?}, but {result}");
        assert_eq!(said(&echo(&gateway, "good", "as ever").await), "as ever", "{mode}");
    }
    let outcomes = events(&place).into_iter().filter(|event| event["kind"] == "outcome");
    assert_eq!(outcomes.count(), 2 * ROWS.len(), "one for each call");
}

#[tokio::test]
async fn stdin_not_read() {
    let config = misbehaving("deaf", "stdin_not_read", "timeout_seconds = 10");
    let place = TestFolder::new(&(config + &misbehaving("good", "echo", "")));
    let gateway = place.serve();
    for tool in ["deaf__echo", "good__echo"] {
        offers(&gateway, tool).await;
    }
    assert_eq!(said(&echo(&gateway, "deaf", "stop").await), "stopped");
    let large = "x".repeat(900 * 1024);
    let (a, b, good) = tokio::join!(
        echo(&gateway, "deaf", &large),
        echo(&gateway, "deaf", "small"),
        echo(&gateway, "good", "hello")
    );
    assert_eq!((code(&a), code(&b), said(&good)), ("TIMEOUT", "TIMEOUT", "hello"));
}

#[tokio::test]
async fn exit_at_start() {
    let config = misbehaving("never", "exit_at_start", "");
    let place = TestFolder::new(&(config + &misbehaving("good", "echo", "")));
    let gateway = place.serve();
    offers(&gateway, "good__echo").await;
    eventually("the failure is seen", async || {
        let servers = place.json(&["servers", "list"]);
        let never = servers.as_array().unwrap().iter().find(|one| one["id"] == "never").cloned();
        never.filter(|never| never.to_string().contains("exited with code 3"))
    })
    .await;
    let refused = said(&echo(&gateway, "never", "hello").await).to_owned();
    assert!(refused.contains("UNAVAILABLE: `never` failed: "), "{refused}");
    assert_eq!(said(&echo(&gateway, "good", "hello").await), "hello");
}

/// Processes that a process has started, and those that they have, the dead ones included.
pub(crate) fn descendants(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Removed from the configuration, or with the whole gateway: none of its processes is left.
#[tokio::test]
async fn ignores_stdin_close_and_grandchildren() {
    for mode in ["grandchildren", "ignores_stdin_close"] {
        for removed in [true, false] {
            let place = TestFolder::new(&misbehaving("tree", mode, ""));
            let gateway = place.serve();
            offers(&gateway, "tree__echo").await;
            let all = eventually("the tree has grown", async || {
                Some(descendants(gateway.child.id())).filter(|all| all.len() >= 5)
            })
            .await;
            if removed {
                place.configure("");
                eventually("all are gone and waited for", async || {
                    descendants(gateway.child.id()).is_empty().then_some(())
                })
                .await;
            } else {
                assert_eq!(gateway.terminate(), Some(0));
            }
            eventually(mode, async || (!all.iter().any(|pid| is_alive(*pid))).then_some(())).await;
        }
    }
}
