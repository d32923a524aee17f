//! What operations beside tools require, and who sees what they lead to.

use super::*;
use crate::model::ToolOutput;
use crate::registry::{Registration, Registry, Snapshot};
use crate::testing::{FakeSource, operation_name, operations, tool};

fn caps(list: &[&str]) -> Vec<Capability> {
    list.iter().map(|text| Capability::new(text).unwrap()).collect()
}

fn tools(list: &[(&str, ToolTerms)]) -> BTreeMap<String, ToolTerms> {
    list.iter().map(|(name, own)| ((*name).to_owned(), own.clone())).collect()
}

fn needing(list: &[&str]) -> ToolTerms {
    ToolTerms { capabilities: Some(caps(list)), ..ToolTerms::default() }
}

/// A registry with one server that can do everything, under these terms.
fn offering(terms: SourceTerms) -> Registry {
    let registry = Registry::default();
    put(&registry, terms);
    registry
}

fn put(registry: &Registry, terms: SourceTerms) {
    let specs = vec![tool("a", &serde_json::Value::Null), tool("b", &serde_json::Value::Null)];
    let source = FakeSource::new("s", specs, |_, _| Ok(ToolOutput::text("")));
    let mut manifest = source.describe();
    manifest.offer.operations = operations(Operation::BESIDE_TOOLS);
    registry.replace(Registration { manifest, terms, origin: Origin::Discovered, source }).unwrap();
}

fn entry(snapshot: &Snapshot, operation: Operation) -> Option<Arc<Entry>> {
    let id = ToolId::of_operation(&SourceId::new("s").unwrap(), operation_name(operation));
    snapshot.entry(&id).cloned()
}

/// Whether somebody who holds these capabilities is shown what the operation leads to.
fn is_open(snapshot: &Snapshot, operation: Operation, held: &[&str]) -> bool {
    let held = caps(held);
    let covers = |entry: &Entry| entry.requires.iter().all(|one| held.contains(one));
    !snapshot.open_sources(operation, covers).is_empty()
}

#[test]
fn restricting_tools_restricts_everything_beside_them() {
    let confirmed = ToolTerms {
        requires_confirmation: Some(true),
        policy_action: Some("file.write".to_owned()),
        ..ToolTerms::default()
    };
    let action = ToolTerms { requires_confirmation: None, ..confirmed.clone() };
    for (name, server, own, expected) in [
        ("nothing is restricted", vec![], tools(&[]), vec!["source.s"]),
        ("the operator opens it to all", vec!["public"], tools(&[]), vec![]),
        (
            "one open tool opens nothing else",
            vec![],
            tools(&[("a", needing(&["public"]))]),
            vec!["source.s"],
        ),
        ("one tool", vec![], tools(&[("a", needing(&["x"]))]), vec!["x"]),
        (
            "all that is required",
            vec![],
            tools(&[("a", needing(&["x", "y"])), ("b", needing(&["y", "z"]))]),
            vec!["x", "y", "z"],
        ),
        ("a person must confirm", vec![], tools(&[("a", confirmed)]), vec!["file.write"]),
        ("an action is no restriction", vec![], tools(&[("a", action)]), vec!["source.s"]),
        ("the server's word", vec!["base"], tools(&[("a", needing(&["x"]))]), vec!["base"]),
        (
            "terms of operations say nothing about others",
            vec![],
            tools(&[("@tools/call", needing(&["x"]))]),
            vec!["source.s"],
        ),
    ] {
        let terms =
            SourceTerms { capabilities: caps(&server), tools: own, ..SourceTerms::default() };
        let snapshot = offering(terms).snapshot();
        for operation in Operation::BESIDE_TOOLS {
            let entry = entry(&snapshot, operation).unwrap();
            assert_eq!(entry.requires, caps(&expected), "{name}: {operation:?}");
            assert!(is_open(&snapshot, operation, &expected), "{name}");
            assert_eq!(is_open(&snapshot, operation, &[]), expected.is_empty(), "{name}");
        }
    }
}

#[test]
fn an_operation_has_terms_like_a_tool() {
    let read = ToolTerms {
        capabilities: Some(caps(&["read"])),
        requires_confirmation: Some(true),
        timeout: Some(std::time::Duration::from_secs(7)),
        ..ToolTerms::default()
    };
    let off = ToolTerms { disabled: true, ..ToolTerms::default() };
    let own = tools(&[("a", needing(&["x"])), ("@resources/read", read), ("@prompts/get", off)]);
    let snapshot = offering(SourceTerms { tools: own, ..SourceTerms::default() }).snapshot();
    let read = entry(&snapshot, Operation::ReadResource).unwrap();
    assert_eq!((read.requires.clone(), read.confirm), (caps(&["read"]), true));
    assert_eq!(read.limits.timeout.as_secs(), 7);
    assert!(is_open(&snapshot, Operation::ReadResource, &["read"]));
    assert!(
        !is_open(&snapshot, Operation::ReadResource, &["x"]),
        "as it is called, so it is listed"
    );
    assert!(entry(&snapshot, Operation::GetPrompt).is_none());
    assert!(!is_open(&snapshot, Operation::GetPrompt, &["read", "x"]));
    assert_eq!(entry(&snapshot, Operation::Complete).unwrap().requires, caps(&["x"]));
}

#[test]
fn other_terms_of_an_operation_are_another_revision() {
    let registry = offering(SourceTerms::default());
    let before = registry.snapshot().revision();
    put(&registry, SourceTerms::default());
    assert_eq!(registry.snapshot().revision(), before);
    let own = tools(&[("@prompts/get", needing(&["x"]))]);
    put(&registry, SourceTerms { tools: own, ..SourceTerms::default() });
    assert!(registry.snapshot().revision() > before, "what callers see differs");
}
