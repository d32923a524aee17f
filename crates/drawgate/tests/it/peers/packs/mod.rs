//! Packs against a gateway process, by the contract alone.

mod calls;
mod drain;
mod flood;
mod kills;
mod leave;
mod register;
mod secure;

use drawgate_sdk::proto::execute_tool_response::Result as Outcome;
use drawgate_sdk::proto::{ExecuteToolRequest, MessageKind, PackFeature, PackManifest};
use http::Method;
use serde_json::{Value, json};
use tonic::Streaming;

use super::{Peers, RawPack, key, key_line, manifest, tool};
use crate::support::{Gateway, eventually, text};

/// A gateway that lets the packs `one` and `two` in, with keys of these numbers, for all names.
fn two_packs(config: &str) -> Peers {
    let line =
        |name: &str, number: u8| key_line(&format!("pack=\"{name}\",tools=\"*\""), &key(number));
    Peers::start_with(config, &[line("one", 1), line("two", 2)])
}

async fn one(peers: &Peers) -> RawPack {
    peers.pack("one", &key(1)).await
}

async fn two(peers: &Peers) -> RawPack {
    peers.pack("two", &key(2)).await
}

/// A manifest of a pack that understands everything.
fn full(pack: &str, tools: &[&str]) -> PackManifest {
    let features = [PackFeature::Cancel, PackFeature::Heartbeat, PackFeature::Shutdown];
    PackManifest {
        features: features.map(i32::from).to_vec(),
        ..manifest(pack, tools.iter().map(|name| tool(name, &[])).collect())
    }
}

/// The next message to a pack of this kind; heartbeats in between are passed over.
async fn next(calls: &mut Streaming<ExecuteToolRequest>, kind: MessageKind) -> ExecuteToolRequest {
    loop {
        let message = calls.message().await.unwrap().unwrap();
        if message.kind() == kind {
            return message;
        }
        assert_eq!(message.kind(), MessageKind::Heartbeat, "{message:?}");
    }
}

fn output(value: &Value) -> Outcome {
    Outcome::OutputJson(value.to_string())
}

/// Calls a tool as the local user, beside whatever the test does meanwhile; null if the gateway is lost.
fn call(peers: &Peers, tool: &str, arguments: Value) -> tokio::task::JoinHandle<Value> {
    let (address, token) = (peers.gateway.address.clone(), peers.gateway.token.clone());
    let tool = tool.to_owned();
    tokio::spawn(async move {
        let mut client = crate::load::Client::connect(&address, &token).await.unwrap();
        let answer = client.call("1", &tool, &arguments).await;
        answer.map_or(Value::Null, |answer| answer["result"].clone())
    })
}

fn code(result: &Value) -> &str {
    result["_meta"]["drawgate/error"]["code"].as_str().unwrap_or("none")
}

fn said(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

async fn is_listed(gateway: &Gateway, tool: &str) -> bool {
    gateway.tool_names(&gateway.token).await.iter().any(|name| name == tool)
}

async fn unlisted(gateway: &Gateway, tool: &str) {
    eventually(&format!("`{tool}` is gone"), async || {
        (!is_listed(gateway, tool).await).then_some(())
    })
    .await;
}

/// A number of the metrics; 0 where there is none yet.
async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let bearer = format!("Bearer {}", gateway.token);
    let answer = gateway.send(Method::GET, "/metrics", &[("authorization", &bearer)], "").await;
    let metrics = text(&answer.body);
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.map_or(0, |number| number.parse().unwrap())
}

/// Waits until a number of the metrics is this.
async fn counted(gateway: &Gateway, name: &str, expected: u64) {
    eventually(&format!("{name} is {expected}"), async || {
        (metric(gateway, name).await == expected).then_some(())
    })
    .await;
}

/// Waits until the audit log has the end of a pack's connection with this reason.
async fn departed(peers: &Peers, name: &str, reason: &str) {
    eventually(&format!("the end of `{name}`: {reason}"), async || {
        let events = crate::load::events(&peers.place);
        let mut ends = events.iter().filter(|event| event["kind"] == "peer_disconnected");
        ends.any(|event| event["name"] == name && event["reason"] == reason).then_some(())
    })
    .await;
}

fn any() -> Value {
    json!({})
}
