//! Packs without a network: the far end of a pack's line is a task of the test.

use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceTerms;
use drawgate_core::source::ToolSource;
use drawgate_core::testing::conformance::Instances;
use drawgate_sdk::proto::execute_tool_response::Result as Answer;
use drawgate_sdk::proto::{
    ExecuteToolRequest, ExecuteToolResponse, MessageKind, PackManifest, ToolDefinition,
};
use drawgate_sources::pack::{Outgoing, PackSource, PackTerms, read_manifest};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// A pack with the tool `echo`.
fn pack() -> (Arc<PackSource>, Outgoing) {
    let echo = ToolDefinition {
        name: "echo".to_owned(),
        input_schema_json: r#"{"type":"object"}"#.to_owned(),
        ..ToolDefinition::default()
    };
    let manifest = PackManifest {
        pack_id: "up".to_owned(),
        version: "1".to_owned(),
        tools: vec![echo],
        features: vec![1, 2, 3],
        max_concurrent_calls: 0,
    };
    let terms = PackTerms {
        base: SourceTerms::default(),
        may_offer: &|_| true,
        capabilities: &[],
        max_calls: 64,
    };
    let read = read_manifest(&SourceId::new("up").unwrap(), manifest, terms);
    assert_eq!(read.faults, []);
    let calls = read.terms.concurrency;
    PackSource::new(read.manifest, read.features, calls, "0123456789abcdef".to_owned())
}

/// The same, whose every call is answered by `act`.
fn answering(act: fn(&ExecuteToolRequest) -> Option<Answer>) -> Arc<PackSource> {
    let (source, mut outgoing) = pack();
    tokio::spawn(async move {
        while let Some(request) = outgoing.next().await {
            if request.kind() != MessageKind::Execute {
                continue;
            }
            if let Some(result) = act(&request) {
                let request_id = request.request_id;
                let response = ExecuteToolResponse { request_id, result: Some(result) };
                outgoing.connection().answer(response).unwrap();
            }
        }
    });
    source
}

fn echo(request: &ExecuteToolRequest) -> Option<Answer> {
    let input: Value = serde_json::from_str(&request.input_json).ok()?;
    Some(Answer::OutputJson(input["message"].to_string()))
}

pub(crate) fn instances() -> Instances {
    let (gone, outgoing) = pack();
    drop(outgoing);
    Instances {
        tool: "echo",
        arguments: |message| json!({ "message": message }),
        working: answering(echo),
        slow: Some(answering(|_| None) as Arc<dyn ToolSource>),
        broken: gone,
    }
}
