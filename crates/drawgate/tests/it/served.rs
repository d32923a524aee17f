//! What clients get of servers beside results: lists page by page, and instructions.

use http::StatusCode;
use serde_json::{Value, json};

use crate::load::offers;
use crate::support::{Gateway, TestFolder};

/// The misbehaving server in one of its modes.
fn server(name: &str, mode: &str) -> String {
    let script =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../drawgate-sources/tests/fixtures/mcp_server.py");
    format!("[servers.{name}]\ncommand = \"python3\"\nargs = [\"{script}\", \"{mode}\"]\n\n")
}

async fn page(gateway: &Gateway, cursor: Option<&Value>) -> Value {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    gateway.rpc(&gateway.token, "tools/list", params).await
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let place = TestFolder::new(&server("many", "too_many"));
    let gateway = place.serve();
    let (mut names, mut cursor, mut pages) = (Vec::new(), None, 0);
    offers(&gateway, "many__echo0").await;
    loop {
        let answer = page(&gateway, cursor.as_ref()).await;
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        pages += 1;
        cursor = answer["result"].get("nextCursor").cloned();
        if cursor.is_none() {
            break;
        }
    }
    // Five of them are built in.
    assert_eq!((pages, names.len()), (6, 5_005));
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5_005, "none twice");
    for nonsense in [json!("nonsense"), json!(7), json!("0"), json!("x".repeat(100_000))] {
        for list in ["tools", "prompts", "resources", "resources/templates"] {
            let method = format!("{list}/list");
            let params = json!({ "cursor": nonsense });
            let answer = gateway.stateless(&gateway.token, &method, params).await;
            assert_eq!(answer.rpc_code(), Some(-32602), "{method}: {answer:?}");
        }
    }
    let listed = place.ok(&["servers", "list"]);
    assert!(listed.contains("something is left out"), "{listed}");
    let doctor = place.ok(&["servers", "doctor", "many"]);
    assert!(doctor.contains("more than 5000 tools"), "{doctor}");
}

#[tokio::test]
async fn instructions_of_servers_reach_those_who_may_use_them() {
    let place = TestFolder::new(&server("polite", "instructions"));
    let gateway = place.serve();
    offers(&gateway, "polite__echo").await;
    let told = "## What the server `polite` says about its tools\n\nSay \\u{200b}please.";
    let agent = |name: &str, capability: &str| {
        place.ok(&["agents", "add", name, "--quiet", "--capability", capability]).trim().to_owned()
    };
    let (user, stranger) = (agent("user", "source.polite"), agent("stranger", "file.read"));
    for (token, is_told) in [(&gateway.token, true), (&user, true), (&stranger, false)] {
        let discovered = gateway.rpc(token, "server/discover", json!({})).await;
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let initialized = gateway.post_as(token, &[], &hello).await;
        assert_eq!(initialized.status, StatusCode::OK);
        for answer in [discovered, initialized.json()] {
            let text = answer["result"]["instructions"].as_str().unwrap();
            assert!(text.starts_with("Drawgate: "), "{text}");
            assert_eq!(text.contains(told), is_told, "{text}");
            assert_eq!(text.contains("polite"), is_told, "{text}");
        }
    }
}
