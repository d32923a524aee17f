//! Who may reach the gateway, and what each caller sees of it.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Gateway, TestFolder, eventually};

/// Adds an agent and returns its token.
pub(crate) fn agent(place: &TestFolder, name: &str, capabilities: &[&str]) -> String {
    let mut args = vec!["agents", "add", name, "--quiet"];
    for capability in capabilities {
        args.extend(["--capability", capability]);
    }
    place.ok(&args).trim().to_owned()
}

/// A gateway whose built-in tools are there.
pub(crate) async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    eventually("the built-in tools", async || {
        (gateway.send(Method::GET, "/readyz", &[], "").await.status == StatusCode::OK).then_some(())
    })
    .await;
    gateway
}

async fn read_code(gateway: &Gateway, token: &str) -> Option<i64> {
    let params = json!({ "name": "vfs_list", "arguments": {} });
    gateway.stateless(token, "tools/call", params).await.rpc_code()
}

#[tokio::test]
async fn each_caller_has_a_list_of_its_own() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let reader = agent(&place, "reader", &["file.read"]);
    let writer = agent(&place, "writer", &["file.write"]);
    let nobody = agent(&place, "nobody", &[]);
    // In turn and again, so that one caller's list could be kept for another.
    for _ in 0..2 {
        assert_eq!(gateway.tool_names(&gateway.token).await.len(), 5);
        assert_eq!(gateway.tool_names(&reader).await, ["vfs_list", "vfs_read"]);
        assert_eq!(gateway.tool_names(&writer).await, ["vfs_delete", "vfs_write"]);
        assert!(gateway.tool_names(&nobody).await.is_empty());
    }
}

#[tokio::test]
async fn a_hidden_tool_is_an_unknown_tool() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let reader = agent(&place, "reader", &["file.read"]);
    let call = async |tool: &str, arguments: Value| {
        let answer = gateway
            .stateless(&reader, "tools/call", json!({ "name": tool, "arguments": arguments }))
            .await;
        (answer.status, String::from_utf8(answer.body.to_vec()).unwrap().replace(tool, "TOOL"))
    };
    let unknown = call("vfs_wrong", json!({})).await;
    for arguments in [json!({}), json!({ "path": "a", "content": "b" }), json!({ "x": 1 })] {
        assert_eq!(call("vfs_write", arguments.clone()).await, unknown);
        assert_eq!(call("builtin:vfs_write", arguments).await.1, unknown.1);
    }
}

#[tokio::test]
async fn a_revoked_grant_ends_with_the_command() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let token = agent(&place, "worker", &[]);
    for _ in 0..3 {
        assert_eq!(read_code(&gateway, &token).await, Some(-32602));
        let id = place.ok(&["grants", "add", "file.read", "--agent", "worker", "--quiet"]);
        assert_eq!(read_code(&gateway, &token).await, None);
        place.ok(&["grants", "revoke", id.trim()]);
        assert_eq!(read_code(&gateway, &token).await, Some(-32602));
    }
}

#[tokio::test]
async fn a_grant_ends_by_itself() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let token = agent(&place, "worker", &[]);
    place.ok(&["grants", "add", "file.read", "--agent", "worker", "--for", "1s"]);
    eventually("the grant ends", async || {
        (read_code(&gateway, &token).await == Some(-32602)).then_some(())
    })
    .await;
    assert!(gateway.tool_names(&token).await.is_empty());
    assert_eq!(read_code(&gateway, &token).await, Some(-32602));
    let listed = place.json(&["grants", "list", "--agent", "worker"]);
    assert_eq!(listed, json!([]));
}

#[tokio::test]
async fn tokens_end_with_rotation_and_removal() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let status = async |token: &str| gateway.stateless(token, "tools/list", json!({})).await.status;
    let first = agent(&place, "worker", &["file.read"]);
    let session = gateway.open_session(&first).await;
    assert_eq!(status(&first).await, StatusCode::OK);
    let second = place.ok(&["agents", "rotate", "worker", "--quiet"]).trim().to_owned();
    assert_eq!(status(&first).await, StatusCode::UNAUTHORIZED);
    assert_eq!(gateway.tool_names(&second).await, ["vfs_list", "vfs_read"]);
    place.ok(&["agents", "remove", "worker"]);
    assert_eq!(status(&second).await, StatusCode::UNAUTHORIZED);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let answer = gateway.post_as(&first, &[("mcp-session-id", &session)], &list).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    // The name may be used anew, without what it was granted before.
    let third = agent(&place, "worker", &[]);
    assert!(gateway.tool_names(&third).await.is_empty());
}

#[tokio::test]
async fn every_route_but_health_needs_a_token() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"] {
        for path in [
            "/mcp",
            "/metrics",
            "/",
            "/agents",
            "/grants",
            "/healthz/x",
            "/mcp/x",
            "/healthz",
            "/readyz",
        ] {
            if method == "GET" && ["/healthz", "/readyz"].contains(&path) {
                continue;
            }
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            for headers in [
                &[][..],
                &[("authorization", "Bearer dg_wrong")],
                &[("authorization", "Basic eDp5")],
            ] {
                let answer = gateway.send(method.clone(), path, headers, "").await;
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path}");
                assert!(answer.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
            }
        }
    }
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let answer = gateway.send(Method::GET, path, &[], "").await;
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, body.as_bytes()));
    }
    // Nothing of the operator's socket is reachable from here, whoever asks.
    let bearer = format!("Bearer {}", gateway.token);
    for path in ["/agents", "/grants", "/approvals", "/tools", "/status"] {
        let answer = gateway.send(Method::GET, path, &[("authorization", &bearer)], "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn metrics_are_the_operators_and_hold_no_names_of_callers() {
    const SHAPED: &str = "sk-live-0123456789abcdef0123456789abcdef";
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let token = agent(&place, "worker", &["file.read"]);
    gateway.call(&token, "vfs_list", json!({})).await;
    gateway.stateless(&token, "tools/call", json!({ "name": SHAPED, "arguments": {} })).await;
    gateway.stateless(SHAPED, "tools/list", json!({})).await;
    let as_agent = gateway
        .send(Method::GET, "/metrics", &[("authorization", &format!("Bearer {token}"))], "")
        .await;
    assert_eq!(as_agent.status, StatusCode::NOT_FOUND);
    let bearer = format!("Bearer {}", gateway.token);
    let metrics = gateway.send(Method::GET, "/metrics", &[("authorization", &bearer)], "").await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    let counted =
        metrics.lines().find(|line| line.contains("builtin:vfs_list") && line.contains("\"OK\""));
    assert!(
        counted
            .is_some_and(|line| line.starts_with("drawgate_calls_total") && line.ends_with(" 1")),
        "{metrics}"
    );
    assert!(metrics.contains("drawgate_refused_callers_total{reason=\"unknown\"} 1"), "{metrics}");
    for secret in [SHAPED, &token, &gateway.token] {
        assert!(!metrics.contains(secret), "{metrics}");
    }
}

#[tokio::test]
async fn an_operator_may_name_hosts_and_origins() {
    let place = TestFolder::new(
        "[server]\nallowed_hosts = [\"gate.example\"]\nallowed_origins = [\"https://app.example\"]\n",
    );
    let gateway = ready(&place).await;
    let status = async |host: &str, origin: &str| {
        gateway
            .send(Method::GET, "/healthz", &[("host", host), ("origin", origin)], "")
            .await
            .status
            .as_u16()
    };
    assert_eq!(status("gate.example", "https://app.example").await, 200);
    assert_eq!(status("other.example", "https://app.example").await, 403);
    assert_eq!(status("gate.example", "https://other.example").await, 403);
}

#[tokio::test]
async fn beyond_this_machine_only_with_tls_or_by_insisting() {
    let place = TestFolder::new("");
    let refused = place.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert!(!refused.status.success());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("[server.tls]") && message.contains("--insecure"), "{message}");
    assert!(!place.data().join("admin.token").exists());
    let gateway = place.serve_with(|command| {
        *command = {
            let mut insisting =
                place.command(&["serve", "--json", "--listen", "0.0.0.0:0", "--insecure"]);
            insisting.stdout(std::process::Stdio::piped());
            insisting
        };
    });
    let port = gateway.address.rsplit(':').next().unwrap();
    assert_eq!(
        gateway
            .send(Method::GET, "/healthz", &[("host", &format!("127.0.0.1:{port}"))], "")
            .await
            .status,
        200
    );
    assert_eq!(
        gateway
            .send(Method::GET, "/healthz", &[("host", &format!("0.0.0.0:{port}"))], "")
            .await
            .status,
        403
    );
}

#[tokio::test]
async fn one_gateway_per_folder() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let second = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(!second.status.success());
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains("in use") || message.contains("runs"), "{message}");
    assert_eq!(gateway.tool_names(&gateway.token).await.len(), 5);
}

#[tokio::test]
async fn tls_is_served() {
    let place = TestFolder::new("[server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    let certificate = include_bytes!("callers/cert.pem");
    std::fs::write(place.path().join("cert.pem"), certificate).unwrap();
    std::fs::write(place.path().join("key.pem"), include_bytes!("callers/key.pem")).unwrap();
    let gateway = place.serve();
    let address = gateway.address.strip_prefix("https://").unwrap().to_owned();
    let stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let stream =
        trusting(certificate).connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/healthz")
        .header("host", &address)
        .body(axum::body::Body::empty())
        .unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), StatusCode::OK);
    // In clear there is no answer.
    let stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/healthz")
        .header("host", &address)
        .body(axum::body::Body::empty())
        .unwrap();
    assert!(sender.send_request(request).await.is_err());
}

fn trusting(certificate: &[u8]) -> tokio_rustls::TlsConnector {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(certificate).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_root_certificates(roots)
    .with_no_client_auth();
    tokio_rustls::TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn equal_ids_of_many_clients_are_not_mixed_up() {
    let place = TestFolder::new("");
    let gateway = Arc::new(ready(&place).await);
    let clients = (0..100).map(|index| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move {
            let (path, content) = (format!("{index}.txt"), format!("the text of {index}"));
            let token = gateway.token.clone();
            gateway.call(&token, "vfs_write", json!({ "path": path, "content": content })).await;
            let session = gateway.open_session(&token).await;
            let read = json!({ "name": "vfs_read", "arguments": { "path": path } });
            let alone = gateway.rpc(&token, "tools/call", read.clone()).await;
            let message =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": read });
            let within =
                gateway.post_as(&token, &[("mcp-session-id", &session)], &message).await.json();
            for answer in [alone, within] {
                assert_eq!(answer["id"], 1);
                assert_eq!(answer["result"]["content"][0]["text"], content.as_str(), "{answer}");
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

/// What an agent was granted ends with it; the next of its name begins with nothing.
#[tokio::test]
async fn a_new_agent_of_an_old_name_inherits_nothing() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    place.ok(&["agents", "add", "bot", "--quiet"]);
    place.ok(&["grants", "add", "file.read", "--agent", "bot"]);
    assert_eq!(place.json(&["tools", "list", "--agent", "bot"]).as_array().map(Vec::len), Some(2));
    place.ok(&["agents", "remove", "bot"]);
    let token = place.ok(&["agents", "add", "bot", "--quiet"]);
    assert_eq!(gateway.tool_names(token.trim()).await, Vec::<String>::new());
    assert_eq!(place.json(&["grants", "list", "--agent", "bot"]), serde_json::json!([]));
}

/// A server without `capabilities`, one for all, and one for some.
fn servers() -> String {
    let server = |name: &str, more: &str| {
        format!(
            "[servers.{name}]\nprotocol = \"call\"\ncommand = \"cat\"\n{more}\n\
             [[servers.{name}.manifest]]\nname = \"go\"\ndescription = \"d\"\ninputSchema = {{}}\n"
        )
    };
    server("plain", "")
        + &server("open", "capabilities = [\"public\"]")
        + &server("some", "capabilities = [\"demo\"]")
}

#[tokio::test]
async fn a_source_without_capabilities_is_for_the_local_user() {
    let place = TestFolder::new(&servers());
    let gateway = ready(&place).await;
    let seen = async |token: &str| {
        let all = gateway.tool_names(token).await;
        all.into_iter().filter(|name| name.ends_with("__go")).collect::<Vec<_>>()
    };
    eventually("all are there", async || (seen(&gateway.token).await.len() == 3).then_some(()))
        .await;
    let token = agent(&place, "worker", &["demo"]);
    assert_eq!(seen(&token).await, ["open__go", "some__go"]);
    let call = async |tool: &str| {
        let params = json!({ "name": tool, "arguments": {} });
        gateway.stateless(&token, "tools/call", params).await.rpc_code()
    };
    assert_eq!(call("plain__go").await, Some(-32602));
    let id = place.ok(&["grants", "add", "source.plain", "--agent", "worker", "--quiet"]);
    assert_eq!(seen(&token).await, ["open__go", "plain__go", "some__go"]);
    assert_eq!(call("plain__go").await, None);
    place.ok(&["grants", "revoke", id.trim()]);
    assert_eq!(call("plain__go").await, Some(-32602));
    let listed = place.ok(&["tools", "list"]);
    let doctor = place.ok(&["servers", "doctor"]);
    for words in ["local user; others with source.plain", "everyone", "with demo"] {
        assert!(listed.contains(words), "{words}: {listed}");
        assert!(doctor.contains(&format!("callers: {words}")), "{words}: {doctor}");
    }
}
