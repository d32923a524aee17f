//! Every call has its outcome in the audit log, also one that can't be read as a call.

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::load::{events, offers};
use crate::support::{Gateway, TestFolder};

/// What stands for the tool where not even that could be read.
const UNREAD: &str = "(unread)";

struct Row {
    name: &'static str,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// The tool in the log.
    tool: &'static str,
}

/// A request by the revision without sessions.
fn stateless(
    name: &'static str,
    method: &'static str,
    mut params: Value,
    tool: &'static str,
) -> Row {
    let named = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
    if params.is_object() && params["_meta"].is_null() {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", method.to_owned()),
    ];
    headers.extend(named.map(|named| ("mcp-name", named)));
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    Row { name, headers, body: body.to_string(), tool }
}

fn raw(name: &'static str, kind: &str, body: impl Into<String>) -> Row {
    let headers = vec![("content-type", kind.to_owned())];
    Row { name, headers, body: body.into(), tool: UNREAD }
}

fn rows() -> Vec<Row> {
    let json_type = "application/json";
    let call = |arguments: Value| json!({ "name": "vfs_list", "arguments": arguments });
    let mut mismatch =
        stateless("header of another tool", "tools/call", call(json!({})), "vfs_list");
    mismatch.headers.retain(|(name, _)| *name != "mcp-name");
    mismatch.headers.push(("mcp-name", "vfs_read".to_owned()));
    let mut lost = stateless("no session", "tools/call", call(json!({})), "vfs_list");
    lost.headers.truncate(1);
    lost.body = lost.body.replace("io.modelcontextprotocol/", "x/");
    let mut token = call(json!({}));
    token["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": [],
    });
    vec![
        stateless("arguments are a number", "tools/call", call(json!(7)), "vfs_list"),
        stateless("arguments are a list", "tools/call", call(json!([])), "vfs_list"),
        stateless("no name", "tools/call", json!({ "arguments": {} }), UNREAD),
        stateless("parameters are a list", "tools/call", json!([]), UNREAD),
        stateless("bad progress token", "tools/call", token, "vfs_list"),
        stateless("unknown tool", "tools/call", json!({ "name": "nothing" }), "nothing"),
        stateless("unknown resource", "resources/read", json!({ "uri": "x:1" }), "@resources/read"),
        stateless("no resource", "resources/read", json!({}), "@resources/read"),
        stateless("unknown prompt", "prompts/get", json!({ "name": "x" }), "@prompts/get"),
        stateless("bad completion", "completion/complete", json!({}), "@completion/complete"),
        mismatch,
        lost,
        raw("not JSON", json_type, "{"),
        raw("a batch", json_type, "[]"),
        raw("not JSON-RPC", json_type, "{}"),
        raw("a form", "application/x-www-form-urlencoded", "a=b"),
        raw("too large", json_type, format!("\"{}\"", "x".repeat(70_000))),
    ]
}

fn outcomes(place: &TestFolder) -> Vec<Value> {
    events(place).into_iter().filter(|event| event["kind"] == "outcome").collect()
}

async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    gateway
}

#[tokio::test]
async fn over_mcp() {
    let place = TestFolder::new("[server]\nmax_body_bytes = 65536\n");
    let gateway = ready(&place).await;
    let bearer = format!("Bearer {}", gateway.token);
    for row in rows() {
        let before = outcomes(&place).len();
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(row.headers.iter().map(|(name, value)| (*name, value.as_str())));
        let answer = gateway.send(Method::POST, "/mcp", &headers, row.body).await;
        let new = outcomes(&place).split_off(before);
        assert_eq!(new.len(), 1, "{}: {answer:?}: {new:?}", row.name);
        assert_eq!(new[0]["success"], false, "{}", row.name);
        assert_eq!((&new[0]["started"], &new[0]["principal"]), (&json!(false), &json!("local")));
        assert_eq!(new[0]["toolId"], row.tool, "{}: {answer:?}", row.name);
    }
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
}

#[tokio::test]
async fn over_the_operators_socket() {
    let place = TestFolder::new("");
    let _gateway = ready(&place).await;
    for body in ["{", "[]", r#"{"tool": "vfs_list", "arguments": 7}"#, r#"{"arguments": {}}"#] {
        let before = outcomes(&place).len();
        let socket = tokio::net::UnixStream::connect(place.data().join("control.sock")).await;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket.unwrap())).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::post("/call")
            .header("host", "control")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let answer = answer.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["error"]["code"], "INVALID_ARGUMENTS", "{answer}");
        let new = outcomes(&place).split_off(before);
        assert_eq!(new.len(), 1, "{body}: {new:?}");
        assert_eq!((&new[0]["toolId"], &new[0]["surface"]), (&json!(UNREAD), &json!("cli")));
    }
}
