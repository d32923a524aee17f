//! What belongs to one side of the gateway stays there: tokens, headers, variables.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::recorder::{Kind, Recorder};
use super::{attacker, record};
use crate::callers::{agent, ready};
use crate::load::offers;
use crate::support::{Gateway, TestFolder};

/// Calls of each era to each server.
const CALLS: usize = 200;
const OWN: &str = "credential-of-the-gateway";

/// Headers of an agent that no server may see.
const SENT: &[(&str, &str)] = &[
    ("cookie", "sid=canary-cookie"),
    ("x-api-key", "canary-key"),
    ("x-github-token", "canary-github"),
    ("x-own", "canary-own"),
    ("proxy-authorization", "Basic canary-proxy"),
    ("x-forwarded-for", "canary-forwarded"),
    ("forwarded", "for=canary-for"),
    ("user-agent", "canary-agent"),
    ("last-event-id", "canary-event"),
    ("mcp-param-secret", "canary-param"),
    ("x-auth-request-access-token", "canary-access"),
];

async fn call(gateway: &Gateway, token: &str, session: Option<&str>, tool: &str) -> Value {
    let mut params = json!({ "name": tool, "arguments": { "message": "hello" } });
    let mut headers = SENT.to_vec();
    if let Some(session) = session {
        headers.push(("mcp-session-id", session));
    } else {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "canary-client", "version": "1" },
        });
        headers.extend([
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ]);
    }
    let message =
        json!({ "jsonrpc": "2.0", "id": "canary-id", "method": "tools/call", "params": params });
    gateway.post_as(token, &headers, &message).await.json()
}

#[tokio::test]
async fn token_passthrough() {
    let mut recorders = Vec::new();
    for kind in Kind::ALL {
        recorders.push((kind, Recorder::start(kind).await));
    }
    let mut config: String = recorders.iter().map(|(_, recorder)| recorder.config(OWN)).collect();
    let place = TestFolder::new("");
    config += &attacker(&place, &format!("env = {{ OWN = \"{OWN}\" }}"));
    place.configure(&config);
    let gateway = place.serve_with(|command| {
        command.env("HTTP_COOKIE", "canary-variable");
    });
    let token = agent(&place, "ann", &["*"]);
    let session = gateway.open_session(&token).await;
    for server in Kind::ALL.map(Kind::name).into_iter().chain(["x"]) {
        let tool = format!("{server}__echo");
        offers(&gateway, &tool).await;
        for _ in 0..CALLS {
            for session in [None, Some(session.as_str())] {
                let answer = call(&gateway, &token, session, &tool).await;
                let said = answer["result"]["content"][0]["text"].as_str();
                let said = said.unwrap_or_else(|| panic!("{server}: {answer}"));
                assert!(said.contains("hello") && !said.contains("canary"), "{server}: {said}");
            }
        }
    }
    let mut all = vec![("x", vec![record(&place)])];
    all.extend(recorders.iter().map(|(kind, recorder)| (kind.name(), recorder.seen())));
    for (server, seen) in all {
        let seen = seen.join("\n");
        assert!(seen.matches("tools/call").count() >= 2 * CALLS, "{server}");
        assert!(seen.contains(OWN), "{server} gets the credential that is meant for it");
        for secret in ["canary", &token, &session, &gateway.token] {
            assert!(!seen.contains(secret), "{server} was shown `{secret}`");
        }
    }
}

/// Ways to write a variable.
const REFERENCES: &[&str] = &[
    "env:CATALOGUE_SECRET",
    "${CATALOGUE_SECRET}",
    "$CATALOGUE_SECRET",
    "${env:CATALOGUE_SECRET}",
    "%CATALOGUE_SECRET%",
    "{{CATALOGUE_SECRET}}",
    "$(printenv CATALOGUE_SECRET)",
];

#[tokio::test]
async fn env_expand_leak() {
    const VALUE: &str = "expanded-value-of-it";
    let place = TestFolder::new("");
    let all: Vec<Value> = REFERENCES.iter().map(|text| json!(text)).collect();
    let described = json!([{ "name": "read", "description": REFERENCES.join(" "), "inputSchema": {
        "type": "object", "properties": { "a": { "type": "string", "default": REFERENCES[0], "enum": all } },
    } }]);
    std::fs::write(place.path().join("tools.json"), described.to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/changing.py");
    let changing = format!(
        "[servers.c]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"{script}\", \"tools.json\"]\n"
    );
    place.configure(&(attacker(&place, "") + &changing));
    let gateway = place.serve_with(|command| {
        command.env("CATALOGUE_SECRET", VALUE);
    });
    for tool in ["x__echo", "c__read"] {
        offers(&gateway, tool).await;
    }
    let listed = gateway.rpc(&gateway.token, "tools/list", json!({})).await.to_string();
    for reference in REFERENCES {
        assert!(listed.contains(reference), "{listed}");
        let arguments = json!({ "url": reference, "headers": { "Authorization-Kind": reference } });
        let result = gateway.call(&gateway.token, "x__echo", arguments.clone()).await;
        let heard: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(heard, arguments);
        let said = json!({ "content": [{ "type": "text", "text": reference }] });
        let result = gateway.call(&gateway.token, "x__say", json!({ "result": said })).await;
        assert_eq!(result["content"], said["content"]);
    }
    for text in [listed, record(&place), place.ok(&["audit", "export"]), place.log()] {
        assert!(!text.contains(VALUE), "{text}");
    }
}

/// Headers by which others have let strangers in.
const TRUSTED_ELSEWHERE: &[(&str, &str)] = &[
    ("user-agent", "kube-probe/1.30"),
    ("x-forwarded-for", "127.0.0.1"),
    ("x-forwarded-user", "local"),
    ("x-remote-user", "local"),
    ("x-authenticated-user", "local"),
    ("x-real-ip", "127.0.0.1"),
    ("x-client-cert", "CN=local"),
    ("forwarded", "for=127.0.0.1;by=local"),
    ("x-original-url", "/healthz"),
    ("x-rewrite-url", "/healthz"),
    ("x-forwarded-prefix", "/healthz"),
    ("x-http-method-override", "GET"),
    ("x-forwarded-host", "localhost"),
    ("x-mcp-server-url", "http://127.0.0.1:1/mcp"),
    ("x-drawgate-principal", "local"),
    ("x-internal", "true"),
    ("cookie", "drawgate=local"),
];

#[tokio::test]
async fn proxy_header_trust() {
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    let nobody = agent(&place, "nobody", &[]);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } } });
    let usual = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let plain = gateway.post_as(&nobody, &usual, &message).await;
    assert_eq!(plain.json()["result"]["tools"], json!([]));
    let bearer = format!("Bearer {nobody}");
    for header in TRUSTED_ELSEWHERE {
        let with = gateway.post_as(&nobody, &[usual[0], usual[1], *header], &message).await;
        assert_eq!((with.status, &with.body), (plain.status, &plain.body), "{header:?}");
        for path in ["/mcp", "/metrics", "/agents"] {
            let stranger = gateway.send(Method::GET, path, &[*header], "").await;
            assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "{header:?} {path}");
        }
        let headers = [*header, ("authorization", bearer.as_str())];
        let metrics = gateway.send(Method::GET, "/metrics", &headers, "").await;
        assert_eq!(metrics.status, StatusCode::NOT_FOUND, "{header:?}");
    }
}
