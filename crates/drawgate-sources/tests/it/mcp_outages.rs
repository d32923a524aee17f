//! Short outages: servers that are killed and come back. However many there were before, the first
//! call after one is served or fails soon, and the next one works.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use drawgate_core::model::ErrorCode;
use drawgate_core::source::ToolSource;
use drawgate_core::testing::TestGate;
use drawgate_sources::mcp::{McpSource, SourceState};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{PATIENCE, code, echo, fixture, gate, mcp, stdio, text, until};

/// So many that doubling pauses would add up to minutes.
const OUTAGES: usize = 8;

/// A server on a port of its own, in a process that can be killed.
struct HttpServer {
    child: Child,
    port: u16,
}

impl HttpServer {
    #[expect(clippy::disallowed_methods, reason = "it plays a server elsewhere")]
    fn start(port: u16) -> Self {
        let mut child = Command::new("python3")
            .args([fixture("mcp_http_server.py"), port.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { port: said.trim().parse().unwrap(), child }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls until the outage is noticed: the first may still go out on a connection that is broken.
async fn is_down(source: &McpSource, gate: &TestGate) {
    let noticed = async {
        while source.report().state != SourceState::Failed {
            assert_eq!(code(&echo(gate, "x").await), Some(ErrorCode::Unavailable));
        }
    };
    tokio::time::timeout(PATIENCE, noticed).await.expect("it is noticed");
}

/// Of two calls, the second works if the first does not.
async fn works_again(gate: &TestGate, round: usize) {
    let first = echo(gate, "back").await;
    if code(&first).is_some() {
        assert_eq!(code(&first), Some(ErrorCode::Unavailable), "{round}: {first:?}");
        let second = echo(gate, "back").await;
        assert_eq!(text(&second), "back", "{round}: {second:?}");
    }
}

#[tokio::test]
async fn an_http_server_that_was_away_is_called_at_once_when_it_is_back() {
    let mut server = HttpServer::start(0);
    let port = server.port;
    let source = mcp(json!({ "url": format!("http://127.0.0.1:{port}/mcp") }));
    let gate = gate(&source).await;
    for round in 0..OUTAGES {
        server.kill();
        let restarts = source.report().restarts;
        is_down(&source, &gate).await;
        assert_eq!(code(&echo(&gate, "x").await), Some(ErrorCode::Unavailable), "{round}");
        assert!(source.report().restarts > restarts, "a call has it dialled");
        server = HttpServer::start(port);
        works_again(&gate, round).await;
    }
    source.close().await;
}

#[tokio::test]
async fn a_program_that_was_killed_is_started_for_the_next_call() {
    let source = stdio("echo");
    let gate = gate(&source).await;
    for round in 0..OUTAGES {
        until("it runs", || source.report().pid.is_some()).await;
        let pid = source.report().pid.and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        works_again(&gate, round).await;
    }
    source.close().await;
}

#[tokio::test]
async fn many_callers_share_an_attempt() {
    let mut server = HttpServer::start(0);
    let port = server.port;
    let source = mcp(json!({ "url": format!("http://127.0.0.1:{port}/mcp") }));
    let gate = gate(&source).await;
    server.kill();
    is_down(&source, &gate).await;
    let before = source.report().restarts;
    let calls = (0..200).map(|_| echo(&gate, "x"));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(code(&result), Some(ErrorCode::Unavailable));
    }
    // The gate lets some of them through at a time; those share an attempt.
    let attempts = source.report().restarts - before;
    assert!((1..20).contains(&attempts), "{attempts}");
    source.close().await;
}
