//! Each of the tools for agents, called in the name of a run that is at work.

use std::sync::Arc;

use drawgate_agents::runs::record::StepBody;
use drawgate_agents::source::{AgentTools, Profiles};
use drawgate_agents::testing::fake_models::{Answer, Rule};
use drawgate_core::model::{Bounds, Caller, Lineage, SourceId, ToolOutput, ToolResult};
use drawgate_core::source::ToolSource;
use drawgate_core::testing::{FakeSource, caller, tool};
use serde_json::{Value, json};

use super::support::{Bench, profile};

/// A run that thinks until it is released, and what it may do meanwhile.
struct AtWork {
    bench: Bench,
    run: String,
}

const RELEASED: &str = "the test is over";

impl AtWork {
    async fn new() -> Self {
        let rules = vec![
            Rule::text("seven").containing("count"),
            Rule::new(Answer::Hang).containing("forever"),
            Rule::text("heard: half way").containing("half way"),
            Rule::text("done").held(RELEASED),
        ];
        let bench = Bench::new(&[&profile("a", ""), &profile("b", "")], rules).await;
        let run = bench.start("a", "go").await.unwrap();
        Self { bench, run }
    }

    /// Calls a tool as a run does.
    async fn call_as(&self, run: &str, tool: &str, arguments: Value) -> ToolResult {
        let id: Arc<str> = run.into();
        let lineage = Lineage {
            run: Arc::clone(&id),
            root: Arc::clone(&id),
            thread: id,
            profile: "a".into(),
            task: None,
            plugin: None,
            depth: 0,
            parent: None,
            bounds: Bounds::default(),
        };
        let caller = Caller { lineage: Some(Arc::new(lineage)), ..caller("local") };
        self.bench.gate.call_as(&caller, tool, arguments).await
    }

    async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_as(&self.run, tool, arguments).await
    }

    /// Starts a run without waiting for it.
    async fn start(&self, prompt: &str) -> String {
        let started = self.call("spawn_agent", json!({ "prompt": prompt, "wait": false })).await;
        let said = text(&started);
        let id = said.split('`').nth(1).unwrap_or_else(|| panic!("{said}"));
        id.to_owned()
    }
}

fn text(result: &ToolResult) -> String {
    result.content[0]["text"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn refused(result: &ToolResult, code: &str, words: &str) {
    let error = result.error.as_ref().unwrap_or_else(|| panic!("{result:?}"));
    assert_eq!(error.code.as_str(), code, "{error:?}");
    assert!(error.message.contains(words), "{error:?}");
}

#[tokio::test]
async fn spawn_agent_starts_a_run_and_returns_its_answer() {
    let at_work = AtWork::new().await;
    let answered = at_work.call("spawn_agent", json!({ "prompt": "count", "agent": "b" })).await;
    assert_eq!(text(&answered), "seven", "{answered:?}");
    let shown = at_work.bench.runs.show(&at_work.run).await.unwrap().unwrap();
    assert_eq!((shown.below.len(), shown.below[0].profile.as_str()), (1, "b"));
    for (arguments, words) in [
        (json!({ "prompt": "count", "agent": "c" }), "there is no agent `c`; there are: `a`, `b`"),
        (json!({ "prompt": "count", "agent": "b", "tools": [] }), "only be given without `agent`"),
        (json!({ "prompt": "count", "model": "nosuch/model" }), "nosuch/model"),
        (json!({ "prompt": "count", "budget": { "tokens": 0 } }), "tokens"),
        (json!({}), "prompt"),
    ] {
        refused(&at_work.call("spawn_agent", arguments).await, "INVALID_ARGUMENTS", words);
    }
}

#[tokio::test]
async fn wait_agents_tells_how_each_run_is() {
    let at_work = AtWork::new().await;
    let (ended, hangs) = (at_work.start("count").await, at_work.start("forever").await);
    at_work.bench.end_of(&ended).await;
    let waited = at_work.call("wait_agents", json!({ "ids": [ended, hangs], "seconds": 0 })).await;
    let shown: Value = serde_json::from_str(&text(&waited)).unwrap();
    let expected = json!({ "id": ended, "state": "ended", "ending": "done", "answer": "seven" });
    assert_eq!(shown[0], expected);
    assert_eq!(shown[1]["id"], hangs.as_str());
    assert_ne!(shown[1]["state"], "ended", "{shown}");
    let stranger = at_work.call("wait_agents", json!({ "ids": [at_work.run] })).await;
    refused(&stranger, "INVALID_ARGUMENTS", "is no run that you started");
}

#[tokio::test]
async fn signal_parent_reaches_the_run_above_and_no_other() {
    let at_work = AtWork::new().await;
    let child = at_work.start("forever").await;
    let sent = at_work.call_as(&child, "signal_parent", json!({ "message": "half way" })).await;
    assert_eq!(text(&sent), "sent", "{sent:?}");
    let nobody = at_work.call("signal_parent", json!({ "message": "hello" })).await;
    refused(&nobody, "EXECUTION_FAILED", "no agent started you; say it in your answer");
    assert!(at_work.bench.runs.cancel(&child, "half way is enough"));
    at_work.bench.end_of(&child).await;
    at_work.bench.fake.release(RELEASED);
    let end = at_work.bench.end_of(&at_work.run).await;
    assert_eq!(end.text, "heard: half way", "{end:?}");
    let shown = at_work.bench.runs.show(&at_work.run).await.unwrap().unwrap();
    let told = shown.steps.iter().filter(|step| match &step.body {
        StepBody::Message { from, text } => {
            from.as_deref() == Some(child.as_str()) && text == "half way"
        }
        _ => false,
    });
    assert_eq!(told.count(), 1, "{:?}", shown.steps);
}

#[tokio::test]
async fn artifact_read_returns_a_part_of_a_long_result() {
    let long = format!("BEGIN{}END", "x".repeat(100_000));
    let rules = vec![
        Rule::calls([("t__long", json!({}))]).containing("make").at_turn(0),
        Rule::text("made").containing("make"),
        Rule::text("done").held(RELEASED),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let source = FakeSource::new("t", vec![tool("long", &json!(null))], {
        let long = long.clone();
        move |_, _| Ok(ToolOutput::text(long.clone()))
    });
    bench.gate.register(source).await.unwrap();
    let (id, _) = bench.run("a", "make").await;
    let shown = bench.outcomes(&id).await.remove(0);
    let from = shown.find("drawgate://artifacts/").unwrap();
    let uri: String = shown[from..]
        .chars()
        .take_while(|c| !c.is_whitespace() && *c != '`' && *c != ']')
        .collect();
    let run = bench.start("a", "go").await.unwrap();
    let at_work = AtWork { bench, run };
    let read = async |more: Value| {
        let mut arguments = more;
        arguments["uri"] = json!(uri);
        text(&at_work.call("artifact_read", arguments).await)
    };
    let total = long.len();
    assert_eq!(read(json!({ "length": 5 })).await, format!("[bytes 0 to 5 of {total}]\nBEGIN"));
    let end = json!({ "offset": total - 3, "length": 10 });
    assert_eq!(read(end).await, format!("[bytes {} to {total} of {total}]\nEND", total - 3));
    assert_eq!(
        read(json!({})).await.len(),
        format!("[bytes 0 to 32768 of {total}]\n").len() + 32768
    );
    let mut whole = String::new();
    while whole.len() < total {
        let part = read(json!({ "offset": whole.len() })).await;
        whole.push_str(part.split_once('\n').unwrap().1);
    }
    assert_eq!(whole, long);
    let unknown = at_work.call("artifact_read", json!({ "uri": "drawgate://artifacts/no" })).await;
    refused(&unknown, "INVALID_ARGUMENTS", "there is no artifact");
}

#[tokio::test]
async fn the_tools_for_agents_are_for_runs_alone_and_search_needs_a_model() {
    let at_work = AtWork::new().await;
    for name in ["spawn_agent", "wait_agents", "signal_parent", "artifact_read"] {
        let result = at_work.bench.gate.call("local", name, json!({ "prompt": "count" })).await;
        refused(&result, "RESOURCE_NOT_FOUND", name);
    }
    let id = SourceId::new("agents").unwrap();
    let profiles: Arc<dyn Profiles> = at_work.bench.profiles.clone();
    let without = AgentTools::new(id, at_work.bench.runs.clone(), profiles, None);
    let manifest = without.manifest().await.unwrap();
    let names: Vec<&str> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["spawn_agent", "wait_agents", "signal_parent", "artifact_read"]);
}
