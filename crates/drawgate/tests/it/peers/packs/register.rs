//! Registration: whole or not at all, and who holds what.

use drawgate_sdk::proto::{MessageKind, PackManifest, ToolDefinition};
use serde_json::{Value, json};
use tonic::Code;

use super::{
    any, call, code, departed, full, is_listed, next, one, output, said, two, two_packs, unlisted,
};
use crate::peers::{Peers, key, key_line, manifest, tool};
use crate::support::{TestFolder, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_brings_its_tools_and_takes_them_along() {
    let peers = two_packs("");
    let pack = one(&peers).await;
    let definition = ToolDefinition {
        description: String::new(),
        title: "Greet".to_owned(),
        input_schema_json:
            r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#
                .to_owned(),
        timeout_seconds: 7,
        ..tool("greet", &[])
    };
    let manifest = PackManifest { tools: vec![definition], ..full("one", &[]) };
    let mut calls = pack.connect(manifest).await.unwrap();
    assert!(is_listed(&peers.gateway, "greet").await, "when the stream is open they are there");
    let wrong = call(&peers, "greet", any()).await.unwrap();
    assert_eq!(code(&wrong), "INVALID_ARGUMENTS");
    let result = call(&peers, "greet", json!({ "name": "Ann" }));
    let request = next(&mut calls, MessageKind::Execute).await;
    assert_eq!(request.tool_name, "greet");
    assert_eq!(request.input_json, r#"{"name":"Ann"}"#);
    assert!((1..=7000).contains(&request.timeout_ms), "{request:?}");
    pack.answer(&request.request_id, output(&json!({ "said": "hello" }))).await.unwrap();
    let result = result.await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "said": "hello" }));
    assert_eq!(said(&result), r#"{"said":"hello"}"#);

    let list = peers.place.json(&["packs", "list"]);
    let shown = &list[0];
    assert_eq!((&shown["id"], &shown["state"]), (&json!("one"), &json!("ready")));
    assert_eq!((&shown["version"], &shown["tools"]), (&json!("1.0.0"), &json!(1)));
    let text = peers.place.ok(&["packs", "show", "one"]);
    assert!(text.contains("greet [source.one] 7 s  Tool `greet` of pack `one`."), "{text}");
    assert!(text.contains(shown["fingerprint"].as_str().unwrap()), "{text}");
    let tools = peers.place.json(&["tools", "list"]);
    let greet = tools.as_array().unwrap().iter().find(|tool| tool["wireName"] == "greet").unwrap();
    assert_eq!(greet["servedBy"]["server"], "one 1.0.0");
    assert_eq!(greet["servedBy"]["since"], shown["since"]);
    assert_eq!(greet["tool"]["title"], "Greet");

    // In this order: a connection that closes under a registered pack is lost.
    drop(calls);
    unlisted(&peers.gateway, "greet").await;
    drop(pack);
    let gone = call(&peers, "greet", json!({ "name": "Ann" })).await.unwrap();
    assert_eq!(code(&gone), "UNAVAILABLE");
    assert_eq!(peers.place.json(&["packs", "list"]), json!([]));
    let unknown = peers.place.run(&["packs", "show", "one"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no pack `one` is connected"));
    departed(&peers, "one", "left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_every_fault_and_leaves_nothing() {
    let lines = [key_line("pack=\"one\",tools=\"good* bad* vfs_*\"", &key(1))];
    let peers = Peers::start(&lines);
    let pack = one(&peers).await;
    let with = |name: &str, change: fn(&mut ToolDefinition)| {
        let mut tool = tool(name, &[]);
        change(&mut tool);
        tool
    };
    let tools = vec![
        tool("good", &[]),
        with("bad_json", |tool| tool.input_schema_json = "{".to_owned()),
        with("bad_schema", |tool| tool.input_schema_json = r#"{"type":"objekt"}"#.to_owned()),
        with("bad_array", |tool| tool.input_schema_json = r#"{"type":"array"}"#.to_owned()),
        with("bad time", |_| {}),
        with("bad_time", |tool| tool.timeout_seconds = -3),
        with("bad_action", |tool| tool.annotations_json = r#"{"policyAction":"x y"}"#.to_owned()),
        tool("bad_twin", &[]),
        tool("bad-twin", &[]),
        tool("not_mine", &[]),
        tool("vfs_read", &[]),
    ];
    let refused = pack.connect(manifest("one", tools)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    let message = refused.message();
    for (tool, reason) in [
        ("bad_json", "`input_schema_json` is not JSON"),
        ("bad_schema", "`inputSchema`"),
        ("bad_array", "`inputSchema`"),
        ("bad time", "is not a valid tool name"),
        ("bad_time", "`timeout_seconds` is -3"),
        ("bad_action", "`annotations.policyAction`"),
        ("not_mine", "may not offer this name"),
        ("vfs_read", "is taken by `builtin:vfs_read`"),
    ] {
        let said = message
            .lines()
            .any(|line| line.starts_with(&format!("tool `{tool}`: ")) && line.contains(reason));
        assert!(said, "{tool}: {message}");
    }
    assert!(message.contains("its name clashes with `bad"), "{message}");
    assert_eq!(message.lines().count(), 9, "{message}");
    assert!(!is_listed(&peers.gateway, "good").await);
    assert_eq!(peers.place.json(&["packs", "list"]), json!([]));
    let log = peers.place.ok(&["audit", "export", "--json"]);
    let noted = log.lines().filter(|line| line.contains("peer_refused")).collect::<Vec<_>>();
    assert!(matches!(noted[..], [one] if one.contains(r#""reason":"manifest""#)), "{log}");
    let many = (0..200).map(|number| tool(&format!("foreign_{number}"), &[])).collect();
    let cut = pack.connect(manifest("one", many)).await.unwrap_err();
    assert!(cut.message().ends_with(" more; the gateway's log has all of them"), "{cut:?}");
    let log = peers.place.log();
    assert!((0..200).all(|number| log.contains(&format!("`foreign_{number}`"))), "{log}");
    // The connection is still good for a manifest that is.
    let _calls = pack.connect(full("one", &["good"])).await.unwrap();
    assert!(is_listed(&peers.gateway, "good").await);
}

/// Installs a toolpack `kit` with the tool `look`.
fn install_kit(place: &TestFolder) {
    let folder = place.path().join("sources/kit");
    std::fs::create_dir_all(&folder).unwrap();
    let toolpack = json!({ "id": "kit", "name": "kit", "version": "1.0.0", "tools": [{
        "name": "look", "type": "command", "description": "A command.", "command_template": "ls",
        "parameters": { "type": "object", "properties": {} },
    }] });
    std::fs::write(folder.join("toolpack.json"), toolpack.to_string()).unwrap();
    place.ok(&["toolpacks", "install", folder.to_str().unwrap()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_somebody_holds_is_refused_with_the_holder() {
    let script = format!("{}/tests/fixtures/server.py", env!("CARGO_MANIFEST_DIR"));
    let peers = two_packs(&format!(
        "[servers.files]\ncommand = \"python3\"\nargs = [\"{script}\"]\nsandbox = \"none\"\nnames = \"flat\"\n"
    ));
    let place = &peers.place;
    install_kit(place);
    place.ok(&["toolpacks", "enable", "kit"]);
    let server_tool = eventually("the server's tools", async || {
        let tools = place.json(&["tools", "list"]);
        let tools = tools.as_array().unwrap();
        let own = tools.iter().find(|tool| tool["serverId"] == "files")?;
        Some(own["wireName"].as_str().unwrap().to_owned())
    })
    .await;
    let first = one(&peers).await;
    let _calls = first.connect(full("one", &["mine"])).await.unwrap();
    let second = two(&peers).await;
    let wanted = ["free", "look", "Mine", server_tool.as_str()];
    let refused = second.connect(full("two", &wanted)).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused:?}");
    let mut said: Vec<&str> = refused.message().lines().collect();
    said.sort_unstable();
    let mut expected = vec![
        "tool `look`: the name `look` is taken by `kit:look`".to_owned(),
        "tool `Mine`: the name `Mine` is taken by `one:mine`".to_owned(),
        format!("tool `{server_tool}`: the name `{server_tool}` is taken by `files:{server_tool}`"),
    ];
    expected.sort_unstable();
    assert_eq!(said, expected);
    assert!(!is_listed(&peers.gateway, "free").await);
    // The other pack leaves, and its name is free.
    first.wire.cut();
    unlisted(&peers.gateway, "mine").await;
    let _calls = second.connect(full("two", &["free", "Mine"])).await.unwrap();
    assert!(is_listed(&peers.gateway, "Mine").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_sets_up_keeps_its_id() {
    let lines = [
        key_line("pack=\"files\",tools=\"*\"", &key(1)),
        key_line("pack=\"later\",tools=\"*\"", &key(2)),
        key_line("pack=\"kit\",tools=\"*\"", &key(3)),
        key_line("pack=\"builtin\",tools=\"*\"", &key(4)),
    ];
    let server = |name: &str| format!("[servers.{name}]\ncommand = \"true\"\n");
    let peers = Peers::start_with(&server("files"), &lines);
    let pack = peers.pack("files", &key(1)).await;
    let refused = pack.connect(full("files", &["x"])).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused:?}");
    assert!(refused.message().contains("`files` is a server of the gateway"), "{refused:?}");
    // One that is configured later takes the id from a pack.
    let pack = peers.pack("later", &key(2)).await;
    let mut calls = pack.connect(full("later", &["x"])).await.unwrap();
    peers.place.configure(&(server("files") + &server("later")));
    assert_eq!(calls.message().await.unwrap_err().code(), Code::Unavailable);
    unlisted(&peers.gateway, "x").await;
    let refused = peers.pack("builtin", &key(4)).await.connect(full("builtin", &["y"])).await;
    assert_eq!(refused.unwrap_err().code(), Code::AlreadyExists);
    let pack = peers.pack("kit", &key(3)).await;
    let _calls = pack.connect(full("kit", &["z"])).await.unwrap();
    // A toolpack does not send a connected pack away.
    install_kit(&peers.place);
    let refused = peers.place.run(&["toolpacks", "enable", "kit"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("a connected pack has its id"), "{said}");
    assert!(is_listed(&peers.gateway, "z").await);
    pack.wire.cut();
    unlisted(&peers.gateway, "z").await;
    eventually("the id is free", async || {
        peers.place.run(&["toolpacks", "enable", "kit"]).status.success().then_some(())
    })
    .await;
    let pack = peers.pack("kit", &key(3)).await;
    let refused = pack.connect(full("kit", &["z"])).await.unwrap_err();
    assert!(refused.message().contains("`kit` is an installed toolpack"), "{refused:?}");
    peers.place.ok(&["toolpacks", "disable", "kit"]);
    let _calls = pack.connect(full("kit", &["z"])).await.unwrap();
    let is_server = |server: &&Value| server["id"] == "later" && server["problem"].is_string();
    eventually("the server has its id", async || {
        let servers = peers.place.json(&["servers", "list"]);
        servers.as_array().unwrap().iter().find(is_server).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_speaks_for_itself_alone() {
    let peers = two_packs("");
    let pack = one(&peers).await;
    let refused = pack.connect(full("two", &["x"])).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
    assert!(refused.message().contains("proved for pack `one`"), "{refused:?}");
    assert!(!is_listed(&peers.gateway, "x").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_connects_again_takes_its_own_place() {
    let peers = two_packs("");
    let first = one(&peers).await;
    let mut old = first.connect(full("one", &["kept", "old"])).await.unwrap();
    let under_way = call(&peers, "kept", any());
    let request = next(&mut old, MessageKind::Execute).await;
    let second = one(&peers).await;
    let mut calls = second.connect(full("one", &["kept", "new"])).await.unwrap();
    let names = peers.gateway.tool_names(&peers.gateway.token).await;
    assert!(names.contains(&"new".to_owned()) && names.contains(&"kept".to_owned()), "{names:?}");
    assert!(!names.contains(&"old".to_owned()), "{names:?}");
    assert_eq!(code(&under_way.await.unwrap()), "UNAVAILABLE");
    let ended = old.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Aborted, "{ended:?}");
    first.wire.closed().await;
    departed(&peers, "one", "replaced").await;
    // An answer to a call of the old connection is nobody's.
    second.answer(&request.request_id, output(&json!("old"))).await.unwrap();
    let result = call(&peers, "kept", any());
    let request = next(&mut calls, MessageKind::Execute).await;
    second.answer(&request.request_id, output(&json!("new"))).await.unwrap();
    assert_eq!(said(&result.await.unwrap()), "new");
    // A connection has one manifest, and keeps it.
    let result = call(&peers, "kept", any());
    let request = next(&mut calls, MessageKind::Execute).await;
    let refused = second.connect(full("one", &["newest"])).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    second.answer(&request.request_id, output(&json!("still"))).await.unwrap();
    assert_eq!(said(&result.await.unwrap()), "still");
}
