//! Every route of the gateway, without a token and with the token of another caller.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::beyond_tools::servers_with_resources;
use crate::callers::{agent, ready};
use crate::load::offers;
use crate::streams::Events;
use crate::support::{Gateway, TestFolder, eventually, text};

const METHODS: [&str; 9] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND"];

/// Every path that is served on some socket, or that other gateways have served by mistake.
const PATHS: &[&str] = &[
    "/mcp",
    "/mcp/",
    "/mcp/x",
    "/MCP",
    "//mcp",
    "/metrics",
    "/",
    "/sse",
    "/messages",
    "/ws",
    "/status",
    "/snapshot",
    "/tools",
    "/call",
    "/servers",
    "/servers/s/login",
    "/servers/s/login/a",
    "/servers/s/review",
    "/agents",
    "/agents/ann",
    "/agents/ann/rotate",
    "/grants",
    "/grants/g",
    "/approvals",
    "/artifacts",
    "/artifacts/00",
    "/audit/prune",
    "/debug/pprof",
    "/api/v1/tools",
    "/healthz/",
    "/healthz/x",
    "/readyz/x",
    "/.well-known/",
    "/.well-known/mcp.json",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    "/.well-known/oauth-protected-resource/other",
    "/callback",
    "/oauth/callback",
];

/// Writing needs a person's yes.
pub(super) const ASKING: &str = "[approvals]\nhold_seconds = 0\n[policy.defaults]\nfallback = \"allow\"\n[[policy.rules]]\nid = \"ask\"\n\
    action = \"file.write\"\ndecision = \"allow_with_confirm\"\n";

async fn status(
    gateway: &Gateway,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, String) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let answer = gateway.send(method, path, headers, "").await;
    (answer.status.as_u16(), text(&answer.body))
}

#[tokio::test]
async fn missing_auth_one_route() {
    let place = TestFolder::new(ASKING);
    let gateway = ready(&place).await;
    let secret = json!({ "path": "canary-path", "content": "canary-content" });
    let held = gateway.call(&gateway.token, "vfs_write", secret).await;
    let id = held["_meta"]["drawgate/error"]["details"]["approvalId"].as_str().unwrap();
    let page = format!("/approvals/{id}");
    let mut wrong = Vec::new();
    for method in METHODS {
        for path in PATHS {
            let (status, body) = status(&gateway, method, path, &[]).await;
            if status != 401 || body.contains("canary") {
                wrong.push(format!("{method} {path}: {status}"));
            }
        }
        // Open to all on purpose, and each says nothing that is worth a token.
        for (path, expected) in [
            ("/healthz", 200),
            ("/readyz", 200),
            ("/.well-known/oauth-protected-resource", 404),
            ("/.well-known/oauth-protected-resource/mcp", 404),
            (page.as_str(), 200),
        ] {
            let (status, body) = status(&gateway, method, path, &[]).await;
            let allowed = match (method, path.starts_with("/approvals/")) {
                ("GET", _) => status == expected,
                ("POST", true) => status == 400,
                (_, true) => status == 405,
                (_, false) => status == 401,
            };
            if !allowed || body.contains("canary") || body.contains("vfs_write") {
                wrong.push(format!("{method} {path}: {status} {body}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An agent's token opens `/mcp` and nothing else.
#[tokio::test]
async fn object_authz_of_the_operators_things() {
    let place = TestFolder::new(ASKING);
    let gateway = ready(&place).await;
    let ann = agent(&place, "ann", &["*"]);
    let held = gateway
        .call(&gateway.token, "vfs_write", json!({ "path": "a", "content": "canary" }))
        .await;
    let id = held["_meta"]["drawgate/error"]["details"]["approvalId"].as_str().unwrap();
    let bearer = format!("Bearer {ann}");
    let headers = [("authorization", bearer.as_str())];
    for method in METHODS {
        for path in PATHS.iter().filter(|path| **path != "/mcp") {
            let (status, body) = status(&gateway, method, path, &headers).await;
            assert_eq!(status, 404, "{method} {path}");
            assert!(!body.contains("canary"), "{method} {path}: {body}");
        }
    }
    for form in [format!("token={ann}"), "decision=approve".into(), "key=x&decision=approve".into()]
    {
        let headers = [headers[0], ("content-type", "application/x-www-form-urlencoded")];
        let answer =
            gateway.send(Method::POST, &format!("/approvals/{id}"), &headers, form.clone()).await;
        assert!(answer.status.is_client_error(), "{form}: {answer:?}");
        assert!(!text(&answer.body).contains("canary"), "{form}");
    }
    assert_eq!(place.json(&["approvals", "list"])[0]["state"], "pending");
}

/// No policy, no rule, no file: each time nothing is allowed that was not before.
#[tokio::test]
async fn fail_open_scope() {
    let allowed = async |gateway: &Gateway| {
        let result = gateway.call(&gateway.token, "vfs_list", json!({})).await;
        result.is_object() && result["isError"] != true
    };
    let place = TestFolder::new("[policy]\nfile = \"policy.json\"\n");
    let file = place.path().join("policy.json");
    assert!(!place.run(&["serve", "--listen", "127.0.0.1:0"]).status.success(), "without its file");
    std::fs::write(&file, "").unwrap();
    assert!(
        !place.run(&["serve", "--listen", "127.0.0.1:0"]).status.success(),
        "with an empty one"
    );
    std::fs::write(&file, r#"{"version":"1.0","rules":[]}"#).unwrap();
    let gateway = ready(&place).await;
    assert!(!allowed(&gateway).await, "no rule allows anything");
    let rule = r#"{"version":"1.0","rules":[{"id":"r","action":"file.read","decision":"allow"}]}"#;
    std::fs::write(&file, rule).unwrap();
    eventually("the rule counts", async || allowed(&gateway).await.then_some(())).await;
    std::fs::write(&file, r#"{"version":"1.0","rules":[]}"#).unwrap();
    eventually("it no longer counts", async || (!allowed(&gateway).await).then_some(())).await;
    std::fs::remove_file(&file).unwrap();
    eventually("the loss is noticed", async || place.log().contains("policy.json").then_some(()))
        .await;
    assert!(!allowed(&gateway).await, "what was there last still counts");
    for view in ["all", "default", "*", "local"] {
        let bearer = format!("Bearer {}", gateway.token);
        let path = format!("/mcp/{view}");
        let (status, _) = status(&gateway, "POST", &path, &[("authorization", &bearer)]).await;
        assert_eq!(status, 404, "{path}");
    }
}

async fn in_session(
    gateway: &Gateway,
    token: &str,
    session: &str,
    message: &Value,
) -> (StatusCode, Vec<u8>) {
    let answer = gateway.post_as(token, &[("mcp-session-id", session)], message).await;
    (answer.status, answer.body.to_vec())
}

/// A session with an open stream, and somebody else who knows its id.
#[tokio::test]
async fn sess_sse_second_stream_and_session_hijack() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = place.serve();
    offers(&gateway, "a__echo").await;
    let (ann, bob) = (agent(&place, "ann", &["shelf.a"]), agent(&place, "bob", &["shelf.a"]));
    let session = gateway.open_session(&ann).await;
    let mut stream = Events::of_session(&gateway, &ann, &session).await;
    let subscribe = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": "note://a" } });
    assert_eq!(in_session(&gateway, &ann, &session, &subscribe).await.0, StatusCode::OK);
    let bobs = gateway.open_session(&bob).await;
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "a__echo", "arguments": {} })),
        ("resources/unsubscribe", json!({ "uri": "note://a" })),
        ("resources/subscribe", json!({ "uri": "note://a" })),
        ("logging/setLevel", json!({ "level": "debug" })),
        ("ping", json!({})),
    ] {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let stolen = in_session(&gateway, &bob, &session, &message).await;
        let invented = in_session(&gateway, &bob, "no-such-session", &message).await;
        assert_eq!(stolen.0, StatusCode::NOT_FOUND, "{method}");
        assert_eq!(stolen, invented, "{method}");
    }
    let bearer = format!("Bearer {bob}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("mcp-session-id", &session),
        ("accept", "text/event-stream"),
    ];
    for method in [Method::GET, Method::DELETE] {
        let answer = gateway.send(method.clone(), "/mcp", &headers, "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method}");
    }
    // In a session of his own he ends nothing of hers either.
    let unsubscribe = json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/unsubscribe", "params": { "uri": "note://a" } });
    in_session(&gateway, &bob, &bobs, &unsubscribe).await;
    gateway.call(&gateway.token, "a__update", json!({ "uri": "note://a" })).await;
    let told = stream.next().await.unwrap();
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
}

/// The same id of a request in two sessions: one client cancels its own call and no other.
#[tokio::test]
async fn session_hijack_by_equal_ids() {
    let place = TestFolder::new(&crate::load::fixture());
    let gateway = place.serve();
    offers(&gateway, "fixture__wait").await;
    let (ann, bob) = (agent(&place, "ann", &["*"]), agent(&place, "bob", &["*"]));
    let (of_ann, of_bob) = (gateway.open_session(&ann).await, gateway.open_session(&bob).await);
    let (begun, until) = (place.path().join("begun"), place.path().join("until"));
    let params =
        json!({ "name": "fixture__wait", "arguments": { "begun": begun, "until": until } });
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let meddling = async {
        eventually("the call has begun", async || begun.exists().then_some(())).await;
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
        in_session(&gateway, &bob, &of_bob, &cancel).await;
        in_session(&gateway, &bob, &of_ann, &cancel).await;
        std::fs::write(&until, "").unwrap();
    };
    let (answer, ()) = tokio::join!(in_session(&gateway, &ann, &of_ann, &call), meddling);
    let answer: Value = serde_json::from_slice(&answer.1).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "waited", "{answer}");
}

/// A stream keeps its session; one that nobody uses ends in time, and makes room.
#[tokio::test]
async fn sess_expired_mid_stream() {
    let place = TestFolder::new("[server]\nsession_idle_seconds = 1\nmax_sessions = 2\n");
    let gateway = ready(&place).await;
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(|name| agent(&place, name, &[]));
    let (kept, left) = (gateway.open_session(&ann).await, gateway.open_session(&bob).await);
    let mut stream = Events::of_session(&gateway, &ann, &kept).await;
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    eventually("there is room for another", async || {
        let answer = gateway.post_as(&eve, &[], &initialize).await;
        answer.headers.contains_key("mcp-session-id").then_some(())
    })
    .await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(in_session(&gateway, &bob, &left, &ping).await.0, StatusCode::NOT_FOUND);
    assert_eq!(in_session(&gateway, &ann, &kept, &ping).await.0, StatusCode::OK);
    let bearer = format!("Bearer {ann}");
    let headers = [("authorization", bearer.as_str()), ("mcp-session-id", &kept)];
    gateway.send(Method::DELETE, "/mcp", &headers, "").await;
    assert_eq!(stream.next().await, None, "the stream ends with its session");
}
