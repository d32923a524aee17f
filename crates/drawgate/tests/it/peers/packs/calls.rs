//! Calls on their way to a pack and back.

use drawgate_sdk::proto::agent_message::Message as Said;
use drawgate_sdk::proto::execute_tool_response::Result as Outcome;
use drawgate_sdk::proto::gateway_message::Message as Heard;
use drawgate_sdk::proto::{
    CancelCall, MessageKind, PackManifest, ToolCall, ToolDefinition, ToolProgress,
};
use serde_json::{Value, json};

use super::{any, call, code, counted, full, metric, next, one, output, said, two, two_packs};
use crate::peers::{Peers, key, key_line, tool};
use crate::support::eventually;

/// What must be true of a result.
type Check = fn(&Value);

const DROPPED: &str = "drawgate_pack_results_dropped_total";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pack_answers_is_what_the_caller_gets() {
    let peers = two_packs("");
    let pack = one(&peers).await;
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    let image = json!([{ "type": "image", "data": "AA==", "mimeType": "image/png" }]);
    let rows: [(Outcome, Check); 5] = [
        (output(&json!("plain text")), |result| {
            assert_eq!(said(result), "plain text");
            assert_eq!(result.get("structuredContent"), None);
        }),
        (output(&json!({ "n": 1 })), |result| {
            assert_eq!(result["structuredContent"], json!({ "n": 1 }));
            assert_eq!(said(result), r#"{"n":1}"#);
        }),
        (Outcome::Error("disk full: /dev/x".to_owned()), |result| {
            assert_eq!(result["isError"], true);
            assert_eq!(code(result), "none", "it is the tool's error, and not the gate's");
            assert_eq!(said(result), "disk full: /dev/x");
        }),
        (Outcome::McpResultJson(json!({ "content": image }).to_string()), |result| {
            assert_eq!(result["content"][0]["data"], "AA==", "{result}");
        }),
        (Outcome::OutputJson("{not json".to_owned()), |result| {
            assert_eq!(code(result), "EXECUTION_FAILED");
            assert!(said(result).contains("`output_json`"), "{result}");
        }),
    ];
    for (outcome, check) in rows {
        let result = call(&peers, "work", any());
        let request = next(&mut calls, MessageKind::Execute).await;
        pack.answer(&request.request_id, outcome).await.unwrap();
        check(&result.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_pack_times_out_at_its_tools_limit_and_is_told() {
    let peers = two_packs("");
    let pack = one(&peers).await;
    let slow = ToolDefinition { timeout_seconds: 1, ..tool("slow", &[]) };
    let manifest = PackManifest { tools: vec![slow, tool("quick", &[])], ..full("one", &[]) };
    let mut calls = pack.connect(manifest).await.unwrap();
    let result = call(&peers, "slow", any());
    let request = next(&mut calls, MessageKind::Execute).await;
    assert_eq!(code(&result.await.unwrap()), "TIMEOUT");
    let told = next(&mut calls, MessageKind::Cancel).await;
    assert_eq!(told.request_id, request.request_id);
    // It answers all the same, too late, and then once more.
    for _ in 0..2 {
        pack.answer(&request.request_id, output(&json!("late"))).await.unwrap();
    }
    pack.answer("made up", output(&json!(1))).await.unwrap();
    for reason in ["late", "duplicate", "foreign"] {
        counted(&peers.gateway, &format!("{DROPPED}{{reason=\"{reason}\"}}"), 1).await;
    }
    let result = call(&peers, "quick", any());
    let request = next(&mut calls, MessageKind::Execute).await;
    pack.answer(&request.request_id, output(&json!("in time"))).await.unwrap();
    assert_eq!(said(&result.await.unwrap()), "in time", "and nothing was mixed up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_answers_for_another_pack() {
    let peers = two_packs("");
    let (first, second) = (one(&peers).await, two(&peers).await);
    let mut calls = first.connect(full("one", &["mine"])).await.unwrap();
    let _other = second.connect(full("two", &["other"])).await.unwrap();
    let result = call(&peers, "mine", any());
    let request = next(&mut calls, MessageKind::Execute).await;
    second.answer(&request.request_id, output(&json!("forged"))).await.unwrap();
    counted(&peers.gateway, &format!("{DROPPED}{{reason=\"foreign\"}}"), 1).await;
    first.answer(&request.request_id, output(&json!("genuine"))).await.unwrap();
    assert_eq!(said(&result.await.unwrap()), "genuine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_works_on_so_many_calls_and_the_rest_waits() {
    let peers = two_packs("");
    let pack = one(&peers).await;
    let manifest = PackManifest { max_concurrent_calls: 2, ..full("one", &["work"]) };
    let mut calls = pack.connect(manifest).await.unwrap();
    let results: Vec<_> =
        (0..5).map(|number| call(&peers, "work", json!({ "number": number }))).collect();
    counted(&peers.gateway, "drawgate_calls_under_way", 5).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(next(&mut calls, MessageKind::Execute).await);
    }
    let shown = peers.place.json(&["packs", "list"]);
    assert_eq!((&shown[0]["callsUnderWay"], &shown[0]["maxCalls"]), (&json!(2), &json!(2)));
    let mut seen = 2;
    while let Some(request) = open.pop() {
        let number = serde_json::from_str::<Value>(&request.input_json).unwrap();
        pack.answer(&request.request_id, output(&number["number"])).await.unwrap();
        if seen < 5 {
            open.push(next(&mut calls, MessageKind::Execute).await);
            seen += 1;
        }
    }
    for (number, result) in results.into_iter().enumerate() {
        assert_eq!(said(&result.await.unwrap()), number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn news_and_withdrawal_pass_between_an_agent_and_a_pack() {
    let lines = [
        key_line("pack=\"one\",tools=\"*\"", &key(1)),
        key_line("agent=\"bot\",capabilities=\"source.one\"", &key(2)),
    ];
    let peers = Peers::start(&lines);
    let pack = one(&peers).await;
    let mut calls = pack.connect(full("one", &["work"])).await.unwrap();
    let (mut talk, _) = peers.agent("bot", &key(2)).await.join("bot").await.unwrap();
    let wanted = ToolCall {
        request_id: "c1".to_owned(),
        tool_name: "work".to_owned(),
        input_json: "{}".to_owned(),
        progress: true,
        ..ToolCall::default()
    };
    talk.say(Said::Call(wanted)).await;
    let request = next(&mut calls, MessageKind::Execute).await;
    let news = ToolProgress {
        request_id: request.request_id.clone(),
        progress: 1.0,
        total: Some(2.0),
        message: "half".to_owned(),
    };
    pack.wire.packs().progress(news).await.unwrap();
    let heard = talk.hear().await.unwrap();
    let Heard::Progress(heard) = heard else { panic!("{heard:?}") };
    assert_eq!((heard.request_id.as_str(), heard.message.as_str()), ("c1", "half"));
    talk.say(Said::Cancel(CancelCall { request_id: "c1".to_owned() })).await;
    let told = next(&mut calls, MessageKind::Cancel).await;
    assert_eq!(told.request_id, request.request_id);
    eventually("no call is under way", async || {
        (metric(&peers.gateway, "drawgate_calls_under_way").await == 0).then_some(())
    })
    .await;
}
