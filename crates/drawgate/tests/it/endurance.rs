//! What a gateway must bear for a long time: clients that come and never leave, servers that die.

use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::callers::{agent, ready};
use crate::catalogue::descendants;
use crate::load::{events, fixture, offers};
use crate::protocol::memory;
use crate::support::{Gateway, TestFolder, eventually, text};

/// How many sessions are open, by the metrics.
async fn sessions(gateway: &Gateway) -> u64 {
    let bearer = format!("Bearer {}", gateway.token);
    let answer = gateway.send(Method::GET, "/metrics", &[("authorization", &bearer)], "").await;
    let metrics = text(&answer.body);
    let line = metrics.lines().find_map(|line| line.strip_prefix("drawgate_mcp_sessions "));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

/// Opens sessions over one connection and leaves them.
async fn leave_open(address: String, token: String, count: usize) {
    let stream = TcpStream::connect(&address).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "t", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    for _ in 0..count {
        let request = Request::post("/mcp")
            .header("host", &address)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Body::from(message.to_string()))
            .unwrap();
        sender.ready().await.unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.headers().contains_key("mcp-session-id"));
        answer.into_body().collect().await.unwrap();
    }
}

/// Tries to open one more session, and ends it: where there is no room, the idle ones give way.
async fn come_and_go(gateway: &Gateway) {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = gateway.post_as(&gateway.token, &[], &message).await;
    if let Some(session) = answer.headers.get("mcp-session-id") {
        let bearer = format!("Bearer {}", gateway.token);
        let headers =
            [("authorization", bearer.as_str()), ("mcp-session-id", session.to_str().unwrap())];
        gateway.send(Method::DELETE, "/mcp", &headers, "").await;
    }
}

/// Ten thousand sessions that nobody ends cost little, end by themselves, and give their memory back.
#[tokio::test]
async fn ten_thousand_sessions_left_open_are_forgotten() {
    const SESSIONS: usize = 10_000;
    const AGENTS: usize = 5;
    const IDLE: Duration = Duration::from_secs(1);
    // A principal may have a quarter of all: the five of them stay below it.
    let place = TestFolder::new("[server]\nmax_sessions = 10000\nsession_idle_seconds = 1\n");
    let gateway = ready(&place).await;
    let tokens: Vec<String> =
        (0..AGENTS).map(|number| agent(&place, &format!("a{number}"), &[])).collect();
    assert_eq!(sessions(&gateway).await, 0);
    let before = memory(&gateway);
    let mut peaks = Vec::new();
    for round in 0..2 {
        let clients = tokens.iter().map(|token| {
            tokio::spawn(leave_open(gateway.address.clone(), token.clone(), SESSIONS / AGENTS))
        });
        let clients: Vec<_> = clients.collect();
        let (mut most, mut peak) = (0, 0);
        while clients.iter().any(|client| !client.is_finished()) {
            most = most.max(sessions(&gateway).await);
            peak = peak.max(memory(&gateway));
            tokio::task::yield_now().await;
        }
        for client in clients {
            client.await.unwrap();
        }
        peak = peak.max(memory(&gateway));
        most = most.max(sessions(&gateway).await);
        // They are swept while they are being opened: how many come together is a matter of the
        // machine. What each of them costs is not.
        assert!(most >= 500, "round {round}: {most} at a time");
        let grown = peak.saturating_sub(before);
        assert!(grown <= 16 * 1024 + 4 * most, "round {round}: {grown} KiB for {most} sessions");
        peaks.push((peak, most));
        // Who comes too early makes only some of them give way, and the others end later.
        let opened = Instant::now();
        eventually("all are idle", async || (opened.elapsed() > 2 * IDLE).then_some(())).await;
        eventually("they end by themselves", async || {
            come_and_go(&gateway).await;
            (sessions(&gateway).await == 0).then_some(())
        })
        .await;
    }
    let [(first, fewer), (second, more)] = peaks[..] else { panic!("two rounds") };
    let allowed = first + first / 4 + 4 * more.saturating_sub(fewer);
    assert!(second <= allowed, "{first} KiB, then {second} KiB");
    let grown = first.max(second).saturating_sub(before);
    eventually("the memory returns", async || {
        let kept = memory(&gateway).saturating_sub(before);
        // Where few came together, there is little to return.
        (kept <= (grown / 2).max(8 * 1024)).then_some(())
    })
    .await;
    assert_eq!(gateway.tool_names(&gateway.token).await.len(), 5);
}

/// A server that is killed under calls: each call is answered, and no dead process stays.
#[tokio::test]
async fn a_server_killed_under_calls_comes_back() {
    const KILLS: usize = 3;
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    offers(&gateway, "fixture__wait").await;
    let begun = place.path().join("begun");
    let mut killed = Vec::new();
    for _ in 0..KILLS {
        let waits = json!({ "begun": begun, "until": place.path().join("never") });
        let kill = async {
            eventually("the call has begun", async || begun.exists().then_some(())).await;
            let pid = descendants(gateway.child.id())[0];
            let raw = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            rustix::process::kill_process(raw, rustix::process::Signal::KILL).unwrap();
            pid
        };
        let (result, pid) =
            tokio::join!(gateway.call(&gateway.token, "fixture__wait", waits), kill);
        assert_eq!(result["_meta"]["drawgate/error"]["code"], "UNAVAILABLE", "{result}");
        killed.push(pid);
        std::fs::remove_file(&begun).unwrap();
        eventually("it is back", async || {
            let result = gateway.call(&gateway.token, "fixture__echo", json!({ "a": 1 })).await;
            (result["content"][0]["text"] == "{\"a\": 1}").then_some(())
        })
        .await;
        let left = descendants(gateway.child.id());
        assert!(left.len() == 1 && !killed.contains(&left[0]), "{left:?} of {killed:?}");
    }
    let calls = |kind: &str| events(&place).iter().filter(|event| event["kind"] == kind).count();
    let refused: Vec<Value> =
        events(&place).into_iter().filter(|event| event["code"] == "UNAVAILABLE").collect();
    assert!(refused.len() >= KILLS && calls("outcome") > refused.len());
}
