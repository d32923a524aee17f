//! Questions that a tool asks during a call, log messages, and headers that repeat arguments: between a
//! server with sessions and clients of both eras.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::callers::agent;
use crate::load::{events, offers};
use crate::streams::Events;
use crate::support::{Answer, Gateway, TestFolder, eventually};

pub(crate) fn asking() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/asking.py");
    format!(
        "[servers.q]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"{script}\"]\ncapabilities = [\"file.read\"]\n\
         client_requests = [\"elicitation\", \"elicitation_url\", \"roots\", \"sampling\"]\n"
    )
}

async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "q__ask").await;
    gateway
}

/// A call by revision 2026-07-28, of a client with these capabilities.
async fn alone(gateway: &Gateway, token: &str, capabilities: &Value, mut params: Value) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let name = params["name"].as_str().unwrap().to_owned();
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", &name)];
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    gateway.post_as(token, &headers, &message).await
}

/// A client with a session.
pub(crate) struct Client<'a> {
    gateway: &'a Gateway,
    session: String,
}

impl<'a> Client<'a> {
    pub(crate) async fn open(gateway: &'a Gateway, capabilities: &Value) -> Self {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = gateway.post_as(&gateway.token, &[], &message).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        Self { gateway, session }
    }

    pub(crate) async fn post(&self, message: &Value) -> Answer {
        let headers = [("mcp-session-id", self.session.as_str())];
        self.gateway.post_as(&self.gateway.token, &headers, message).await
    }

    /// Calls a tool that is answered by a stream.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Events {
        let params = json!({ "name": tool, "arguments": arguments });
        let message =
            json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
        let headers = [("mcp-session-id", self.session.as_str())];
        Events::open(self.gateway, &self.gateway.token, Method::POST, &headers, &message).await
    }

    /// Answers a question.
    pub(crate) async fn answer(&self, question: &Value, part: &str, answer: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": question["id"], part: answer });
        assert_eq!(self.post(&message).await.status, StatusCode::ACCEPTED);
    }
}

fn text(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn codes(place: &TestFolder) -> Vec<String> {
    let outcomes = events(place).into_iter().filter(|event| event["kind"] == "outcome");
    outcomes.map(|event| event["code"].as_str().unwrap_or("OK").to_owned()).collect()
}

/// Tool, what the client must have said, the method of the question, and an answer to it.
fn kinds() -> [(&'static str, Value, &'static str, Value); 4] {
    [
        (
            "q__ask",
            json!({ "elicitation": {} }),
            "elicitation/create",
            json!({ "action": "accept", "content": { "name": "ann" } }),
        ),
        (
            "q__visit",
            json!({ "elicitation": { "url": {} } }),
            "elicitation/create",
            json!({ "action": "accept" }),
        ),
        (
            "q__sample",
            json!({ "sampling": {} }),
            "sampling/createMessage",
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "ho" } }),
        ),
        (
            "q__roots",
            json!({ "roots": {} }),
            "roots/list",
            json!({ "roots": [{ "uri": "file:///a" }] }),
        ),
    ]
}

#[tokio::test]
async fn a_client_without_session_answers_in_a_second_call() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    for (tool, capabilities, method, given) in kinds() {
        let call = json!({ "name": tool, "arguments": {} });
        let asked = alone(&gateway, &gateway.token, &capabilities, call.clone()).await.json();
        let result = &asked["result"];
        assert_eq!(result["resultType"], "input_required", "{asked}");
        assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
        let requests = result["inputRequests"].as_object().unwrap();
        let (key, question) = requests.iter().next().unwrap();
        assert_eq!(question["method"], method);
        assert!(question["params"].get("elicitationId").is_none(), "{question}");
        let mut again = call.clone();
        again["inputResponses"] = json!({ key: given });
        again["requestState"] = result["requestState"].clone();
        let done = alone(&gateway, &gateway.token, &capabilities, again.clone()).await.json();
        assert_eq!(done["result"]["resultType"], "complete", "{done}");
        assert_eq!(text(&done["result"])["result"], given, "{done}");
        // Once is enough.
        let replayed = alone(&gateway, &gateway.token, &capabilities, again).await;
        assert_eq!(replayed.rpc_code(), Some(-32602), "{replayed:?}");
    }
}

#[tokio::test]
async fn a_state_counts_only_for_whom_and_what_it_was_given() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    let other = agent(&place, "other", &["file.read"]);
    let capabilities = json!({ "elicitation": {} });
    let call = json!({ "name": "q__ask", "arguments": { "a": 1 } });
    let asked = alone(&gateway, &gateway.token, &capabilities, call.clone()).await.json();
    let state = asked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let tampered = format!("A{state}");
    let own = gateway.token.as_str();
    for (token, state, arguments, name) in [
        (own, json!(tampered), json!({ "a": 1 }), "q__ask"),
        (own, json!("made up"), json!({ "a": 1 }), "q__ask"),
        (own, json!(7), json!({ "a": 1 }), "q__ask"),
        (own, json!(state), json!({ "a": 2 }), "q__ask"),
        (own, json!(state), json!({ "a": 1 }), "q__sample"),
        (other.as_str(), json!(state), json!({ "a": 1 }), "q__ask"),
    ] {
        let again = json!({ "name": name, "arguments": arguments, "requestState": state, "inputResponses": {} });
        let refused = alone(&gateway, token, &capabilities, again).await;
        assert_eq!(refused.rpc_code(), Some(-32602), "{name} {state}: {refused:?}");
    }
    let wrong = json!({ "name": "q__ask", "arguments": {}, "inputResponses": [] });
    assert_eq!(alone(&gateway, own, &capabilities, wrong).await.rpc_code(), Some(-32602));
}

#[tokio::test]
async fn a_client_with_a_session_is_asked_on_the_stream_of_its_call() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    for (tool, capabilities, method, given) in kinds() {
        let client = Client::open(&gateway, &capabilities).await;
        let mut events = client.call(tool, json!({})).await;
        let question = events.next().await.unwrap();
        assert_eq!(question["method"], method, "{question}");
        client.answer(&json!({ "id": "unknown" }), "result", json!({})).await;
        client.answer(&question, "result", given.clone()).await;
        let done = events.next().await.unwrap();
        assert_eq!(done["id"], 5);
        assert_eq!(text(&done["result"])["result"], given, "{done}");
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn a_call_may_ask_twice_and_a_client_may_refuse() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    let client = Client::open(&gateway, &json!({ "elicitation": {} })).await;
    let mut events = client.call("q__twice", json!({})).await;
    let first = events.next().await.unwrap();
    assert_eq!(first["params"]["message"], "[q] first", "a person sees who asks");
    client.answer(&first, "error", json!({ "code": -1, "message": "no" })).await;
    let second = events.next().await.unwrap();
    assert_ne!(first["id"], second["id"]);
    client.answer(&second, "result", json!({ "action": "decline" })).await;
    let done = events.next().await.unwrap();
    let heard = text(&done["result"]);
    assert!(heard[0]["result"]["action"] != "accept", "{heard}");
    assert_eq!(heard[1]["result"]["action"], "decline");
}

#[tokio::test]
async fn answers_come_from_the_session_that_was_asked() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    let client = Client::open(&gateway, &json!({ "elicitation": {} })).await;
    let other = Client::open(&gateway, &json!({ "elicitation": {} })).await;
    let mut events = client.call("q__ask", json!({})).await;
    let question = events.next().await.unwrap();
    other
        .answer(&question, "result", json!({ "action": "accept", "content": { "name": "eve" } }))
        .await;
    client
        .answer(&question, "result", json!({ "action": "accept", "content": { "name": "ann" } }))
        .await;
    let done = events.next().await.unwrap();
    assert_eq!(text(&done["result"])["result"]["content"]["name"], "ann");
}

#[tokio::test]
async fn who_did_not_say_that_it_answers_is_not_asked() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    for (tool, capabilities) in [
        ("q__ask", json!({})),
        ("q__ask", json!({ "sampling": {} })),
        ("q__visit", json!({ "elicitation": {} })),
        ("q__sample", json!({ "elicitation": {} })),
    ] {
        let client = Client::open(&gateway, &capabilities).await;
        let done = client.call(tool, json!({})).await.whole().await;
        assert_eq!(done.len(), 1, "{done:?}");
        assert!(text(&done[0]["result"])["result"].is_null(), "{done:?}");
        let done = alone(&gateway, &gateway.token, &capabilities, json!({ "name": tool })).await;
        assert_ne!(done.json()["result"]["resultType"], "input_required", "{done:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_during_a_question_is_cancelled() {
    for end in ["notice", "session", "connection"] {
        let place = TestFolder::new(&format!("[server]\nresume_seconds = 1\n{}", asking()));
        let gateway = ready(&place).await;
        let client = Client::open(&gateway, &json!({ "elicitation": {} })).await;
        let mut events = client.call("q__ask", json!({})).await;
        let question = events.next().await.unwrap();
        let bearer = format!("Bearer {}", gateway.token);
        match end {
            "notice" => {
                client
                    .post(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } }))
                    .await;
            }
            "session" => {
                let headers =
                    [("authorization", bearer.as_str()), ("mcp-session-id", &client.session)];
                gateway.send(Method::DELETE, "/mcp", &headers, "").await;
            }
            _ => drop(events),
        }
        eventually("the call is recorded as cancelled", async || {
            (codes(&place) == ["ASKED", "CANCELLED"]).then_some(())
        })
        .await;
        eventually("the server hears of it", async || {
            let result = gateway.call(&gateway.token, "q__heard", json!({})).await;
            (text(&result) == 1).then_some(())
        })
        .await;
        if end == "notice" {
            let mut events = client.call("q__ask", json!({})).await;
            assert_ne!(events.next().await.unwrap()["id"], question["id"]);
        }
    }
}

#[tokio::test]
async fn a_gateway_that_stops_does_not_wait_for_answers() {
    let place = TestFolder::new(&format!("[server]\ndrain_seconds = 3600\n{}", asking()));
    let gateway = ready(&place).await;
    let session = Client::open(&gateway, &json!({ "elicitation": {} })).await;
    let mut events = session.call("q__ask", json!({})).await;
    let question = events.next().await.unwrap();
    drop(session);
    assert_eq!(gateway.terminate(), Some(0));
    assert_eq!(events.next().await.unwrap()["params"]["requestId"], question["id"]);
    assert_eq!(codes(&place), ["ASKED", "CANCELLED"]);
}

#[tokio::test]
async fn an_open_question_is_withdrawn() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    let client = Client::open(&gateway, &json!({ "elicitation": {} })).await;
    let mut events = client.call("q__ask", json!({})).await;
    let question = events.next().await.unwrap();
    client
        .post(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } }))
        .await;
    let notice = events.next().await.unwrap();
    assert_eq!(notice["method"], "notifications/cancelled");
    assert_eq!(notice["params"]["requestId"], question["id"]);
    let done = events.next().await.unwrap();
    assert_eq!(done["result"]["_meta"]["drawgate/error"]["code"], "CANCELLED", "{done}");
}

fn levels(messages: &[Value]) -> Vec<&str> {
    let logged = messages.iter().filter(|message| message["method"] == "notifications/message");
    logged.map(|message| message["params"]["level"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn logs_reach_the_caller_from_its_level_on() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    let client = Client::open(&gateway, &json!({})).await;
    let all = client.call("q__chat", json!({})).await.whole().await;
    assert_eq!(levels(&all), ["debug", "info", "warning", "error"]);
    assert_eq!(all.last().unwrap()["id"], 5);
    let level = json!({ "jsonrpc": "2.0", "id": 6, "method": "logging/setLevel", "params": { "level": "warning" } });
    assert_eq!(client.post(&level).await.json()["result"], json!({}));
    eventually("the server hears of it", async || {
        let told = json!({ "name": "q__told", "arguments": {} });
        let answer = gateway.rpc(&gateway.token, "tools/call", told).await;
        assert!(answer["result"].is_object(), "{answer}");
        (text(&answer["result"]) == json!(["warning"])).then_some(())
    })
    .await;
    let some = client.call("q__chat", json!({})).await.whole().await;
    assert_eq!(levels(&some), ["warning", "error"]);
    for (level, expected) in [
        (json!(null), Vec::new()),
        (json!("error"), vec!["error"]),
        (json!("debug"), vec!["debug", "info", "warning", "error"]),
    ] {
        let mut params = json!({ "name": "q__chat", "arguments": {} });
        if !level.is_null() {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.clone();
        }
        let heard = Events::stateless(&gateway, &gateway.token, "tools/call", params).await;
        let heard = heard.whole().await;
        assert_eq!(levels(&heard), expected, "{level}");
        assert_eq!(heard.last().unwrap()["id"], 7);
    }
    let params =
        json!({ "name": "q__chat", "_meta": { "io.modelcontextprotocol/logLevel": "loud" } });
    let refused = gateway.stateless(&gateway.token, "tools/call", params).await;
    assert_eq!(refused.rpc_code(), Some(-32602), "{refused:?}");
}

#[tokio::test]
async fn headers_must_repeat_what_the_arguments_say() {
    let place = TestFolder::new(&asking());
    let gateway = ready(&place).await;
    let stranger = agent(&place, "stranger", &[]);
    let ok = None;
    let bad = Some(-32020);
    for (arguments, headers, expected) in [
        (json!({}), vec![], ok),
        (json!({ "plain": "x" }), vec![], ok),
        (json!({ "region": "eu" }), vec![("mcp-param-region", "eu")], ok),
        (json!({ "region": "eu" }), vec![("mcp-param-region", "  eu ")], ok),
        (json!({ "region": "eu" }), vec![("Mcp-Param-REGION", "eu")], ok),
        (json!({ "region": "eu" }), vec![], bad),
        (json!({ "region": "eu" }), vec![("mcp-param-region", "EU")], bad),
        (json!({ "region": "eu" }), vec![("mcp-param-region", "us")], bad),
        (json!({ "region": "Hello" }), vec![("mcp-param-region", "=?base64?SGVsbG8=?=")], ok),
        (json!({ "region": "Hello" }), vec![("mcp-param-region", "=?base64?SGVsbG8?=")], bad),
        (json!({ "region": "Hello" }), vec![("mcp-param-region", "=?base64?SGVs!!!bG8=?=")], bad),
        (json!({ "region": "SGVsbG8=" }), vec![("mcp-param-region", "SGVsbG8=")], ok),
        (
            json!({ "region": "=?base64?SGVsbG8=" }),
            vec![("mcp-param-region", "=?base64?SGVsbG8=")],
            ok,
        ),
        (json!({ "region": "" }), vec![("mcp-param-region", "")], ok),
        (json!({}), vec![("mcp-param-region", "eu")], bad),
        (json!({ "region": null, "plain": "x" }), vec![("mcp-param-region", "eu")], bad),
        (json!({ "deep": { "count": 42 } }), vec![("mcp-param-count", "42")], ok),
        (json!({ "deep": { "count": 42 } }), vec![("mcp-param-count", "42.0")], ok),
        (json!({ "deep": { "count": 42 } }), vec![("mcp-param-count", "43")], bad),
        (json!({ "deep": { "count": 42 } }), vec![], bad),
        (json!({ "flag": true }), vec![("mcp-param-flag", "true")], ok),
        (json!({ "flag": true }), vec![("mcp-param-flag", "false")], bad),
    ] {
        let params = json!({ "name": "q__mirror", "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        } });
        let mut all = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "q__mirror"),
        ];
        all.extend_from_slice(&headers);
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = gateway.post_as(&gateway.token, &all, &message).await;
        assert_eq!(answer.rpc_code(), expected, "{arguments} {headers:?}: {answer:?}");
        if expected.is_some() {
            assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        }
        // Nobody learns from headers what a tool looks like that is hidden from them.
        let hidden = gateway.post_as(&stranger, &all, &message).await;
        assert_eq!(hidden.rpc_code(), Some(-32602), "{hidden:?}");
    }
    // In a session nothing stands in headers.
    let client = Client::open(&gateway, &json!({})).await;
    let done = client.call("q__mirror", json!({ "region": "eu" })).await.whole().await;
    assert_eq!(text(&done[0]["result"]), json!({ "region": "eu" }));
}
