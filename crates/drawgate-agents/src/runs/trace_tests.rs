use std::collections::BTreeSet;

use drawgate_core::model::Principal;

use super::*;
use crate::profile::{Budget, parse};
use crate::runs::record::{Parent, Report};

const CALLERS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn record(root: &str, id: &str, parent: Option<(&str, u32)>) -> RunRecord {
    let parent =
        parent.map(|(run, step)| Parent { run: run.to_owned(), step, report: Report::Result });
    RunRecord {
        id: id.to_owned(),
        thread: id.to_owned(),
        root: root.to_owned(),
        depth: u8::from(parent.is_some()),
        parent,
        principal: Principal::new("local").unwrap(),
        carried: Vec::new(),
        profile: parse("a.md", "---\n---\n").unwrap().profile,
        tool: None,
        task: None,
        plugin: None,
        answer: None,
        model: None,
        prompt: String::new(),
        budget: Budget::default(),
        trace: None,
        created_at: 0,
        waited_ms: 0,
        end: None,
    }
}

/// A tree of two runs.
fn tree(trace: Option<&str>) -> (RunRecord, RunRecord) {
    let trace = trace.and_then(TraceParent::parse);
    let root = RunRecord { trace: trace.clone(), ..record("root", "root", None) };
    let child = RunRecord { trace, ..record("root", "child", Some(("root", 2))) };
    (root, child)
}

#[test]
fn a_tree_is_in_one_trace_with_a_span_for_each_run_and_step() {
    for trace in [None, Some(CALLERS)] {
        let (root, child) = tree(trace);
        let spans = [
            of_run(&root),
            of_run(&child),
            of_step(&root, 1),
            of_step(&root, 2),
            of_step(&child, 1),
        ];
        let spans = spans.map(Option::unwrap);
        assert!(spans.iter().all(|span| span.trace_id() == spans[0].trace_id()));
        let own: BTreeSet<&str> = spans.iter().map(TraceParent::span_id).collect();
        assert_eq!(own.len(), spans.len());
        assert_eq!(above(&child), of_step(&root, 2), "a run is below the call that started it");
        assert_eq!(of_run(&child).as_ref(), Some(&spans[1]), "the same at any time");
    }
    let other = of_run(&record("other", "other", None)).unwrap();
    assert_ne!(other.trace_id(), of_run(&tree(None).0).unwrap().trace_id());
}

#[test]
fn the_root_is_below_the_span_of_its_caller() {
    let (root, _) = tree(Some(CALLERS));
    let callers = TraceParent::parse(CALLERS);
    assert_eq!(above(&root), callers);
    assert_eq!(of_run(&root).unwrap().trace_id(), callers.unwrap().trace_id());
    assert_eq!(above(&tree(None).0), None);
}

#[test]
fn the_trace_of_a_stored_run_is_kept_and_those_stored_before_have_none() {
    let (root, _) = tree(Some(CALLERS));
    let mut stored = serde_json::to_value(&root).unwrap();
    assert_eq!(stored["trace"], CALLERS);
    assert_eq!(serde_json::from_value::<RunRecord>(stored.clone()).unwrap(), root);
    stored.as_object_mut().unwrap().remove("trace");
    assert_eq!(serde_json::from_value::<RunRecord>(stored).unwrap().trace, None);
}
