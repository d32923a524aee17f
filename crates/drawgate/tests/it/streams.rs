//! Answers that are streams: notices, progress, and clients that go away.

use std::path::Path;

use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::callers::{agent, ready};
use crate::protocol::memory;
use crate::support::{Gateway, TestFolder, eventually};

/// The server of these tests, in one of its modes.
fn server(mode: &str) -> String {
    let script =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../drawgate-sources/tests/fixtures/mcp_server.py");
    format!("[servers.py]\ncommand = \"python3\"\nargs = [\"{script}\", \"{mode}\"]\n")
}

/// The same, which answers as soon as there is a file `go` in the folder.
fn server_until(folder: &Path) -> String {
    let (folder, server) = (folder.display(), server("until"));
    server.replace("\"until\"]", &format!("\"until\", \"{folder}\"]"))
}

async fn ready_with(place: &TestFolder, tool: &str) -> Gateway {
    let gateway = place.serve();
    eventually("the tool", async || {
        gateway.tool_names(&gateway.token).await.iter().any(|name| name == tool).then_some(())
    })
    .await;
    gateway
}

/// A stream of events that is being read.
pub(crate) struct Events {
    status: StatusCode,
    body: Incoming,
    text: String,
    /// The id of the last event.
    last_id: Option<String>,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Events {
    pub(crate) async fn open(
        gateway: &Gateway,
        token: &str,
        method: Method,
        headers: &[(&str, &str)],
        message: &Value,
    ) -> Self {
        let stream = TcpStream::connect(&gateway.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(&method)
            .uri("/mcp")
            .header("host", &gateway.address)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body =
            if method == Method::GET { Body::empty() } else { Body::from(message.to_string()) };
        let answer = sender.send_request(request.body(body).unwrap()).await.unwrap();
        let (status, body) = (answer.status(), answer.into_body());
        Self { status, body, text: String::new(), last_id: None, connection }
    }

    /// The stream of a session.
    pub(crate) async fn of_session(gateway: &Gateway, token: &str, session: &str) -> Self {
        let events =
            Self::open(gateway, token, Method::GET, &[("mcp-session-id", session)], &Value::Null)
                .await;
        assert_eq!(events.status, StatusCode::OK);
        events.standing().await
    }

    /// A request of revision 2026-07-28 that is answered by a stream.
    pub(crate) async fn stateless(
        gateway: &Gateway,
        token: &str,
        method: &str,
        mut params: Value,
    ) -> Self {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let headers =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &name)];
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        Self::open(gateway, token, Method::POST, &headers, &message).await
    }

    /// Waits until the first bytes show that the stream stands.
    async fn standing(mut self) -> Self {
        while !self.text.contains("\n\n") {
            assert!(self.more().await);
        }
        self
    }

    /// All messages until the end, of a stream or of a plain answer.
    pub(crate) async fn whole(mut self) -> Vec<Value> {
        while self.more().await {}
        if let Ok(plain) = serde_json::from_str(&self.text) {
            return vec![plain];
        }
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        let data = data.filter(|line| !line.is_empty());
        data.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn more(&mut self) -> bool {
        let Some(Ok(frame)) = self.body.frame().await else { return false };
        self.text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
        true
    }

    /// The next message; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let values = |field: &str| -> Vec<String> {
                    let values = event.lines().filter_map(|line| line.strip_prefix(field));
                    values.filter(|value| !value.is_empty()).map(str::to_owned).collect()
                };
                let lines = values("data: ");
                assert!(lines.len() <= 1, "{event}");
                self.last_id = values("id: ").pop().or(self.last_id.take());
                let message = lines.first().map(|line| serde_json::from_str(line).unwrap());
                self.text = rest.into();
                if message.is_some() {
                    return message;
                }
            } else if !self.more().await {
                return None;
            }
        }
    }
}

async fn metric(gateway: &Gateway, name: &str) -> String {
    let bearer = format!("Bearer {}", gateway.token);
    let answer = gateway.send(Method::GET, "/metrics", &[("authorization", &bearer)], "").await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

async fn under_way(gateway: &Gateway, count: &str) {
    eventually("calls under way", async || {
        (metric(gateway, "drawgate_calls_under_way").await == count).then_some(())
    })
    .await;
}

/// The codes of the outcomes that the audit log holds.
fn outcomes(place: &TestFolder) -> Vec<String> {
    let log = place.ok(&["audit", "export", "--json"]);
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let outcomes = events.filter(|event| event["kind"] == "outcome");
    outcomes.map(|event| event["code"].as_str().unwrap_or("OK").to_owned()).collect()
}

async fn ended_as_cancelled(place: &TestFolder) {
    let codes =
        eventually("an outcome", async || Some(outcomes(place)).filter(|codes| !codes.is_empty()))
            .await;
    assert_eq!(codes, ["CANCELLED"]);
}

#[tokio::test]
async fn a_session_hears_of_new_tools() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let session = gateway.open_session(&gateway.token).await;
    let mut events = Events::of_session(&gateway, &gateway.token, &session).await;
    place.configure(&server("echo"));
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    assert_eq!(events.next().await, Some(notice.clone()));
    assert!(gateway.tool_names(&gateway.token).await.contains(&"py__echo".to_owned()));
    place.configure("");
    assert_eq!(events.next().await, Some(notice));
    assert_eq!(gateway.tool_names(&gateway.token).await.len(), 5);
}

#[tokio::test]
async fn only_those_concerned_hear_of_a_grant() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let (ann, bob) = (agent(&place, "ann", &[]), agent(&place, "bob", &[]));
    let (of_ann, of_bob) = (gateway.open_session(&ann).await, gateway.open_session(&bob).await);
    let mut to_ann = Events::of_session(&gateway, &ann, &of_ann).await;
    let mut to_bob = Events::of_session(&gateway, &bob, &of_bob).await;
    let id = place.ok(&["grants", "add", "file.read", "--agent", "ann", "--quiet"]);
    assert_eq!(to_ann.next().await.unwrap()["method"], "notifications/tools/list_changed");
    place.ok(&["grants", "revoke", id.trim()]);
    assert_eq!(to_ann.next().await.unwrap()["method"], "notifications/tools/list_changed");
    // When the session ends its stream does; nothing was ever said to the other.
    let bearer = format!("Bearer {bob}");
    gateway
        .send(
            Method::DELETE,
            "/mcp",
            &[("authorization", &bearer), ("mcp-session-id", &of_bob)],
            "",
        )
        .await;
    assert_eq!(to_bob.next().await, None);
}

#[tokio::test]
async fn a_subscription_is_acknowledged_and_kept() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let token = agent(&place, "ann", &[]);
    let params =
        json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
    let mut events = Events::stateless(&gateway, &token, "subscriptions/listen", params).await;
    let first = events.next().await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let granted = json!({ "toolsListChanged": true, "promptsListChanged": true });
    assert_eq!(first["params"]["notifications"], granted);
    assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    place.ok(&["grants", "add", "file.read", "--agent", "ann"]);
    let notice = events.next().await.unwrap();
    assert_eq!(notice["method"], "notifications/tools/list_changed");
    assert_eq!(notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    assert_eq!(gateway.terminate(), Some(0));
}

#[tokio::test]
async fn a_subscription_to_nothing_stays_silent() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let token = agent(&place, "ann", &[]);
    let mut silent =
        Events::stateless(&gateway, &token, "subscriptions/listen", json!({ "notifications": {} }))
            .await;
    assert_eq!(silent.next().await.unwrap()["params"]["notifications"], json!({}));
    let asked = json!({ "notifications": { "toolsListChanged": true } });
    let mut told =
        Events::stateless(&gateway, &token, "subscriptions/listen", asked).await.standing().await;
    told.next().await.unwrap();
    place.ok(&["grants", "add", "file.read", "--agent", "ann"]);
    told.next().await.unwrap();
    // All streams end with the gateway; until then nothing came.
    assert_eq!(gateway.terminate(), Some(0));
    let end = silent.next().await.unwrap();
    assert_eq!(end["id"], 7);
    assert_eq!(end["result"]["resultType"], "complete");
    assert_eq!(silent.next().await, None);
}

#[tokio::test]
async fn progress_comes_before_the_answer() {
    let place = TestFolder::new(&server("progress_flood"));
    let gateway = ready_with(&place, "py__echo").await;
    let params = json!({ "name": "py__echo", "arguments": { "message": "done" }, "_meta": { "progressToken": "p" } });
    let mut events = Events::stateless(&gateway, &gateway.token, "tools/call", params).await;
    let mut last = Value::Null;
    let answer = loop {
        let message = events.next().await.unwrap();
        if message["method"] != "notifications/progress" {
            break message;
        }
        assert_eq!(message["params"]["progressToken"], "p");
        last = message["params"]["progress"].clone();
    };
    assert_eq!(last, 19_999, "the last report comes");
    assert_eq!(
        (answer["id"].as_i64(), answer["result"]["content"][0]["text"].as_str()),
        (Some(7), Some("done"))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn no_text_of_a_tool_ends_an_event() {
    let place = TestFolder::new(&server("echo"));
    let gateway = ready_with(&place, "py__echo").await;
    let text = "x\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\r\n\r\n: \u{2028}";
    let params = json!({ "name": "py__echo", "arguments": { "message": text }, "_meta": { "progressToken": 1 } });
    let mut events = Events::stateless(&gateway, &gateway.token, "tools/call", params).await;
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], text);
    assert_eq!(events.next().await, None);
}

fn call_message() -> Value {
    json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": { "name": "py__echo", "arguments": {} } })
}

#[tokio::test]
async fn a_call_is_cancelled_by_a_notice_or_by_the_end_of_its_session() {
    for end in ["notice", "session"] {
        let place = TestFolder::new(&server("slow"));
        let gateway = ready_with(&place, "py__echo").await;
        let session = gateway.open_session(&gateway.token).await;
        let headers = [("mcp-session-id", session.as_str())];
        let message = call_message();
        let bearer = format!("Bearer {}", gateway.token);
        let ending = async {
            under_way(&gateway, "1").await;
            if end == "notice" {
                let params = json!({ "requestId": 5, "reason": "no longer needed" });
                let notice = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
                gateway.post_as(&gateway.token, &headers, &notice).await
            } else {
                gateway
                    .send(Method::DELETE, "/mcp", &[("authorization", &bearer), headers[0]], "")
                    .await
            }
        };
        let answers = async {
            Events::open(&gateway, &gateway.token, Method::POST, &headers, &message)
                .await
                .whole()
                .await
        };
        let (answers, _) = tokio::join!(answers, ending);
        let code = &answers[0]["result"]["_meta"]["drawgate/error"]["code"];
        assert_eq!(code, "CANCELLED", "{end}: {answers:?}");
        ended_as_cancelled(&place).await;
    }
}

#[tokio::test]
async fn a_call_whose_client_goes_away_is_cancelled() {
    for meta in [json!({}), json!({ "progressToken": 1 })] {
        let place = TestFolder::new(&server("slow"));
        let gateway = ready_with(&place, "py__echo").await;
        let params = json!({ "name": "py__echo", "arguments": {}, "_meta": meta });
        tokio::select! {
            mut events = Events::stateless(&gateway, &gateway.token, "tools/call", params) => {
                tokio::select! {
                    _ = events.next() => unreachable!("the tool never answers"),
                    () = under_way(&gateway, "1") => {}
                }
            }
            () = under_way(&gateway, "1"), if meta.as_object().unwrap().is_empty() => {}
        }
        under_way(&gateway, "0").await;
        ended_as_cancelled(&place).await;
    }
}

fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.child.id())).unwrap().count()
}

/// Sends a call by hand, and leaves its connection to the test.
async fn send_call(gateway: &Gateway, session: &str, message: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(&gateway.address).await.unwrap();
    let body = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        gateway.address,
        gateway.token,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Calls the tool in a session, with or without a wish for reports.
async fn call_in(gateway: &Gateway, session: &str, meta: Value) -> Events {
    let mut message = call_message();
    message["params"]["_meta"] = meta;
    message["params"]["arguments"]["message"] = "done".into();
    let headers = [("mcp-session-id", session)];
    Events::open(gateway, &gateway.token, Method::POST, &headers, &message).await
}

async fn take_up(gateway: &Gateway, token: &str, session: &str, after: &str) -> Events {
    let headers = [("mcp-session-id", session), ("last-event-id", after)];
    Events::open(gateway, token, Method::GET, &headers, &Value::Null).await
}

#[tokio::test]
async fn a_client_that_is_cut_off_gets_its_answer_when_it_comes_back() {
    for meta in [json!({}), json!({ "progressToken": 1 })] {
        let folder = tempfile::tempdir().unwrap();
        let place = TestFolder::new(&server_until(folder.path()));
        let gateway = ready_with(&place, "py__echo").await;
        let session = gateway.open_session(&gateway.token).await;
        let events = call_in(&gateway, &session, meta).await.standing().await;
        let first = events.text.clone();
        assert!(first.contains("retry: ") && first.ends_with("data: \n\n"), "{first}");
        let id = first.strip_prefix("id: ").unwrap().lines().next().unwrap().to_owned();
        drop(events);
        let again = take_up(&gateway, &gateway.token, &session, &id).await;
        under_way(&gateway, "1").await;
        std::fs::write(folder.path().join("go"), "").unwrap();
        let answer = again.whole().await;
        assert_eq!(answer.len(), 1, "{answer:?}");
        let text = &answer[0]["result"]["content"][0]["text"];
        assert_eq!((answer[0]["id"].as_i64(), text.as_str()), (Some(5), Some("done")));
        // It may have been lost on the way once more.
        assert_eq!(take_up(&gateway, &gateway.token, &session, &id).await.whole().await, answer);
        assert_eq!(outcomes(&place), ["OK"]);
    }
}

#[tokio::test]
async fn reports_have_ids_after_which_a_stream_is_taken_up() {
    let place = TestFolder::new(&server("progress_flood"));
    let gateway = ready_with(&place, "py__echo").await;
    let session = gateway.open_session(&gateway.token).await;
    let mut events = call_in(&gateway, &session, json!({ "progressToken": 1 })).await;
    let first = events.next().await.unwrap()["params"]["progress"].as_i64().unwrap();
    let id = events.last_id.clone().unwrap();
    drop(events);
    let rest = take_up(&gateway, &gateway.token, &session, &id).await.whole().await;
    let (answer, reports) = rest.split_last().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    let reports = reports.iter().map(|report| report["params"]["progress"].as_i64().unwrap());
    let reports: Vec<i64> = reports.collect();
    assert!(reports.first().is_some_and(|next| *next > first) && reports.is_sorted());
    assert_eq!(reports.last(), Some(&19_999), "the last report comes");
}

#[tokio::test]
async fn a_stream_is_taken_up_by_its_own_session_only() {
    let folder = tempfile::tempdir().unwrap();
    let place = TestFolder::new(&server_until(folder.path()));
    let gateway = ready_with(&place, "py__echo").await;
    let (one, other) =
        (gateway.open_session(&gateway.token).await, gateway.open_session(&gateway.token).await);
    let mut events = call_in(&gateway, &one, json!({ "progressToken": 1 })).await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    events.next().await.unwrap();
    let id = events.last_id.clone().unwrap();
    for (session, id) in [(&other, id.as_str()), (&one, "7-7"), (&one, "x"), (&one, "")] {
        let refused = take_up(&gateway, &gateway.token, session, id).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{id}");
    }
    let bob = agent(&place, "bob", &[]);
    assert_eq!(take_up(&gateway, &bob, &one, &id).await.status, StatusCode::NOT_FOUND);
    assert_eq!(take_up(&gateway, &gateway.token, &one, &id).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_call_goes_on_although_its_client_left_before_it_was_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let place = TestFolder::new(&server_until(folder.path()));
    let gateway = ready_with(&place, "py__echo").await;
    // Before 2025-11-25 only what is said before the answer makes a stream of it.
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let opened = gateway.post_as(&gateway.token, &[], &message).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap();
    tokio::select! {
        _ = call_in(&gateway, session, json!({})) => unreachable!("it has no answer yet"),
        () = under_way(&gateway, "1") => {}
    }
    std::fs::write(folder.path().join("go"), "").unwrap();
    let codes =
        eventually("an outcome", async || Some(outcomes(&place)).filter(|all| !all.is_empty()));
    assert_eq!(codes.await, ["OK"]);
}

#[tokio::test]
async fn a_client_of_a_session_that_does_not_come_back_is_cleaned_up_after() {
    for seconds in [0, 1] {
        let place =
            TestFolder::new(&format!("[server]\nresume_seconds = {seconds}\n{}", server("slow")));
        let gateway = ready_with(&place, "py__echo").await;
        let session = gateway.open_session(&gateway.token).await;
        let events = call_in(&gateway, &session, json!({ "progressToken": 1 })).await;
        under_way(&gateway, "1").await;
        drop(events);
        under_way(&gateway, "0").await;
        ended_as_cancelled(&place).await;
    }
}

#[tokio::test]
async fn a_half_closed_client_leaves_nothing_behind() {
    let place = TestFolder::new(&format!("[server]\nresume_seconds = 1\n{}", server("slow")));
    let gateway = ready_with(&place, "py__echo").await;
    let session = gateway.open_session(&gateway.token).await;
    let before = descriptors(&gateway);
    let mut message = call_message();
    message["params"]["_meta"] = json!({ "progressToken": 1 });
    let mut stream = send_call(&gateway, &session, &message).await;
    under_way(&gateway, "1").await;
    stream.shutdown().await.unwrap();
    under_way(&gateway, "0").await;
    eventually("descriptors are given back", async || {
        (descriptors(&gateway) <= before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_that_do_not_read_cost_little() {
    let place = TestFolder::new(&server("echo"));
    let gateway = ready_with(&place, "py__echo").await;
    let mut message = call_message();
    message["params"]["_meta"] = json!({ "progressToken": 1 });
    message["params"]["arguments"]["message"] = "x".repeat(200_000).into();
    let mut deaf = Vec::new();
    for _ in 0..50 {
        let session = gateway.open_session(&gateway.token).await;
        deaf.push(send_call(&gateway, &session, &message).await);
    }
    let answered = eventually("all calls are answered", async || {
        Some(outcomes(&place)).filter(|codes| codes.len() == 50)
    })
    .await;
    assert!(answered.iter().all(|code| code == "OK"));
    assert!(memory(&gateway) < 96 * 1024, "{} KiB", memory(&gateway));
    assert!(!gateway.tool_names(&gateway.token).await.is_empty());
}

#[tokio::test]
async fn listeners_leave_room_for_callers() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let listen = async || {
        Events::stateless(&gateway, &gateway.token, "subscriptions/listen", params.clone()).await
    };
    let mut listening = Vec::new();
    let refused = loop {
        let events = listen().await;
        if events.status != StatusCode::OK {
            break events.status;
        }
        listening.push(events);
        assert!(listening.len() < 4096);
    };
    assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(gateway.tool_names(&gateway.token).await.len(), 5);
    listening.truncate(100);
    eventually("room for another", async || {
        (listen().await.status == StatusCode::OK).then_some(())
    })
    .await;
}
