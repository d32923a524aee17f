//! Agents that are given tools, clients that act as them, and what they see.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::load::{fixture, offers};
use crate::peers::key;
use crate::support::{TestFolder, text};

/// The names of a list, with how the agent comes by each.
fn seen(place: &TestFolder, agent: &str) -> Vec<(String, String)> {
    let tools = place.json(&["tools", "list", "--agent", agent]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let each = tools.as_array().unwrap().iter();
    each.map(|tool| (text(&tool["wireName"]), text(&tool["access"]))).collect()
}

fn names(seen: &[(String, String)], access: &str) -> Vec<String> {
    let own = seen.iter().filter(|(_, how)| how == access);
    own.map(|(name, _)| name.clone()).collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

type Words = &'static [&'static str];
/// An agent, how it is added, what it holds, and the tools that were asked for.
type Row = (&'static str, Words, Words, Words);

#[tokio::test]
async fn an_agent_gets_what_its_tools_require_and_nothing_else() {
    let place = TestFolder::new(&fixture());
    // Without a gateway, then with one.
    let alone = place.json(&["agents", "add", "alone", "--tools", "vfs_read"]);
    assert_eq!(alone["capabilities"], json!(["file.read"]), "{alone}");
    let gateway = place.serve();
    offers(&gateway, "fixture__echo").await;
    let rows: [Row; 4] = [
        ("reader", &["--tools", "vfs_read"], &["file.read"], &["vfs_read"]),
        (
            "both",
            &["--tools", "fixture__echo vfs_read"],
            &["file.read", "source.fixture"],
            &["vfs_read", "fixture__echo"],
        ),
        (
            "more",
            &["--tools", "vfs_read", "--tools", "builtin:vfs_read", "--capability", "extra"],
            &["extra", "file.read"],
            &["vfs_read"],
        ),
        ("idle", &["--capability", "extra"], &["extra"], &[]),
    ];
    for (name, arguments, capabilities, tools) in rows {
        let made = place.json(&[&["agents", "add", name], arguments].concat());
        assert_eq!(made["capabilities"], json!(capabilities), "{name}");
        let listed = gateway.tool_names(made["token"].as_str().unwrap()).await;
        let shown = names(&seen(&place, name), "listed");
        assert_eq!(listed, shown, "{name}: what is shown is what it sees");
        if tools.is_empty() {
            assert_eq!(listed, [""; 0], "{name}");
            continue;
        }
        assert_eq!(made["tools"], json!(tools), "{name}");
        let mut told: Vec<&str> = [strings(&made["tools"]), strings(&made["also"])].concat();
        told.sort_unstable();
        let mut sees: Vec<&str> = listed.iter().map(String::as_str).collect();
        sees.sort_unstable();
        assert_eq!(told, sees, "{name}: it says all that it opens");
    }
    let agents = place.json(&["agents", "list"]).as_array().unwrap().len();
    for tools in ["no_such__*", "vfs_read no_such_tool"] {
        let wrong = place.run(&["agents", "add", "late", "--tools", tools]);
        let said = text(&wrong.stderr);
        assert!(said.contains("no tool is called `no_such"), "{said}");
    }
    assert_eq!(place.json(&["agents", "list"]).as_array().unwrap().len(), agents);
    let words = place.ok(&["agents", "add", "told", "--tools", "fixture__echo"]);
    for part in ["it holds: source.fixture", "it can call: fixture__echo", "and also, since"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[tokio::test]
async fn lists_say_what_is_found_by_search_and_what_a_key_adds() {
    let place = TestFolder::new("");
    place.ok(&["agents", "add", "finder", "--tools", "vfs_read", "--expose", "search", "--quiet"]);
    place.ok(&["agents", "add", "two", "--tools", "vfs_read", "--quiet"]);
    for (number, name, capability) in [(1, "keyed", "file.read"), (2, "two", "file.write")] {
        let public = key(number).public_key().to_openssh().unwrap();
        place.ok(&["keys", "add", "--agent", name, "--capability", capability, &public]);
    }
    let check = |when: &str| {
        let finder = seen(&place, "finder");
        assert!(finder.iter().all(|(_, how)| how == "search") && !finder.is_empty(), "{when}");
        let table = place.run(&["tools", "list", "--agent", "finder"]);
        assert!(text(&table.stdout).contains("by search"), "{when}");
        assert!(text(&table.stderr).contains("`search_tools` and `call_tool`"), "{when}");
        let keyed = seen(&place, "keyed");
        assert_eq!(names(&keyed, "listed"), names(&seen(&place, "two"), "listed"), "{when}");
        assert!(names(&keyed, "listed").contains(&"vfs_read".to_owned()), "{when}: {keyed:?}");
        let two = seen(&place, "two");
        assert!(names(&two, "key").contains(&"vfs_write".to_owned()), "{when}: {two:?}");
        let nobody = place.run(&["tools", "list", "--agent", "nobody"]);
        assert!(text(&nobody.stderr).contains("there is no agent `nobody`"), "{when}");
    };
    check("alone");
    let gateway = place.serve();
    offers(&gateway, "vfs_read").await;
    check("running");
}

#[tokio::test]
async fn a_client_acts_as_the_agent_that_it_was_connected_for() {
    let place = TestFolder::new("");
    let unknown = place.run(&["connect", "claude", "--agent", "bot", "--write"]);
    assert!(text(&unknown.stderr).contains("there is no agent `bot`"), "{unknown:?}");
    assert!(!place.path().join(".mcp.json").exists() && !place.data().exists());
    place.ok(&["agents", "add", "bot", "--tools", "vfs_read", "--quiet"]);
    let http = place.ok(&["connect", "claude", "--agent", "bot", "--http"]);
    assert!(http.contains("the token of `bot`"), "{http}");
    let said = place.ok(&["connect", "claude", "--agent", "bot", "--write"]);
    assert!(said.contains("acts as agent `bot`"), "{said}");
    let file = std::fs::read_to_string(place.path().join(".mcp.json")).unwrap();
    let written: Value = serde_json::from_str(&file).unwrap();
    let arguments = strings(&written["mcpServers"]["drawgate"]["args"]);
    assert!(arguments.ends_with(&["--agent", "bot"]), "{file}");

    let mut command = place.command(&arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let call = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
        "name": "vfs_read", "arguments": { "path": "none.txt" } } });
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut listed = Vec::new();
    for (message, id) in [(hello, Some(1)), (ready, None), (list, Some(2)), (call, Some(3))] {
        writeln!(input, "{message}").unwrap();
        while let Some(id) = id {
            let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if answer["id"] == id {
                let tools = answer["result"]["tools"].as_array().cloned().unwrap_or_default();
                listed.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
                break;
            }
        }
    }
    assert_eq!(listed, names(&seen(&place, "bot"), "listed"));
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let calls = place.json(&["audit", "search", "--agent", "bot", "--tool", "vfs_read"]);
    assert_eq!(calls.as_array().unwrap().len(), 1, "the log names the agent: {calls}");
}
