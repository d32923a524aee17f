//! What the operator sees of packs and agents: who they are, where they come from, why they went.

use drawgate_sdk::proto::execute_tool_response::Result as Outcome;
use drawgate_sdk::proto::{ExecuteToolRequest, ToolDefinition};
use serde_json::{Value, json};

use super::{Peers, RawPack, key, key_line, manifest, tool};
use crate::support::{eventually, text};

/// The lines of `audit tail` with this event, without number and time.
fn told(peers: &Peers, kind: &str) -> Vec<String> {
    let tail = peers.place.ok(&["audit", "tail", "--lines", "100"]);
    let told = tail.lines().filter_map(|line| Some((line.find(kind)?, line)));
    told.filter_map(|(at, line)| line.get(at..)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_sees_who_came_from_where_and_why_it_went() {
    let lines = [key_line("pack=\"one\",tools=\"*\"", &key(1))];
    let peers = Peers::start_with("", &lines);
    let pack = peers.pack("one", &key(1)).await;
    let _calls = pack.connect(manifest("one", vec![tool("work", &[])])).await.unwrap();

    assert_eq!(peers.place.json(&["packs", "list"])[0]["remote"], "127.0.0.1");
    let list = peers.place.ok(&["packs", "list"]);
    assert!(list.contains("FROM") && list.contains("127.0.0.1"), "{list}");
    let shown = peers.place.ok(&["packs", "show", "one"]);
    assert!(shown.contains("from 127.0.0.1"), "{shown}");
    assert_eq!(peers.place.json(&["packs", "show", "one"])["pack"]["remote"], "127.0.0.1");

    assert_eq!(told(&peers, "peer_connected"), ["peer_connected  pack one  from 127.0.0.1"]);
    peers.place.ok(&["packs", "kick", "one"]);
    let gone =
        eventually("its end is written down", async || told(&peers, "peer_disconnected").pop());
    assert_eq!(gone.await, "peer_disconnected  local  pack one  kicked  from 127.0.0.1");
    assert!(RawPack::prove(peers.wire().await, "one", &key(9)).await.is_err());
    let refused = told(&peers, "peer_refused");
    assert_eq!(refused, ["peer_refused  pack one  unknown_key  from 127.0.0.1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_on_the_command_line_are_what_the_tool_declares() {
    let peers = Peers::start_with("", &[key_line("pack=\"one\",tools=\"*\"", &key(1))]);
    let properties = json!({
        "count": { "type": "integer" },
        "exact": { "type": "boolean" },
        "words": { "type": "array", "items": { "type": "string" } },
        "name": { "type": "string" },
    });
    let definition = ToolDefinition {
        input_schema_json: json!({ "type": "object", "properties": properties }).to_string(),
        ..tool("work", &[])
    };
    let pack = peers.pack("one", &key(1)).await;
    let echo = |request: &ExecuteToolRequest| Outcome::OutputJson(request.input_json.clone());
    let _pack = pack.serve(manifest("one", vec![definition]), echo).await;
    let call =
        |arguments: &[&str]| peers.place.run(&[&["tools", "call", "work"], arguments].concat());
    for (arguments, expected) in [
        (["count=7", "name=7"], json!({ "count": 7, "name": "7" })),
        (["exact=true", "name=true"], json!({ "exact": true, "name": "true" })),
        ([r#"words=["a","b"]"#, "count:=-1"], json!({ "words": ["a", "b"], "count": -1 })),
    ] {
        let output = call(&arguments);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), expected, "{arguments:?}");
    }
    let output = call(&["count=seven"]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        text(&output.stderr),
        "drawgate: `count` takes an integer, which `seven` is not; write it like `count=7`\n"
    );
}
