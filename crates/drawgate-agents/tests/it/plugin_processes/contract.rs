//! One table for plugins in TypeScript and in Python: tools, hooks and the context.

use std::collections::BTreeSet;

use drawgate_agents::plugin::{Hook, HookAnswer, HookEvent, InvokeResult, Plugin};
use drawgate_core::hooks::{HookCall, Opinion, Review};
use drawgate_core::model::{Bounds, Lineage, Operation, Principal, SourceId, ToolId};
use serde_json::{Map, Value, json};

use super::{Machine, call, call_context, fixture, in_thread, text};

#[tokio::test]
async fn a_plugin_in_typescript_keeps_the_contract() {
    check("everything").await;
}

#[tokio::test]
async fn a_plugin_in_python_keeps_the_contract() {
    check("python").await;
}

async fn check(name: &str) {
    let machine = Machine::new();
    let (plugin, recorder) = machine.load(&fixture(name)).await.unwrap();
    assert_eq!((plugin.name().as_str(), plugin.version()), ("everything", "1.2.3"));
    assert_eq!(plugin.hooks(), BTreeSet::from(Hook::ALL));
    let names: Vec<String> = plugin.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["where", "context", "fail"]);
    assert_eq!(plugin.tools()[0].schema["properties"]["text"], json!({ "type": "string" }));
    plugin.start().await.unwrap();
    assert_eq!(recorder.asked(), ["told start hello"]);

    let meta = in_thread("thread-7", Some("task-7"));
    let input = Map::from_iter([("text".to_owned(), json!("now"))]);
    let output = plugin.call("where", input, &meta, &call_context()).await.unwrap();
    assert_eq!(text(&output), "now thread-7 task-7");
    let output = call(&plugin, "where", json!({ "text": "\u{2028} ü \u{1f980}" })).await.unwrap();
    assert_eq!(text(&output), "\u{2028} ü \u{1f980} thread-1 no task");
    let failed = call(&plugin, "fail", json!({})).await.unwrap();
    assert!(failed.is_error);
    assert_eq!(text(&failed), "it can not be done");

    check_context(&plugin, &recorder).await;
    check_hooks(&plugin, &recorder).await;
    check_call_hooks(&plugin).await;

    plugin.stop().await;
    assert_eq!(recorder.asked().last().unwrap(), "told stop");
    assert_eq!(plugin.report().state, "stopped");
    let error = call(&plugin, "where", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "the plugin `everything` is stopped");
}

async fn check_context(plugin: &impl Plugin, recorder: &super::Recorder) {
    "hi".clone_into(&mut recorder.output.lock());
    let cx = call_context();
    let meta = in_thread("thread-1", None);
    let output = plugin.call("context", Map::new(), &meta, &cx).await.unwrap();
    let said: Value = serde_json::from_str(text(&output)).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(
        said,
        json!({
            "reply": { "output": "hi", "durationMs": 5, "exitCode": 0, "inputTokens": 3, "outputTokens": 1 },
            "state": "working", "kept": { "kept": true }, "gone": true,
        })
    );
    let asked = recorder.asked();
    assert_eq!(
        asked[1..],
        [
            "invoke say hi Some(\"small\") Some(1000) time__*",
            "send thread-1 a message",
            "delegate do it thread-1 None Some(2)",
            "task task-1",
            "check in thread-of-task half way",
        ]
    );
}

async fn check_hooks(plugin: &impl Plugin, recorder: &super::Recorder) {
    let (thread_id, task_id) = ("thread-9".to_owned(), "task-9".to_owned());
    let result =
        InvokeResult { output: "out".to_owned(), input_tokens: 4, ..InvokeResult::default() };
    let (role, content) = ("user".to_owned(), "hi".to_owned());
    let (event, data, error) = ("news".to_owned(), json!("here"), "broke".to_owned());
    let told = [
        (HookEvent::OnMessage { thread_id: thread_id.clone(), role, content }, "thread-9 user hi"),
        (HookEvent::OnAfterInvoke { thread_id: thread_id.clone(), result }, "thread-9 out 4"),
        (
            HookEvent::OnTaskCreate { thread_id: thread_id.clone(), task_id: task_id.clone() },
            "thread-9 task-9",
        ),
        (
            HookEvent::OnTaskFailed {
                thread_id: thread_id.clone(),
                task_id: task_id.clone(),
                error,
            },
            "thread-9 task-9 broke",
        ),
        (HookEvent::OnBroadcast { event, data }, "news here"),
    ];
    for (event, expected) in told {
        assert_eq!(plugin.hook(&event).await, Ok(HookAnswer::Nothing));
        recorder.until(&format!("told {} {expected}", event.hook())).await;
    }
    let before =
        HookEvent::OnBeforeInvoke { thread_id: thread_id.clone(), prompt: "go".to_owned() };
    let prompt = HookAnswer::Prompt("go (in thread-9)".to_owned());
    assert_eq!(plugin.hook(&before).await, Ok(prompt));
    let complete = HookEvent::OnTaskComplete { thread_id, task_id, result: "done".to_owned() };
    let feedback = Some("thread-9 task-9 done".to_owned());
    assert_eq!(plugin.hook(&complete).await, Ok(HookAnswer::Verdict { accepted: false, feedback }));
}

async fn check_call_hooks(plugin: &impl Plugin) {
    let tool = ToolId::new(&SourceId::new("files").unwrap(), "read").unwrap();
    let principal = Principal::new("ann").unwrap();
    let lineage = Lineage {
        run: "run-1".into(),
        root: "run-1".into(),
        thread: "thread-5".into(),
        profile: "reader".into(),
        task: None,
        plugin: None,
        depth: 0,
        parent: None,
        bounds: Bounds::default(),
    };
    let hook = plugin.call_hook().unwrap();
    let opinions = [
        ("notes.txt", Opinion::Pass),
        (".env", Opinion::Refuse("not that file, ann".to_owned())),
        ("big", Opinion::Confirm("files:read".to_owned())),
    ];
    for (path, expected) in opinions {
        let arguments = Map::from_iter([("path".to_owned(), json!(path))]);
        let call = HookCall {
            call_id: "call-1",
            tool: &tool,
            name: "files__read",
            operation: Operation::CallTool,
            principal: &principal,
            lineage: Some(&lineage),
            arguments: &arguments,
        };
        assert_eq!(hook.check(&call).await, Ok(expected));
        let patch = hook.rewrite(&call).await.unwrap();
        let expected = json!([{ "op": "add", "path": "/added", "value": "thread-5" }]);
        assert_eq!(serde_json::to_value(&patch).unwrap(), expected);
        let good = json!({ "content": [{ "type": "text", "text": "x" }], "isError": false });
        let Ok(Review::Change(patch)) = hook.after(&call, &good).await else { panic!("no patch") };
        let expected = json!([{ "op": "replace", "path": "/content/0/text", "value": "…" }]);
        assert_eq!(serde_json::to_value(&patch).unwrap(), expected);
        let bad = json!({ "content": [], "isError": true });
        assert_eq!(hook.after(&call, &bad).await, Ok(Review::Withhold("it failed".to_owned())));
    }
}
