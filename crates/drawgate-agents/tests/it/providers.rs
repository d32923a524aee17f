//! An agent with a tool of its own, from the prompt to the result, on each of the four APIs.

use drawgate_agents::runs::Ending;
use drawgate_agents::testing::fake_models::Rule;
use drawgate_core::audit::EventKind;
use serde_json::{Value, json};

use super::support::{APIS, Bench, profile};

fn research(model: &str) -> String {
    format!(
        r#"---
name: research-agent
description: Finds and condenses sources
model: {model}/fake
tools:
  - web_search
  - name: summarize
    description: Summarize a document into key points
    parameters:
      text: {{type: string, description: The text to summarize}}
    result_schema:
      type: object
      properties: {{bullets: {{type: array, items: {{type: string}}}}}}
      required: [bullets]
    prompt: "Return JSON {{bullets:[...]}}. Summarize:\n\n{{{{text}}}}"
---
You research. Cite every claim.
"#
    )
}

fn script() -> Vec<Rule> {
    vec![
        // The child that answers the custom tool has no tool but the one for its answer.
        Rule::calls([("return_result", json!({ "bullets": ["one", "two"] }))])
            .with_tool("return_result"),
        Rule::calls([("summarize", json!({ "text": "a long text with {{text}} in it" }))])
            .at_turn(0),
        Rule::text("Two points: one, two."),
    ]
}

#[tokio::test]
async fn a_research_agent_runs_to_its_result_on_every_api() {
    for (_, model) in APIS {
        let bench = Bench::new(&[&research(model)], script()).await;
        let (id, end) = bench.run("research-agent", "What is in it?").await;
        assert_eq!(end.ending, Ending::Done, "{model}: {end:?}");
        assert_eq!(end.text, "Two points: one, two.", "{model}");
        let shown = bench.runs.show(&id).await.unwrap().unwrap();
        assert_eq!(shown.below.len(), 1, "{model}: the custom tool is a run");
        assert_eq!(shown.below[0].tool.as_deref(), Some("summarize"), "{model}");
        let child = bench.runs.show(&shown.below[0].id).await.unwrap().unwrap();
        assert!(child.prompt.ends_with("a long text with {{text}} in it"), "{}", child.prompt);
        assert!(shown.run.used.tokens > 0 && shown.run.cost_usd > 0.0, "{model}: {shown:?}");
        let events = bench.gate.events().await;
        let count = |kind| events.iter().filter(|event| event.kind == kind).count();
        assert_eq!((count(EventKind::RunStarted), count(EventKind::RunEnded)), (2, 2), "{model}");
        assert_eq!(count(EventKind::Outcome), 1, "{model}: one call of one tool");
    }
}

#[tokio::test]
async fn a_search_is_an_array_of_titles_addresses_and_snippets() {
    use drawgate_agents::testing::fake_models::{Answer, Page};
    let page = Page {
        title: "A".to_owned(),
        url: "http://localhost/a".to_owned(),
        snippet: "about a".to_owned(),
    };
    let rules = vec![Rule::new(Answer::Search(vec![page]))];
    let bench = Bench::new(&[], rules).await;
    let found = bench.gate.call("local", "web_search", json!({ "query": "a" })).await;
    assert!(found.success, "{found:?}");
    let text = found.content[0]["text"].as_str().unwrap();
    let array: Value = serde_json::from_str(text).unwrap();
    let expected = json!([{ "title": "A", "url": "http://localhost/a", "snippet": "about a" }]);
    assert_eq!(array, expected);
}

/// A body without the marks of what is to be cached.
fn unmarked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(|member| *member = unmarked(member.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = unmarked(item.take())),
        _ => {}
    }
    value
}

#[tokio::test]
async fn a_request_begins_with_the_one_before_so_that_it_can_be_cached() {
    let call = |turn: usize| {
        Rule::calls([("signal_parent", json!({ "message": format!("turn {turn}") }))]).at_turn(turn)
    };
    for (_, model) in APIS {
        let profile = profile("a", &format!("model: {model}/fake"));
        let rules = vec![call(0), call(1), call(2), Rule::text("done")];
        let bench = Bench::new(&[&profile], rules).await;
        let (id, end) = bench.run("a", "go").await;
        assert_eq!(end.ending, Ending::Done, "{model}: {end:?}");
        let bodies: Vec<Value> =
            bench.fake.requests().into_iter().map(|request| unmarked(request.body)).collect();
        assert_eq!(bodies.len(), 4, "{model}");
        for pair in bodies.windows(2) {
            for member in ["tools", "system", "instructions", "systemInstruction"] {
                assert_eq!(pair[0][member], pair[1][member], "{model}");
            }
            for member in ["messages", "input", "contents"] {
                let [before, after] = [0, 1].map(|at| pair[at][member].as_array().cloned());
                let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
                assert!(after.starts_with(&before), "{model}: {before:?}, {after:?}");
            }
        }
        let shown = bench.runs.show(&id).await.unwrap().unwrap();
        let used = shown.run.used;
        assert_eq!(used.tokens, bench.fake.served().input + bench.fake.served().output, "{model}");
        // The others cache by themselves; the fake server does not.
        assert_eq!(used.cached_tokens > 500, model == "anthropic", "{model}: {used:?}");
    }
}
