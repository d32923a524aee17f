use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::configure::{headers, is_reserved};

fn secrets() -> Secrets {
    Secrets::new(BTreeMap::from([("AUTH".to_owned(), "Bearer abc123".to_owned())]))
}

fn understand(config: Value) -> Result<Settings, String> {
    let config: McpConfig = serde_json::from_value(config).map_err(|error| error.to_string())?;
    config.validate(&secrets()).map_err(|error| error.to_string())
}

#[test]
fn transports_have_several_spellings_and_may_be_left_out() {
    for transport in ["streamable_http", "streamableHttp", "http"] {
        let settings =
            understand(json!({ "transport": transport, "url": "http://127.0.0.1:1/mcp" })).unwrap();
        assert!(matches!(settings.endpoint, Endpoint::Http(_)));
    }
    assert!(matches!(
        understand(json!({ "command": "x" })).unwrap().endpoint,
        Endpoint::Program(_)
    ));
    assert!(matches!(
        understand(json!({ "url": "https://h/mcp" })).unwrap().endpoint,
        Endpoint::Http(_)
    ));
}

#[test]
fn websocket_addresses_are_http_addresses_underneath() {
    for (url, expected) in [("ws://h:1/mcp", "http://h:1/mcp"), ("WSS://h/?a", "https://h/?a")] {
        let settings = understand(json!({ "transport": "websocket", "url": url })).unwrap();
        assert!(
            matches!(settings.endpoint, Endpoint::Websocket(address) if address.uri == expected)
        );
    }
}

#[test]
fn mistakes_are_explained() {
    let cases = [
        (json!({}), "`command` is missing"),
        (json!({ "command": "x", "url": "http://h/" }), "`command` has no meaning here"),
        (json!({ "transport": "pigeon" }), "unknown variant `pigeon`"),
        (json!({ "transport": "stdio" }), "`command` is missing"),
        (json!({ "transport": "http" }), "`url` is missing"),
        (
            json!({ "transport": "stdio", "command": "x", "url": "http://h/" }),
            "`url` has no meaning here",
        ),
        (json!({ "url": "http://h/", "env": { "A": "b" } }), "`env` has no meaning here"),
        (json!({ "url": "h/mcp" }), "`url`: not an address"),
        (json!({ "url": "ftp://h/mcp" }), "`url`: not an address"),
        (json!({ "url": "http://me:pw@h/mcp" }), "must not contain a user name"),
        (
            json!({ "url": "http://h/", "headers": { "Mcp-Method": "x" } }),
            "can't send a header of this name",
        ),
        (json!({ "url": "http://h/", "headers": { "Keep-Alive": "x" } }), "can't send a header"),
        (json!({ "url": "http://h/", "headers": { "Expect": "x" } }), "can't send a header"),
        (json!({ "url": "http://h/", "headers": { "Trailer": "x" } }), "can't send a header"),
        (json!({ "url": "http://h/", "headers": { "TE": "x" } }), "can't send a header"),
        (
            json!({ "url": "http://h/", "headers": { "Proxy-Authorization": "x" } }),
            "can't send a header",
        ),
        (
            json!({ "url": "http://h/", "headers": { "Transfer_Encoding": "x" } }),
            "can't send a header",
        ),
        (json!({ "url": "http://h/", "headers": { "A": "b\r\nC: d" } }), "can't stand in a header"),
        (
            json!({ "url": "http://h/", "headers": { "A": "env:ABSENT" } }),
            "the environment variable `ABSENT` is not set; set it, or change the `env:ABSENT` that refers to it (in `headers.A`)",
        ),
        (json!({ "command": "x", "env": { "A": "env:ABSENT" } }), "that refers to it (in `env.A`)"),
        (json!({ "command": "env:SERVER" }), "`command`: `env:NAME` can't stand in a command line"),
        (
            json!({ "command": "x", "args": ["--mode=env:", "--token=env:TOKEN"] }),
            "`args`: `env:NAME` can't stand in a command line, which other users of this machine can read; write it in `env`, in a header of a server",
        ),
        (json!({ "command": "x", "concurrency": 0 }), "must be at least 1"),
        (json!({ "command": "x", "idle_shutdown_ms": 0 }), "must be at least 1"),
        (json!({ "url": "http://h/", "idle_shutdown_ms": 5 }), "`idle_shutdown_ms` has no meaning"),
        (json!({ "command": "x", "sessions": "mine" }), "unknown variant `mine`"),
        (json!({ "transport": "sse" }), "`url` is missing"),
        (json!({ "transport": "sse", "url": "ws://h/" }), "`url`: not an address"),
        (json!({ "transport": "websocket", "url": "http://h/" }), "such as `ws://127.0.0.1"),
        (json!({ "transport": "websocket", "url": "ws://me:pw@h/" }), "must not contain a user"),
        (
            json!({ "transport": "websocket", "url": "ws://h/", "headers": { "Upgrade": "x" } }),
            "can't send a header of this name",
        ),
    ];
    for (config, expected) in cases {
        let error = understand(config.clone()).err().unwrap_or_default();
        assert!(error.contains(expected), "{config}: {error}");
    }
}

#[test]
fn secrets_reach_headers_and_the_redactor_but_not_debug_output() {
    let secrets = secrets();
    let given = [("Authorization", "env:AUTH")].into_iter();
    let headers = headers(given, is_reserved, &secrets).unwrap();
    assert_eq!(headers["authorization"], "Bearer abc123");
    assert!(!format!("{headers:?}").contains("abc123"));
    assert_eq!(secrets.known_values(), ["Bearer abc123", "abc123"]);
}
