//! Agents over gRPC beside agents over MCP: the same tools, the same rules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use drawgate_sdk::proto::agent_message::Message as Said;
use drawgate_sdk::proto::execute_tool_response::Result as Outcome;
use drawgate_sdk::proto::gateway_message::Message as Heard;
use drawgate_sdk::proto::{Heartbeat, MessageKind, PackFeature, ToolCall};
use drawgate_sdk::{Call, CallError, Pack, ToolError, tool};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::company::{call, names, sees};
use super::{Peers, key, key_line, manifest};
use crate::load::events;
use crate::support::eventually;

const PACK: u8 = 1;
const RESEARCH: u8 = 2;
const ADMIN: u8 = 3;

#[derive(Deserialize, JsonSchema)]
struct File {
    path: String,
    #[serde(default)]
    content: String,
}

type Files = Arc<Mutex<BTreeMap<String, String>>>;

/// The pack of the example: three tools on files that are kept in memory.
fn file_tools(files: &Files) -> Pack {
    let act = |act: fn(&mut BTreeMap<String, String>, File) -> Result<String, ToolError>| {
        let files = Arc::clone(files);
        move |file: File, _: Call| {
            let done = act(&mut files.lock().unwrap(), file);
            async move { done }
        }
    };
    Pack::new("file-tools", "1.0.0")
        .tool(tool("read_file", "Reads a file.").capability("filesystem").run(act(
            |files, file| files.get(&file.path).cloned().ok_or_else(|| missing(&file.path)),
        )))
        .tool(tool("write_file", "Writes a file.").capability("filesystem").run(act(
            |files, file| {
                files.insert(file.path, file.content);
                Ok("written".to_owned())
            },
        )))
        .tool(
            tool("delete_file", "Deletes a file.")
                .capability("filesystem")
                .capability("destructive")
                .run(act(|files, file| {
                    let gone = files.remove(&file.path).ok_or_else(|| missing(&file.path))?;
                    Ok(format!("deleted {} bytes", gone.len()))
                })),
        )
}

fn missing(path: &str) -> ToolError {
    ToolError::new(format!("no such file: {path}"))
}

fn lines() -> Vec<String> {
    vec![
        key_line(r#"pack="file-tools",tools="*_file",capabilities="public""#, &key(PACK)),
        key_line(r#"agent="research-bot",capabilities="filesystem web""#, &key(RESEARCH)),
        key_line(r#"agent="admin-bot",capabilities="filesystem destructive""#, &key(ADMIN)),
    ]
}

#[tokio::test]
async fn the_same_tools_by_the_same_rules_over_grpc_and_over_mcp() {
    let peers = Peers::start(&lines());
    let files = Files::default();
    let pack = peers.serve(&key(PACK), file_tools(&files)).await;
    let research = peers.join("research-bot", &key(RESEARCH)).await;
    let admin = peers.join("admin-bot", &key(ADMIN)).await;
    let (some, all) =
        (["read_file", "write_file"].as_slice(), ["delete_file", "read_file", "write_file"]);
    assert_eq!(names(&research), some);
    assert_eq!(names(&admin), all);
    assert_eq!(research.capabilities(), ["filesystem", "web"]);

    let file = json!({ "path": "a.txt", "content": "hello" });
    let denied = Err("PERMISSION_DENIED".to_owned());
    assert_eq!(call(&research, "write_file", file.clone()).await, Ok(json!("written")));
    assert_eq!(call(&research, "read_file", file.clone()).await, Ok(json!("hello")));
    assert_eq!(call(&research, "delete_file", file.clone()).await, denied);
    assert_eq!(files.lock().unwrap().len(), 1, "a refused call must not reach the pack");
    assert_eq!(call(&admin, "delete_file", file.clone()).await, Ok(json!("deleted 5 bytes")));
    let error = research.call("read_file", &file).await.unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("EXECUTION_FAILED", "no such file: a.txt")
    );
    let wrong = call(&research, "read_file", json!({ "file": 7 })).await;
    assert_eq!(wrong, Err("INVALID_ARGUMENTS".to_owned()));

    over_mcp(&peers, some, &all).await;
    pack.leave().await;
    sees(&research, &[]).await;
    assert_eq!(call(&research, "read_file", file).await, Err("UNAVAILABLE".to_owned()));
    let grpc = events(&peers.place).into_iter().filter(|event| event["surface"] == "grpc");
    assert!(grpc.count() >= 7, "calls over gRPC are in the log, by their surface");
}

/// The same by tokens with the same capabilities.
async fn over_mcp(peers: &Peers, some: &[&str], all: &[&str]) {
    let agent = |name: &str, capability: &str| {
        let needs = ["--capability", "filesystem", "--capability", capability, "--quiet"];
        let arguments: Vec<&str> = ["agents", "add", name].into_iter().chain(needs).collect();
        peers.place.ok(&arguments).trim().to_owned()
    };
    let (research, admin) = (agent("research-mcp", "web"), agent("admin-mcp", "destructive"));
    let gateway = &peers.gateway;
    assert_eq!(gateway.tool_names(&research).await, some);
    assert_eq!(gateway.tool_names(&admin).await, all);
    let file = json!({ "path": "b.txt", "content": "mcp" });
    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text(&gateway.call(&research, "write_file", file.clone()).await), "written");
    let answer = gateway
        .rpc(&research, "tools/call", json!({ "name": "delete_file", "arguments": file }))
        .await;
    assert_eq!(answer["error"]["message"], "unknown tool `delete_file`");
    assert_eq!(text(&gateway.call(&admin, "read_file", file.clone()).await), "mcp");
    assert_eq!(text(&gateway.call(&admin, "delete_file", file).await), "deleted 3 bytes");
}

/// What a welcome says of MCP leads to the same tools by the same rules, and ends with the agent.
#[tokio::test]
async fn the_welcome_leads_to_mcp_as_long_as_the_agent_is_there() {
    let peers = Peers::start(&lines());
    let pack = peers.serve(&key(PACK), file_tools(&Files::default())).await;
    let research = peers.join("research-bot", &key(RESEARCH)).await;
    let mcp = research.mcp().unwrap();
    let gateway = &peers.gateway;
    assert_eq!(mcp.endpoint, format!("http://{}/mcp", gateway.address));
    assert!(!format!("{mcp:?}").contains(&mcp.token), "{mcp:?}");
    assert_eq!(gateway.tool_names(&mcp.token).await, ["read_file", "write_file"]);
    let file = json!({ "path": "c.txt", "content": "by its program" });
    let written = gateway.call(&mcp.token, "write_file", file.clone()).await;
    assert_eq!(written["content"][0]["text"], "written");
    assert_eq!(call(&research, "read_file", file).await, Ok(json!("by its program")));
    let by_mcp = events(&peers.place).into_iter().find(|event| {
        event["kind"] == "outcome" && event["surface"] == "mcp_http" && event["success"] == true
    });
    assert_eq!(by_mcp.unwrap()["principal"], "research-bot");
    let again = peers.join("research-bot", &key(RESEARCH)).await;
    assert_ne!(again.mcp().unwrap().token, mcp.token, "each connection has its own");
    drop(research);
    let refused = async || {
        let answer = gateway.stateless(&mcp.token, "tools/list", json!({})).await;
        (answer.status == StatusCode::UNAUTHORIZED).then_some(())
    };
    eventually("the token is worth nothing", refused).await;
    assert_eq!(gateway.tool_names(&again.mcp().unwrap().token).await.len(), 2);
    pack.leave().await;
}

#[tokio::test]
async fn a_grant_counts_at_once_and_so_does_its_end() {
    let peers = Peers::start(&lines());
    let _pack = peers.serve(&key(PACK), file_tools(&Files::default())).await;
    let research = peers.join("research-bot", &key(RESEARCH)).await;
    let arguments = ["grants", "add", "destructive", "--scope", "user:research-bot", "--quiet"];
    let grant = peers.place.ok(&arguments).trim().to_owned();
    sees(&research, &["delete_file", "read_file", "write_file"]).await;
    let gone = json!({ "path": "gone" });
    let reached = call(&research, "delete_file", gone.clone()).await;
    assert_eq!(reached, Err("EXECUTION_FAILED".to_owned()));
    peers.place.ok(&["grants", "revoke", &grant]);
    let denied = call(&research, "delete_file", gone).await;
    assert_eq!(denied, Err("PERMISSION_DENIED".to_owned()));
    sees(&research, &["read_file", "write_file"]).await;
}

#[tokio::test]
async fn an_agent_that_goes_takes_its_calls_with_it() {
    let peers = Peers::start(&lines());
    let pack = peers.pack("file-tools", &key(PACK)).await;
    let mut offered = manifest("file-tools", vec![super::tool("slow_file", &[])]);
    offered.features = vec![PackFeature::Cancel.into()];
    let mut requests = pack.connect(offered).await.unwrap();
    let agent = peers.agent("research-bot", &key(RESEARCH)).await;
    let (conversation, welcome) = agent.join("research-bot").await.unwrap();
    assert_eq!(welcome.tools.len(), 1);
    let slow = ToolCall {
        request_id: "r".to_owned(),
        tool_name: "slow_file".to_owned(),
        ..ToolCall::default()
    };
    conversation.say(Said::Call(slow)).await;
    let begun = requests.message().await.unwrap().unwrap();
    assert_eq!(begun.kind(), MessageKind::Execute);
    agent.wire.cut();
    let told = requests.message().await.unwrap().unwrap();
    assert_eq!((told.kind(), &told.request_id), (MessageKind::Cancel, &begun.request_id));
    let cancelled = async || {
        let outcome = events(&peers.place).into_iter().find(|event| event["kind"] == "outcome")?;
        Some(outcome["code"].clone())
    };
    assert_eq!(eventually("the outcome", cancelled).await, "CANCELLED");
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_cut_and_costs_little() {
    let size = 200_000;
    let peers = Peers::start_with("[grpc]\nheartbeat_seconds = 1\n", &lines());
    let pack = peers.pack("file-tools", &key(PACK)).await;
    let large = serde_json::to_string(&"x".repeat(size)).unwrap();
    let offered = manifest("file-tools", vec![super::tool("large_file", &[])]);
    let _pack = pack.serve(offered, move |_| Outcome::OutputJson(large.clone())).await;
    let agent = peers.agent("research-bot", &key(RESEARCH)).await;
    let (conversation, _) = agent.join("research-bot").await.unwrap();
    let before = resident_bytes(&peers);
    let flood = async {
        for number in 0.. {
            let call = ToolCall {
                request_id: number.to_string(),
                tool_name: "large_file".to_owned(),
                ..ToolCall::default()
            };
            let call = drawgate_sdk::proto::AgentMessage { message: Some(Said::Call(call)) };
            if conversation.to.send(call).await.is_err() {
                return;
            }
        }
    };
    flood.await;
    let after = resident_bytes(&peers);
    assert!(after < before + 150 * 1024 * 1024, "from {before} to {after} bytes");
    let reason = async || {
        let gone = |event: &Value| event["kind"] == "peer_disconnected";
        let event = events(&peers.place).into_iter().find(gone)?;
        event["reason"].as_str().map(str::to_owned)
    };
    assert_eq!(eventually("the agent's end", reason).await, "silent");
}

fn resident_bytes(peers: &Peers) -> u64 {
    let path = format!("/proc/{}/statm", peers.gateway.child.id());
    let text = std::fs::read_to_string(path).unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test]
async fn a_gateway_that_stops_lets_calls_end_and_takes_no_new_ones() {
    let peers = Peers::start(&lines());
    let pack = peers.pack("file-tools", &key(PACK)).await;
    let offered = manifest("file-tools", vec![super::tool("slow_file", &[])]);
    let mut requests = pack.connect(offered).await.unwrap();
    let agent = peers.agent("research-bot", &key(RESEARCH)).await;
    let (mut conversation, _) = agent.join("research-bot").await.unwrap();
    let call = |id: &str| {
        Said::Call(ToolCall {
            request_id: id.to_owned(),
            tool_name: "slow_file".to_owned(),
            ..ToolCall::default()
        })
    };
    conversation.say(call("old")).await;
    let begun = requests.message().await.unwrap().unwrap();
    let Peers { place: _place, gateway } = peers;
    let ended = tokio::task::spawn_blocking(move || gateway.terminate());
    assert!(matches!(conversation.hear().await.unwrap(), Heard::Shutdown(_)));
    conversation.say(call("new")).await;
    let code = |heard: Heard| match heard {
        Heard::Result(result) => (
            result.request_id,
            match result.result.unwrap() {
                drawgate_sdk::proto::tool_call_result::Result::OutputJson(output) => output,
                drawgate_sdk::proto::tool_call_result::Result::Error(failure) => failure.code,
            },
        ),
        other => panic!("{other:?}"),
    };
    let pair = |id: &str, code: &str| (id.to_owned(), code.to_owned());
    assert_eq!(code(conversation.hear().await.unwrap()), pair("new", "UNAVAILABLE"));
    pack.answer(&begun.request_id, Outcome::OutputJson("\"done\"".to_owned())).await.unwrap();
    assert_eq!(code(conversation.hear().await.unwrap()), pair("old", "\"done\""));
    let end = conversation.hear().await.unwrap_err();
    assert_eq!(end.code(), tonic::Code::Unavailable, "{end:?}");
    assert_eq!(ended.await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_stream_is_for_one_registered_agent() {
    let peers = Peers::start(&lines());
    let agent = peers.agent("research-bot", &key(RESEARCH)).await;
    let mut silent = agent.converse().await.unwrap();
    let second = agent.converse().await.err().unwrap();
    assert_eq!(second.code(), tonic::Code::AlreadyExists);
    silent.say(Said::Heartbeat(Heartbeat::default())).await;
    assert_eq!(silent.hear().await.unwrap_err().code(), tonic::Code::FailedPrecondition);
    // A pack's connection is no agent's, and one that proved nothing is nobody's.
    let pack = peers.pack("file-tools", &key(PACK)).await;
    let as_agent = super::RawAgent { wire: pack.wire.clone() };
    assert_eq!(as_agent.converse().await.err().unwrap().code(), tonic::Code::PermissionDenied);
    let stranger = super::RawAgent { wire: peers.wire().await };
    assert_eq!(stranger.converse().await.err().unwrap().code(), tonic::Code::Unauthenticated);
}

#[tokio::test]
async fn an_output_that_was_cut_is_read_whole_by_the_agent_whose_it_is() {
    let peers = Peers::start_with("[limits]\nmax_output_bytes = 1000\n", &lines());
    let files = Files::default();
    let _pack = peers.serve(&key(PACK), file_tools(&files)).await;
    let text = "0123456789".repeat(50_000);
    files.lock().unwrap().insert("long.txt".to_owned(), text.clone());
    let research = peers.join("research-bot", &key(RESEARCH)).await;
    let output = research.call("read_file", json!({ "path": "long.txt" })).await.unwrap();
    let link = output.content().iter().find(|block| block["type"] == "resource_link").unwrap();
    let uri = link["uri"].as_str().unwrap();
    assert!(output.text().len() < 2000 && output.text().contains(uri), "{}", output.text());
    let artifact = research.read_artifact(uri).await.unwrap();
    assert_eq!((artifact.mime_type.as_str(), artifact.data), ("text/plain", text.into_bytes()));

    let admin = peers.join("admin-bot", &key(ADMIN)).await;
    for (agent, uri) in [(&admin, uri), (&research, "drawgate://artifacts/00"), (&research, "x")] {
        let missing = agent.read_artifact(uri).await.unwrap_err();
        assert_eq!(missing.code, CallError::RESOURCE_NOT_FOUND, "{uri}");
    }
}
