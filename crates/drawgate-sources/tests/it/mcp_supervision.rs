//! How servers are looked after: the breaker, sleep, connections for single clients, crashes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use drawgate_core::model::{Caller, ErrorCode, Operation, ToolResult};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::ToolSource;
use drawgate_core::testing::{TestGate, caller};
use drawgate_sources::mcp::{ClientConnections, McpSource, SourceState};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::mcp_features as features;
use crate::support::{PATIENCE, alive, code, echo, fixture, gate, invocation, mcp, text, until};

/// The fixture server in a mode, with further settings.
fn server(mode: &str, state: Option<&str>, settings: &Value) -> Arc<McpSource> {
    let mut args = vec![fixture("mcp_server.py"), mode.to_owned()];
    args.extend(state.map(str::to_owned));
    let mut config = json!({ "command": "python3", "args": args });
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    mcp(config)
}

fn message(result: &ToolResult) -> &str {
    result.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default()
}

#[tokio::test]
async fn five_failed_calls_open_the_breaker() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("repaired");
    let settings = json!({ "breaker_pause_ms": 600_000 });
    let source = server("broken_until", state.to_str(), &settings);
    let gate = gate(&source).await;
    for round in 0..5 {
        assert_eq!(source.report().refused_for_seconds, None, "round {round}");
        assert_eq!(code(&echo(&gate, "x").await), Some(ErrorCode::ExecutionFailed));
    }
    std::fs::write(&state, "").unwrap();
    let refused = echo(&gate, "x").await;
    assert_eq!(code(&refused), Some(ErrorCode::Unavailable));
    assert!(message(&refused).contains("failed 5 calls in a row"), "{}", message(&refused));
    assert!(message(&refused).contains("not called for another"), "{}", message(&refused));
    assert!(source.report().refused_for_seconds.is_some());
    assert_eq!(source.manifest().await.unwrap().tools.len(), 1, "it can still be asked");
    source.close().await;
}

#[tokio::test]
async fn a_trial_that_works_closes_the_breaker() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("repaired");
    let source = server("broken_until", state.to_str(), &json!({ "breaker_pause_ms": 1 }));
    let gate = gate(&source).await;
    for _ in 0..5 {
        echo(&gate, "x").await;
    }
    until("one may try", || source.report().refused_for_seconds == Some(0)).await;
    std::fs::write(&state, "").unwrap();
    // Should the pause not be over, the next attempt comes soon.
    let works = async { while text(&echo(&gate, "back").await) != "back" {} };
    tokio::time::timeout(PATIENCE, works).await.expect("it works again");
    assert_eq!(source.report().refused_for_seconds, None);
    source.close().await;
}

#[tokio::test]
async fn failures_of_tools_leave_the_breaker_alone() {
    let source = server("rpc_error", None, &json!({ "breaker_pause_ms": 600_000 }));
    let gate = gate(&source).await;
    for _ in 0..10 {
        assert_eq!(code(&echo(&gate, "x").await), Some(ErrorCode::ExecutionFailed));
    }
    assert_eq!(source.report().refused_for_seconds, None);
    source.close().await;
}

#[tokio::test]
async fn an_unused_server_sleeps_and_wakes_for_a_call() {
    let source = server("counter", None, &json!({ "idle_shutdown_ms": 100 }));
    let gate = gate(&source).await;
    let mut changes = source.changes().unwrap();
    changes.mark_unchanged();
    for _ in 0..2 {
        let group = source.report().pid;
        until("it sleeps", || source.report().state == SourceState::Idle).await;
        assert_eq!(source.report().pid, None);
        if let Some(group) = group {
            until("the process is gone", || alive(group) == 0).await;
        }
        assert_eq!(text(&echo(&gate, "x").await), "1", "a new process");
    }
    assert!(!changes.has_changed().unwrap(), "the gate does not take it for a failure");
    assert_eq!(source.report().restarts, 0);
    assert_eq!(source.report().last_error, None);
    source.close().await;
    assert_eq!(source.report().state, SourceState::Closed);
}

#[tokio::test]
async fn a_call_under_way_keeps_the_server_awake() {
    let source = server("pause", None, &json!({ "idle_shutdown_ms": 20 }));
    let gate = gate(&source).await;
    for _ in 0..3 {
        assert_eq!(text(&echo(&gate, "slowly").await), "slowly");
    }
    source.close().await;
}

#[tokio::test]
async fn a_sleeping_server_that_fails_to_wake_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("server.py");
    std::fs::copy(fixture("mcp_server.py"), &script).unwrap();
    let source = mcp(json!({
        "command": "python3", "args": [script, "echo"], "idle_shutdown_ms": 50,
    }));
    let gate = gate(&source).await;
    let mut changes = source.changes().unwrap();
    until("it sleeps", || source.report().state == SourceState::Idle).await;
    changes.mark_unchanged();
    std::fs::remove_file(&script).unwrap();
    let result = echo(&gate, "x").await;
    assert_eq!(code(&result), Some(ErrorCode::Unavailable));
    changes.changed().await.unwrap();
    assert_eq!(source.report().state, SourceState::Failed);
    source.close().await;
}

/// A client by its principal and its session.
fn client(name: &str) -> Caller {
    let (principal, session) = name.split_once('/').unwrap_or(("ann", name));
    Caller { session: Some(session.into()), ..caller(principal) }
}

async fn call_as(gate: &TestGate, name: &str) -> ToolResult {
    let client = client(name);
    let work = gate.gateway.call(&client, invocation("x", None), CallOptions::default());
    tokio::time::timeout(PATIENCE, Box::pin(work)).await.expect("a call ends")
}

#[tokio::test]
async fn clients_may_have_servers_of_their_own() {
    let own = server("counter", None, &json!({ "sessions": "per_client" }));
    let own_gate = gate(&own).await;
    let shared = server("counter", None, &json!({}));
    let shared_gate = gate(&shared).await;
    let calls =
        [("a", "1", "1"), ("a", "2", "2"), ("b", "1", "3"), ("a", "3", "4"), ("b", "2", "5")];
    for (session, apart, together) in calls {
        assert_eq!(text(&call_as(&own_gate, session).await), apart);
        assert_eq!(text(&call_as(&shared_gate, session).await), together);
    }
    assert_eq!(own.report().clients, Some(ClientConnections { open: 2, limit: 32 }));
    assert_eq!(shared.report().clients, None);
    own.close().await;
    shared.close().await;
}

/// A client of one of four principals in turn.
fn several(index: usize) -> String {
    format!("p{}/{index}", index % 4)
}

#[tokio::test]
async fn one_principal_gives_way_to_itself() {
    let source = server("counter", None, &json!({ "sessions": "per_client" }));
    let gate = gate(&source).await;
    assert_eq!(text(&call_as(&gate, "bob/1").await), "1");
    for session in 0..9 {
        assert_eq!(text(&call_as(&gate, &format!("ann/{session}")).await), "1");
    }
    assert_eq!(source.report().clients, Some(ClientConnections { open: 9, limit: 32 }));
    assert_eq!(text(&call_as(&gate, "bob/1").await), "2", "it was silent for longest");
    assert_eq!(text(&call_as(&gate, "ann/8").await), "2");
    assert_eq!(text(&call_as(&gate, "ann/0").await), "1", "it had to go");
    source.close().await;
}

#[tokio::test]
async fn the_client_that_was_silent_for_longest_gives_way() {
    let source = server("counter", None, &json!({ "sessions": "per_client" }));
    let gate = gate(&source).await;
    for index in 0..32 {
        assert_eq!(text(&call_as(&gate, &several(index)).await), "1");
    }
    assert_eq!(text(&call_as(&gate, "p0/0").await), "2");
    assert_eq!(text(&call_as(&gate, "one more").await), "1");
    assert_eq!(text(&call_as(&gate, "p0/0").await), "3", "it was used meanwhile");
    assert_eq!(text(&call_as(&gate, "p1/1").await), "1", "it had to go");
    assert_eq!(source.report().clients, Some(ClientConnections { open: 32, limit: 32 }));
    source.close().await;
    until("all are gone", || children().is_empty()).await;
}

#[tokio::test]
async fn busy_connections_are_not_taken_away() {
    let source = server("slow", None, &json!({ "sessions": "per_client" }));
    let gate = Arc::new(gate(&source).await);
    let started = |session: usize| {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move { call_as(&gate, &several(session)).await })
    };
    let waiting: Vec<_> = (0..32).map(started).collect();
    until("all have connections", || {
        source.report().clients.is_some_and(|clients| clients.open == 32)
    })
    .await;
    let refused = call_as(&gate, "one more").await;
    assert_eq!(code(&refused), Some(ErrorCode::Unavailable));
    assert!(message(&refused).contains("all 32 connections"), "{}", message(&refused));
    let refused = call_as(&gate, "p0/one more").await;
    assert_eq!(code(&refused), Some(ErrorCode::Unavailable));
    assert!(message(&refused).contains("all 8 connections that `p0`"), "{}", message(&refused));
    for call in waiting {
        call.abort();
    }
    source.close().await;
}

/// Processes that this one has started, the dead ones included that nobody has waited for.
fn children() -> BTreeSet<u32> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        (*fields.get(1)? == own).then_some(pid)
    };
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(parent)
        .collect()
}

#[tokio::test]
async fn a_server_killed_again_and_again_loses_no_call_and_leaves_nothing() {
    const KILLS: usize = 100;
    let settings = json!({ "longest_pause_ms": 1, "breaker_pause_ms": 1 });
    let source = server("echo", None, &settings);
    let gate = Arc::new(gate(&source).await);
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (gate, over, answered) =
                (Arc::clone(&gate), Arc::clone(&over), Arc::clone(&answered));
            tokio::spawn(async move {
                let mut failed = 0_usize;
                while !over.load(Ordering::Relaxed) {
                    // It fails the test itself if the call does not end.
                    let result = echo(&gate, "x").await;
                    match code(&result) {
                        None => {
                            assert_eq!(text(&result), "x");
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Some(ErrorCode::Unavailable) => failed += 1,
                        Some(other) => panic!("{other:?}: {result:?}"),
                    }
                    tokio::task::yield_now().await;
                }
                failed
            })
        })
        .collect();
    let mut killed = BTreeSet::new();
    while killed.len() < KILLS {
        until("a new process is ready", || {
            let report = source.report();
            report.state == SourceState::Ready
                && report.pid.is_some_and(|pid| !killed.contains(&pid))
        })
        .await;
        let before = answered.load(Ordering::Relaxed);
        until("it answers", || answered.load(Ordering::Relaxed) > before).await;
        let Some(pid) = source.report().pid else { continue };
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        killed.insert(pid.as_raw_nonzero().get().unsigned_abs());
    }
    until("it is back", || source.report().restarts >= 100).await;
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    source.close().await;
    until("no process is left", || children().is_disjoint(&killed)).await;
    for group in killed {
        assert_eq!(alive(group), 0);
    }
}

/// Returns when a server that may be unused for longer has fallen asleep.
async fn others_sleep() {
    let source = server("echo", None, &json!({ "idle_shutdown_ms": 300 }));
    source.manifest().await.unwrap();
    until("another server sleeps", || source.report().state == SourceState::Idle).await;
    source.close().await;
}

#[tokio::test]
async fn questions_and_subscriptions_keep_the_server_awake() {
    let source = mcp(json!({
        "command": "python3", "args": [fixture("mcp_features.py"), "sessions"], "idle_shutdown_ms": 50,
    }));
    let gate = gate(&source).await;
    let asked = features::say(&gate, "elicit", features::can_elicit()).await;
    let group = source.report().pid;
    others_sleep().await;
    assert_eq!((source.report().state, source.report().pid), (SourceState::Ready, group));
    let answer = json!({ "action": "accept", "content": { "n": 7 } });
    let call = features::answered("elicit", &asked, json!({ "q1": answer }));
    let done = features::call_as(&gate, &caller("ann"), call, features::can_elicit()).await;
    assert_eq!(features::said(&done), answer);
    let uri = json!({ "uri": "mem://a" });
    assert!(features::ask(&gate, Operation::Subscribe, uri.clone()).await.success);
    let group = source.report().pid;
    others_sleep().await;
    assert_eq!((source.report().state, source.report().pid), (SourceState::Ready, group));
    assert!(features::ask(&gate, Operation::Unsubscribe, uri).await.success);
    until("it sleeps", || source.report().state == SourceState::Idle).await;
    source.close().await;
}
