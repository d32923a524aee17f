//! An agent with a tool of its own, from the prompt to the result, on each of the four APIs.

use drawgate_agents::runs::Ending;
use drawgate_agents::testing::fake_models::Rule;
use drawgate_core::audit::EventKind;
use serde_json::json;

use super::support::{APIS, Bench};

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
    let array: serde_json::Value = serde_json::from_str(text).unwrap();
    let expected = json!([{ "title": "A", "url": "http://localhost/a", "snippet": "about a" }]);
    assert_eq!(array, expected);
}
