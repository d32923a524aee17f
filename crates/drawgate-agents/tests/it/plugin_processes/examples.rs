//! The plugins in `examples/plugins`.

use std::sync::Arc;

use drawgate_agents::plugin::process::ProcessPlugin;
use drawgate_agents::plugin::{HookAnswer, HookEvent, Plugin};
use drawgate_agents::plugins::PluginTerms;
use drawgate_core::hooks::{HookCall, Opinion};
use drawgate_core::model::{Operation, Principal, SourceId, ToolId};
use parking_lot::Mutex;
use serde_json::{Map, json};

use super::super::delegation_table::check_table;
use super::{Machine, call, call_context, example, in_thread, text};

#[test]
fn the_guide_shows_the_examples() {
    let guide = include_str!("../../../../../docs/plugins.md");
    let rows = [
        ("json", include_str!("../../../../../examples/plugins/notes/drawgate-plugin.json")),
        ("ts", include_str!("../../../../../examples/plugins/notes/main.ts")),
        ("python", include_str!("../../../../../examples/plugins/shout/main.py")),
    ];
    for (language, text) in rows {
        assert!(guide.contains(&format!("```{language}\n{text}```\n")), "{text}");
    }
}

#[tokio::test]
async fn notes_are_kept_for_each_conversation() {
    let machine = Machine::new();
    let (notes, _recorder) = machine.load(&example("notes")).await.unwrap();
    call(&notes, "add", json!({ "text": "one" })).await.unwrap();
    let two = call(&notes, "add", json!({ "text": "two" })).await.unwrap();
    assert_eq!(text(&two), "- one\n- two");
    let input = Map::from_iter([("text".to_owned(), json!("three"))]);
    let other =
        notes.call("add", input, &in_thread("thread-2", None), &call_context()).await.unwrap();
    assert_eq!(text(&other), "- three");
    notes.stop().await;
}

#[tokio::test]
async fn shout_has_a_tool_and_refuses_calls() {
    let machine = Machine::new();
    let (shout, _recorder) = machine.load(&example("shout")).await.unwrap();
    assert_eq!(text(&call(&shout, "up", json!({ "text": "hey" })).await.unwrap()), "HEY");
    let tool = ToolId::new(&SourceId::new("shout").unwrap(), "up").unwrap();
    let hook = shout.call_hook().unwrap();
    let refusal = Opinion::Refuse("nobody needs to shout at this tool".to_owned());
    for (input, expected) in [("hey", Opinion::Pass), ("HEY", refusal)] {
        let arguments = Map::from_iter([("text".to_owned(), json!(input))]);
        let call = HookCall {
            call_id: "call-1",
            tool: &tool,
            name: "shout__up",
            operation: Operation::CallTool,
            principal: &Principal::local(),
            lineage: None,
            arguments: &arguments,
        };
        assert_eq!(hook.check(&call).await, Ok(expected));
    }
    shout.stop().await;
}

#[tokio::test]
async fn delegation_delegates_checks_in_and_shows_results() {
    let machine = Machine::new();
    let (delegation, recorder) = machine.load(&example("delegation")).await.unwrap();
    let input = json!({ "prompt": "research", "model": "small", "maxIterations": 3 });
    let output = call(&delegation, "delegate", input).await.unwrap();
    assert_eq!(text(&output), "Task delegated. You will be notified when it completes.");
    recorder.until("delegate research thread-1 Some(\"small\") Some(3)").await;
    let output = call(&delegation, "checkin", json!({ "message": "half way" })).await.unwrap();
    assert_eq!(text(&output), "Check-in sent.");
    recorder.until("check in thread-1 half way").await;
    let output = call(&delegation, "result", json!({ "taskId": "task-1" })).await.unwrap();
    let expected =
        json!({ "taskId": "task-1", "state": "working", "iteration": 1, "maxIterations": 2 });
    assert_eq!(serde_json::from_str::<serde_json::Value>(text(&output)).unwrap(), expected);
    let other = in_thread("thread-2", None);
    let input = Map::from_iter([("taskId".to_owned(), json!("task-1"))]);
    let output = delegation.call("result", input, &other, &call_context()).await.unwrap();
    assert!(output.is_error, "{output:?}");
    delegation.stop().await;
}

#[tokio::test]
async fn validation_asks_a_model_and_parses_its_verdict() {
    let machine = Machine::new();
    let (validation, recorder) = machine.load(&example("validation")).await.unwrap();
    let rows = [
        ("{\"accepted\": true}", Ok(HookAnswer::Verdict { accepted: true, feedback: None })),
        (
            "Well: {\"accepted\": false, \"feedback\": \"more sources\"}",
            Ok(HookAnswer::Verdict { accepted: false, feedback: Some("more sources".to_owned()) }),
        ),
        ("{}", Err("the reviewer did not say whether it accepts the result")),
    ];
    for (output, expected) in rows {
        output.clone_into(&mut recorder.output.lock());
        let event = HookEvent::OnTaskComplete {
            thread_id: "thread-1".to_owned(),
            task_id: "task-1".to_owned(),
            result: "the result".to_owned(),
        };
        let answer = validation.hook(&event).await;
        assert_eq!(
            answer.as_ref().map_err(|error| error.0.as_str()),
            expected.as_ref().map_err(|text| *text)
        );
    }
    let asked = recorder.asked();
    assert!(asked[0].contains("the result") && asked[0].contains("Some(\"haiku\")"), "{asked:?}");
    validation.stop().await;
}

/// The twins in TypeScript, with the contexts that the gateway gives its plugins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delegation_and_validation_pass_the_table_of_those_that_come_with_the_gateway() {
    // Their folders are needed as long as the processes live.
    let machines = Mutex::new(Vec::new());
    check_table(async |bench| {
        let machine = Machine::new();
        for name in ["delegation", "validation"] {
            let id = SourceId::new(name).unwrap();
            let settings = json!({ "model": "anthropic/reviewer" });
            let terms = PluginTerms { settings, ..PluginTerms::default() };
            let context = bench.plugins.context(&id, terms).unwrap();
            let settings = machine.settings(&example(name));
            let plugin = ProcessPlugin::load(settings, Arc::clone(&machine.host), context).await;
            bench.put(Arc::new(plugin.unwrap()), 0).await;
        }
        machines.lock().push(machine);
    })
    .await;
}
