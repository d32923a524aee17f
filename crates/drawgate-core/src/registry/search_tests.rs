use serde_json::json;

use super::*;
use crate::model::{McpManifest, McpToolSpec, Offer, SourceId};
use crate::registry::{Origin, Registration, Registry, SourceTerms};
use crate::testing::FakeSource;

fn spec(name: &str, description: &str, parameters: &[&str]) -> McpToolSpec {
    let properties: serde_json::Map<String, Value> =
        parameters.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    serde_json::from_value(
        json!({ "name": name, "description": description, "inputSchema": schema }),
    )
    .unwrap()
}

fn registry(tools: Vec<McpToolSpec>) -> Registry {
    let registry = Registry::default();
    let source =
        FakeSource::new("srv", tools.clone(), |_, _| Ok(crate::model::ToolOutput::default()));
    let manifest = McpManifest {
        server_id: SourceId::new("srv").unwrap(),
        name: "srv".into(),
        version: "1".into(),
        description: None,
        tools,
        offer: Offer::default(),
    };
    let terms = SourceTerms::default();
    registry.replace(Registration { manifest, terms, origin: Origin::Discovered, source }).unwrap();
    registry
}

fn found(registry: &Registry, query: &str) -> Vec<String> {
    let snapshot = registry.snapshot();
    snapshot.search(query, |_| true, 3).iter().map(|entry| entry.id.tool().to_owned()).collect()
}

#[test]
fn names_count_most_then_parameters_then_words() {
    let registry = registry(vec![
        spec("create_issue", "Opens a ticket in a repository", &["title", "body"]),
        spec("listPullRequests", "All open pull requests", &["repository", "state"]),
        spec("send_mail", "Sends a message; mention an issue if there is one", &["recipient"]),
        spec("weather", "Forecasts for cities", &["city"]),
    ]);
    for (query, best) in [
        ("create an issue", "create_issue"),
        ("issues", "create_issue"),
        ("pull request list", "listPullRequests"),
        ("recipients of mails", "send_mail"),
        ("city forecast", "weather"),
        ("WEATHER", "weather"),
    ] {
        assert_eq!(found(&registry, query).first().map(String::as_str), Some(best), "{query}");
    }
    assert!(found(&registry, "quantum").is_empty());
    assert!(found(&registry, "").is_empty());
}

#[test]
fn only_what_the_caller_may_see_is_found() {
    let registry = registry(vec![spec("alpha", "one thing", &[]), spec("beta", "one thing", &[])]);
    let snapshot = registry.snapshot();
    let seen = snapshot.search("thing", |entry| entry.id.tool() == "beta", 10);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].id.tool(), "beta");
}

#[test]
fn the_same_query_gives_the_same_order() {
    let tools = (0..200).map(|n| spec(&format!("tool_{n:03}"), "does the same", &[])).collect();
    let registry = registry(tools);
    let first = found(&registry, "same");
    assert_eq!(first, ["tool_000", "tool_001", "tool_002"]);
    assert_eq!(first, found(&registry, "same"));
}

#[test]
fn words_are_taken_apart() {
    assert_eq!(words("getUserById"), ["get", "user", "by", "id"]);
    assert_eq!(words("repositories_list-all"), ["repository", "list", "all"]);
    assert_eq!(words("HTTP2 class"), ["http2", "class"]);
    assert_eq!(words("files file filing Issues"), ["fil", "fil", "fil", "issu"]);
}
