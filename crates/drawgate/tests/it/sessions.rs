//! Clients of the revisions with sessions, and one real client.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::callers::{agent, ready};
use crate::protocol::memory;
use crate::support::{Answer, Gateway, TestFolder};

async fn initialize(gateway: &Gateway, version: &Value) -> Answer {
    let mut params = json!({ "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    params["protocolVersion"] = version.clone();
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    gateway.post_as(&gateway.token, &[], &message).await
}

async fn ask(gateway: &Gateway, token: &str, session: &str, method: &str) -> Answer {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    gateway.post_as(token, &[("mcp-session-id", session)], &message).await
}

async fn bare(gateway: &Gateway, method: Method, token: &str, session: &str) -> StatusCode {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("mcp-session-id", session),
        ("accept", "text/event-stream"),
    ];
    gateway.send(method, "/mcp", &headers, "").await.status
}

#[tokio::test]
async fn revisions_are_negotiated() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    for (asked, given) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let answer = initialize(&gateway, &asked.into()).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], given, "{asked}");
        let session = answer.headers["mcp-session-id"].to_str().unwrap();
        assert!(session.bytes().all(|byte| byte.is_ascii_graphic()) && session.len() >= 32);
        let list = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/list" });
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", given)];
        let listed = gateway.post_as(&gateway.token, &headers, &list).await;
        assert_eq!(listed.json()["result"]["tools"].as_array().unwrap().len(), 5);
        assert_eq!(listed.json()["id"], "a");
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "1999-01-01")];
        let refused = gateway.post_as(&gateway.token, &headers, &list).await;
        assert_eq!((refused.status, refused.rpc_code()), (StatusCode::BAD_REQUEST, Some(-32022)));
    }
    for wrong in [Value::Null, json!(5)] {
        assert_eq!(initialize(&gateway, &wrong).await.rpc_code(), Some(-32602));
    }
}

#[tokio::test]
async fn a_session_is_needed_and_ends_when_told() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(gateway.post_as(&gateway.token, &[], &list).await.status, StatusCode::BAD_REQUEST);
    let session = gateway.open_session(&gateway.token).await;
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let noted =
        gateway.post_as(&gateway.token, &[("mcp-session-id", &session)], &initialized).await;
    assert_eq!((noted.status, noted.body.len()), (StatusCode::ACCEPTED, 0));
    assert_eq!(ask(&gateway, &gateway.token, &session, "ping").await.json()["result"], json!({}));
    // An error of a request is an answer, not a failure of HTTP.
    let unknown = ask(&gateway, &gateway.token, &session, "no/such").await;
    assert_eq!((unknown.status, unknown.rpc_code()), (StatusCode::OK, Some(-32601)));
    assert_eq!(
        bare(&gateway, Method::DELETE, &gateway.token, &session).await,
        StatusCode::NO_CONTENT
    );
    is_gone(&gateway, &session).await;
    drop(gateway);
    let gateway = ready(&place).await;
    let session = gateway.open_session(&gateway.token).await;
    drop(gateway);
    is_gone(&ready(&place).await, &session).await;
}

/// Every message of a session that is gone is answered so that clients begin a new one.
async fn is_gone(gateway: &Gateway, session: &str) {
    let named = [("mcp-session-id", session)];
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
    ] {
        let answer = gateway.post_as(&gateway.token, &named, &message).await;
        assert_eq!((answer.status, answer.rpc_code()), (StatusCode::NOT_FOUND, Some(-32001)));
    }
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(bare(gateway, method, &gateway.token, session).await, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_session_of_another_is_no_session() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let (ann, bob) = (agent(&place, "ann", &["file.read"]), agent(&place, "bob", &[]));
    let session = gateway.open_session(&ann).await;
    let stolen = ask(&gateway, &bob, &session, "tools/list").await;
    let invented = ask(&gateway, &bob, "no-such-session", "tools/list").await;
    assert_eq!((stolen.status, stolen.body), (StatusCode::NOT_FOUND, invented.body));
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(bare(&gateway, method, &bob, &session).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(ask(&gateway, &ann, &session, "ping").await.status, StatusCode::OK);
    let log = place.ok(&["audit", "export"]);
    let refused =
        log.lines().filter(|line| line.contains("foreign_session") && line.contains("\"bob\""));
    assert_eq!(refused.count(), 3, "{log}");
}

#[tokio::test]
async fn sessions_that_are_left_open_stay_bounded() {
    let place = TestFolder::new("[server]\nmax_sessions = 1000\n");
    let gateway = ready(&place).await;
    let ann = agent(&place, "ann", &["file.read"]);
    let anns = gateway.open_session(&ann).await;
    let mut opened = Vec::new();
    for _ in 0..2000 {
        let answer = initialize(&gateway, &"2025-11-25".into()).await;
        opened.push(answer.headers["mcp-session-id"].to_str().unwrap().to_owned());
    }
    // A quarter is the local user's; the older ones gave way, and nobody else's.
    for (index, status) in
        [(0, StatusCode::NOT_FOUND), (1500, StatusCode::NOT_FOUND), (1999, StatusCode::OK)]
    {
        let answer = ask(&gateway, &gateway.token, &opened[index], "ping").await;
        assert_eq!(answer.status, status, "{index}");
    }
    assert_eq!(ask(&gateway, &ann, &anns, "ping").await.status, StatusCode::OK);
    assert_eq!(gateway.tool_names(&gateway.token).await.len(), 5);
    assert!(memory(&gateway) < 64 * 1024);
}

#[tokio::test]
async fn the_official_client_works() {
    use rmcp::ServiceExt;
    use rmcp::model::CallToolRequestParams;
    use rmcp::transport::StreamableHttpClientTransport;
    use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
    // Another part of the workspace gives this client TLS, and leaves the choice of it to us.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let config =
        StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", gateway.address))
            .auth_header(gateway.token.clone());
    let client = ().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
    let names: Vec<String> =
        client.list_all_tools().await.unwrap().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["vfs_delete", "vfs_list", "vfs_read", "vfs_write", "web_fetch"]);
    let call = async |tool: &'static str, arguments: Value| {
        let params =
            CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
        serde_json::to_value(client.call_tool(params).await.unwrap()).unwrap()
    };
    call("vfs_write", json!({ "path": "a.txt", "content": "by the book" })).await;
    assert_eq!(
        call("vfs_read", json!({ "path": "a.txt" })).await["content"][0]["text"],
        "by the book"
    );
    assert_eq!(call("vfs_read", json!({ "path": "none.txt" })).await["isError"], true);
    client.cancel().await.unwrap();
}
