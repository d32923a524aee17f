//! The calls of one turn: in the order of the model, side by side only where that changes nothing.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use drawgate_agents::runs::Ending;
use drawgate_agents::runs::record::StepBody;
use drawgate_agents::testing::fake_models::{Answer, Rule};
use drawgate_core::model::{McpManifest, Offer, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_core::testing::tool;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Barrier;

use super::support::{Bench, profile};

/// A text that is written and read, and a meeting of two calls.
struct Notes {
    text: Mutex<String>,
    meeting: Barrier,
}

#[async_trait]
impl ToolSource for Notes {
    fn id(&self) -> &SourceId {
        static ID: LazyLock<SourceId> = LazyLock::new(|| SourceId::new("n").unwrap());
        &ID
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let read_only = json!({ "readOnlyHint": true });
        Ok(McpManifest {
            server_id: self.id().clone(),
            name: "notes".to_owned(),
            version: "1".to_owned(),
            description: None,
            tools: vec![
                tool("write", &json!(null)),
                tool("read", &read_only),
                tool("meet", &read_only),
            ],
            offer: Offer::default(),
        })
    }

    async fn call(
        &self,
        call: PermittedCall,
        _cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let argument = |name: &str| call.arguments().get(name).cloned().unwrap_or_default();
        match call.tool() {
            "write" => {
                for _ in 0..argument("steps").as_u64().unwrap_or_default() {
                    tokio::task::yield_now().await;
                }
                self.text.lock().push_str(argument("text").as_str().unwrap_or_default());
                Ok(ToolOutput::text("written"))
            }
            "meet" => {
                self.meeting.wait().await;
                Ok(ToolOutput::text("met"))
            }
            _ => Ok(ToolOutput::text(self.text.lock().clone())),
        }
    }
}

async fn bench(rules: Vec<Rule>) -> (Bench, Arc<Notes>) {
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let notes = Arc::new(Notes { text: Mutex::default(), meeting: Barrier::new(2) });
    bench.gate.register(notes.clone()).await.unwrap();
    (bench, notes)
}

#[tokio::test]
async fn writes_and_reads_of_one_turn_are_made_in_the_order_of_the_model() {
    let calls = [
        ("n__write", json!({ "text": "a", "steps": 100 })),
        ("n__write", json!({ "text": "b" })),
        ("n__read", json!({})),
    ];
    let rules = vec![Rule::calls(calls).at_turn(0), Rule::text("done")];
    let (bench, notes) = bench(rules).await;
    for round in 0..50 {
        notes.text.lock().clear();
        let (id, _) = bench.run("a", "go").await;
        assert_eq!(bench.outcomes(&id).await, ["written", "written", "ab"], "round {round}");
    }
}

#[tokio::test]
async fn calls_that_change_nothing_overlap() {
    let calls = [("n__meet", json!({})), ("n__meet", json!({}))];
    let (bench, _) = bench(vec![Rule::calls(calls).at_turn(0), Rule::text("done")]).await;
    let (id, _) = bench.run("a", "go").await;
    assert_eq!(bench.outcomes(&id).await, ["met", "met"]);
}

#[tokio::test]
async fn a_call_that_was_cut_at_the_limit_of_output_is_told_as_that() {
    let start = |delta: &str| {
        let event = |data: serde_json::Value| {
            format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
        };
        let tool = json!({ "type": "tool_use", "id": "toolu_1", "name": "n__write", "input": {} });
        let delta = json!({ "type": "input_json_delta", "partial_json": delta });
        Answer::Raw(vec![
            event(
                json!({ "type": "message_start", "message": { "usage": { "input_tokens": 9 } } }),
            ),
            event(json!({ "type": "content_block_start", "index": 0, "content_block": tool })),
            event(json!({ "type": "content_block_delta", "index": 0, "delta": delta })),
            event(json!({
                "type": "message_delta",
                "delta": { "stop_reason": "max_tokens" },
                "usage": { "output_tokens": 77 },
            })),
            event(json!({ "type": "message_stop" })),
        ])
    };
    for (arguments, is_cut) in [("{\"text\": \"ab", true), ("", true), ("{\"text\": \"a\"}", false)]
    {
        let rules = vec![Rule::new(start(arguments)).at_turn(0), Rule::text("done")];
        let (bench, notes) = bench(rules).await;
        let (id, end) = bench.run("a", "go").await;
        assert_eq!(end.ending, Ending::Done, "{end:?}");
        let said = bench.outcomes(&id).await.remove(0);
        assert_eq!(said.contains("cut at its limit of output, after 77 tokens"), is_cut, "{said}");
        assert_eq!(notes.text.lock().is_empty(), is_cut);
    }
}

#[tokio::test]
async fn spawn_agent_names_the_agents_that_a_run_may_start() {
    let rules = vec![Rule::text("done")];
    let own = "tools: [spawn_agent]\nagents: [scout]";
    let bench =
        Bench::new(&[&profile("a", own), &profile("scout", ""), &profile("b", "")], rules).await;
    bench.run("a", "go").await;
    let request = bench.fake.requests().remove(0);
    let tools = request.body["tools"].as_array().unwrap();
    let spawn = tools.iter().find(|tool| tool["name"] == "spawn_agent").unwrap();
    let agent = &spawn["input_schema"]["properties"]["agent"];
    assert_eq!(agent["enum"], json!(["scout"]), "{agent}");
    assert!(agent["description"].as_str().unwrap().contains("`scout`: for tests"), "{agent}");
}

#[tokio::test]
async fn a_run_waits_for_agents_that_it_started_and_says_where_it_can_not() {
    let call = json!({ "prompt": "child", "wait": false });
    let spawn = Rule::calls([("spawn_agent", call)]).containing("go");
    let rules = vec![
        Rule::text("seven").containing("child").held("the child may end"),
        spawn.clone().at_turn(0),
        Rule::text("waiting").at_turn(1),
        Rule::text("it said seven").containing("seven"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let id = bench.start("a", "go").await.unwrap();
    bench.phase_of(&id, "waiting").await;
    bench.fake.release("the child may end");
    let end = bench.end_of(&id).await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "it said seven"), "{end:?}");

    let rules = vec![Rule::new(Answer::Hang).containing("child"), spawn];
    let bench = Bench::new(&[&profile("a", "max_turns: 1")], rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Stuck, "{end:?}");
    let reason = end.reason.unwrap();
    assert!(reason.ends_with("; 1 agent that it had started was ended"), "{reason}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(shown.below[0].ending, Some(Ending::Cancelled));
    assert!(
        !shown
            .steps
            .iter()
            .any(|step| matches!(&step.body, StepBody::Message { from: Some(_), .. }))
    );
}
