//! Plugins at work: hooks of runs in order, one that misbehaves, and what a plugin may ask of the gateway.

use std::sync::Arc;
use std::time::Duration;

use drawgate_agents::plugin::{
    Hook, HookAnswer, HookEvent, InvokeOptions, PluginContext, PluginError,
};
use drawgate_agents::plugins::{PluginTerms, Plugins};
use drawgate_agents::runs::Ending;
use drawgate_agents::runs::record::StepBody;
use drawgate_agents::testing::fake_models::{Answer, Rule};
use drawgate_core::model::{SourceId, ToolOutput};
use drawgate_core::testing::{FakeSource, tool};
use serde_json::{Value, json};

use super::reviewer::{Behaviour, TestPlugin, nothing};
use super::support::{Bench, PATIENCE, profile};

/// A plugin that adds a word to each prompt.
fn adds(name: &'static str) -> Arc<TestPlugin> {
    TestPlugin::new(name, [Hook::OnBeforeInvoke], move |_, event| match event {
        HookEvent::OnBeforeInvoke { prompt, .. } => {
            Behaviour::Answers(Ok(HookAnswer::Prompt(format!("{prompt} {name}"))))
        }
        _ => nothing(),
    })
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let so = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, so).await.unwrap_or_else(|_| panic!("{what}"));
}

fn context(bench: &Bench, name: &str) -> Arc<dyn PluginContext> {
    bench.plugins.context(&SourceId::new(name).unwrap(), PluginTerms::default()).unwrap()
}

/// The first message of a run's conversation, as it is stored.
async fn first_step(bench: &Bench, id: &str) -> String {
    let shown = bench.runs.show(id).await.unwrap().unwrap();
    match &shown.steps[0].body {
        StepBody::Message { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn prompts_are_rewritten_in_order_and_stored_so() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("done")]).await;
    bench.put(adds("zebra"), 1).await;
    bench.put(adds("bear"), 2).await;
    bench.put(adds("ant"), 2).await;
    let (id, _) = bench.run("a", "go").await;
    assert_eq!(first_step(&bench, &id).await, "go zebra ant bear", "by position, then by name");
    let asked = bench.fake.requests()[0].body.to_string();
    assert!(asked.contains("go zebra ant bear"), "{asked}");
    let thread = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(thread.prompt, "go", "what the caller said is known, too");
}

#[tokio::test]
async fn nobody_is_asked_again_about_a_prompt_that_is_stored() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::new(Answer::Hang)]).await;
    let first = adds("once");
    bench.put(first.clone(), 0).await;
    let id = bench.start("a", "go").await.unwrap();
    eventually("the model is asked", || bench.fake.requests().len() == 1).await;
    assert_eq!(first.heard().len(), 1);
    bench.runs.close().await;
    let bench = bench.reopened().await;
    let again = adds("once");
    bench.put(again.clone(), 0).await;
    bench.recover().await;
    eventually("the model is asked again", || bench.fake.requests().len() == 2).await;
    assert_eq!(again.heard(), []);
    assert_eq!(first_step(&bench, &id).await, "go once");
}

#[tokio::test]
async fn messages_that_a_run_goes_on_with_can_be_rewritten_too() {
    let rules = vec![
        Rule::text("told").containing("over and out"),
        Rule::text("worked").containing("the work"),
        Rule::calls([("delegation__delegate", json!({ "prompt": "the work" }))]).at_turn(0),
        Rule::text("waiting"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    bench.put_native("delegation", json!({})).await;
    let adds = TestPlugin::new("p", [Hook::OnBeforeInvoke], |_, event| match event {
        HookEvent::OnBeforeInvoke { prompt, .. } if prompt.starts_with("[task") => {
            Behaviour::Answers(Ok(HookAnswer::Prompt(format!("{prompt} over and out"))))
        }
        _ => nothing(),
    });
    bench.put(adds.clone(), 0).await;
    let (_, end) = bench.run("a", "go").await;
    assert_eq!(end.text, "told");
    assert_eq!(adds.heard().len(), 3, "the prompt, that of the task, and the end of the task");
}

#[tokio::test]
async fn a_failing_a_panicking_and_a_hanging_hook_harm_no_other() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("done")]).await;
    let hooks = [Hook::OnBeforeInvoke, Hook::OnMessage, Hook::OnAfterInvoke];
    let fails = || Behaviour::Answers(Err(PluginError("no".to_owned())));
    let failing = TestPlugin::new("failing", hooks, move |_, _| fails());
    let panicking = TestPlugin::new("panicking", hooks, |_, _| Behaviour::Panics);
    // It hangs where nobody waits for it.
    let hangs = [Hook::OnMessage, Hook::OnAfterInvoke];
    let hanging = TestPlugin::new("hanging", hangs, |_, _| Behaviour::Hangs);
    let observer = TestPlugin::new("observer", hooks, |_, _| nothing());
    for plugin in [&failing, &panicking, &hanging, &observer] {
        bench.put(plugin.clone(), 0).await;
    }
    bench.put(adds("last"), 1).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "done"));
    assert_eq!(first_step(&bench, &id).await, "go last");
    eventually("the observer hears of all", || observer.heard().len() == 4).await;
    let message = |role: &str, content: &str| HookEvent::OnMessage {
        thread_id: id.clone(),
        role: role.to_owned(),
        content: content.to_owned(),
    };
    let heard = observer.heard();
    assert_eq!(heard[1..3], [message("user", "go last"), message("assistant", "done")]);
    match &heard[3] {
        HookEvent::OnAfterInvoke { thread_id, result } => {
            assert_eq!(*thread_id, id);
            assert_eq!((result.output.as_str(), result.exit_code), ("done", 0));
            assert!(result.error.is_none() && result.input_tokens > 0 && result.output_tokens > 0);
        }
        other => panic!("{other:?}"),
    }
    let failed = |name: &str| {
        let status = bench.plugins.status();
        status.into_iter().find(|status| status.name.as_str() == name).unwrap().failed
    };
    eventually("failures are counted", || failed("failing") == 4 && failed("panicking") == 4).await;
    assert_eq!(failed("observer"), 0);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_in_time_is_skipped_and_counted() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("done")]).await;
    let hanging = TestPlugin::new("hanging", [Hook::OnBeforeInvoke], |_, _| Behaviour::Hangs);
    bench.put(hanging, 0).await;
    bench.put(adds("last"), 1).await;
    let (id, _) = bench.run("a", "go").await;
    assert_eq!(first_step(&bench, &id).await, "go last");
    assert_eq!(bench.plugins.status()[0].failed, 1);
}

#[tokio::test]
async fn what_is_only_told_waits_in_a_bounded_queue() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("done")]).await;
    let hanging = TestPlugin::new("hanging", [Hook::OnBroadcast], |_, _| Behaviour::Hangs);
    bench.put(hanging, 0).await;
    let mut sent = 0_u64;
    // One plugin may announce so much a minute; many together fill the queue.
    for number in 0..20 {
        let speaker = context(&bench, &format!("speaker{number}"));
        while speaker.broadcast("noise".to_owned(), json!(sent)).await.is_ok() {
            sent += 1;
        }
    }
    assert_eq!(sent, 20 * 60);
    let dropped = bench.plugins.status()[0].dropped;
    assert!((sent - 1001..=sent - 1000).contains(&dropped), "{dropped} of {sent}");
}

#[tokio::test]
async fn a_plugin_is_told_where_it_is_called_by_what_the_gate_knows() {
    let rules = vec![
        Rule::calls([("p__where", json!({ "threadId": "forged", "_meta": { "threadId": "x" } }))])
            .at_turn(0),
        Rule::text("done"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let plugin = TestPlugin::new("p", [], |_, _| nothing());
    bench.put(plugin.clone(), 0).await;
    let (id, _) = bench.run("a", "go").await;
    bench.gate.call("local", "p__where", json!({})).await;
    bench.gate.call("local", "p__where", json!({})).await;
    bench.gate.call("other", "p__where", json!({})).await;
    let threads: Vec<String> = plugin.metas().into_iter().map(|meta| meta.thread_id).collect();
    assert_eq!(threads[0], id, "of a run it is the run's own conversation");
    assert!(threads[1].starts_with("caller-"), "{threads:?}");
    assert_eq!(threads[1], threads[2]);
    assert_ne!(threads[2], threads[3]);
    assert!(!threads[1].contains("local"));
}

#[tokio::test]
async fn tools_of_plugins_come_and_go_with_them() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("done")]).await;
    let mut changes = bench.plugins.changes();
    let generation = |plugins: &Plugins| plugins.offered().first().map(|tools| tools.generation);
    bench.put(TestPlugin::new("p", [], |_, _| nothing()), 0).await;
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    let first = generation(&bench.plugins);
    bench.put(TestPlugin::new("p", [], |_, _| nothing()), 0).await;
    assert_ne!(first, generation(&bench.plugins), "another plugin, another source");
    assert_eq!(bench.plugins.status().len(), 1);
    assert!(bench.plugins.take_out("p").await && !bench.plugins.take_out("p").await);
    assert!(changes.has_changed().unwrap());
    assert!(generation(&bench.plugins).is_none());
}

#[tokio::test]
async fn a_plugin_has_a_model_work_without_tools_and_without_rights() {
    let rules = vec![
        Rule::calls([("t__secret", json!({}))]).with_tool("t__secret").at_turn(0),
        Rule::calls([("t__secret", json!({}))]).containing("try anyway").at_turn(0),
        Rule::text("answered"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let mut terms = drawgate_core::registry::SourceTerms::default();
    terms.capabilities.extend(drawgate_core::model::Capability::new("secrets"));
    let source =
        FakeSource::new("t", vec![tool("secret", &json!(null))], |_, _| Ok(ToolOutput::text("s")));
    let manifest = drawgate_core::source::ToolSource::manifest(&*source).await.unwrap();
    let origin = drawgate_core::registry::Origin::Declared;
    bench.gate.declare(source.clone(), manifest, terms, origin).unwrap();
    let observer = TestPlugin::new("p", [Hook::OnMessage, Hook::OnAfterInvoke], |_, _| nothing());
    bench.put(observer.clone(), 0).await;
    let context = context(&bench, "p");
    let invoke = async |prompt: &str, tools: &[&str]| {
        let allowed_tools = tools.iter().map(ToString::to_string).collect();
        let options = InvokeOptions { allowed_tools, ..InvokeOptions::default() };
        context.invoke(prompt.to_owned(), options).await
    };
    let plain = invoke("hello", &[]).await;
    assert_eq!((plain.output.as_str(), plain.exit_code), ("answered", 0), "{plain:?}");
    assert!(plain.input_tokens > 0);
    let offered = &bench.fake.requests()[0].body["tools"];
    assert!(offered.as_array().is_none_or(Vec::is_empty), "{offered}");
    invoke("try anyway", &["t__secret"]).await;
    assert_eq!(source.calls(), 0, "the plugin's principal holds nothing");
    let principal = Plugins::principal(&SourceId::new("p").unwrap()).unwrap();
    bench.gate.grant(principal.as_str(), "secrets", None).await;
    invoke("again", &["t__secret"]).await;
    assert_eq!(source.calls(), 1, "but for what an operator grants it");
    let runs = bench.runs.list().await.unwrap();
    assert!(runs.iter().all(|run| run.profile == "plugin:p" && run.principal == principal));
    assert_eq!(observer.heard(), [], "runs of plugins fire no hooks of runs");
}

#[tokio::test]
async fn a_plugin_waits_for_so_many_models_and_no_longer_than_it_says() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::new(Answer::Hang)]).await;
    let context = context(&bench, "p");
    let options = InvokeOptions { timeout: Some(1000), ..InvokeOptions::default() };
    let all = (0..10).map(|_| context.invoke("hang".to_owned(), options.clone()));
    let results = futures_util::future::join_all(all).await;
    let refused = results.iter().filter(|result| {
        result.error.as_ref().is_some_and(|error| error.contains("too many models"))
    });
    assert_eq!(refused.count(), 2);
    let late = results.iter().filter(|result| {
        result.error.as_ref().is_some_and(|error| error.contains("seconds are over"))
    });
    assert_eq!(late.count(), 8, "{results:?}");
    assert!(results.iter().all(|result| result.exit_code == 1));
}

#[tokio::test]
async fn what_plugins_store_is_bounded_their_own_and_sealed() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("done")]).await;
    let (p, q) = (context(&bench, "p"), context(&bench, "q"));
    for number in 0..256 {
        p.save(&format!("k{number}"), Some(json!("a secret word"))).await.unwrap();
    }
    let full = p.save("one-more", Some(json!(1))).await.unwrap_err();
    assert!(full.0.contains("256"), "{full}");
    p.save("k7", Some(json!({ "other": 1 }))).await.unwrap();
    assert_eq!(p.load("k7").await.unwrap(), Some(json!({ "other": 1 })));
    assert_eq!(p.load("k").await.unwrap(), None);
    assert_eq!(q.load("k7").await.unwrap(), None, "another plugin's");
    p.save("k7", None).await.unwrap();
    p.save("one-more", Some(json!(1))).await.unwrap();
    let long = p.save("k8", Some(Value::String("x".repeat(70_000)))).await.unwrap_err();
    assert!(long.0.contains("65536"), "{long}");
    p.save("", Some(json!(1))).await.unwrap_err();
    p.save("a\nb", Some(json!(1))).await.unwrap_err();
    let documents = drawgate_core::store::Documents::documents(&*bench.gate.store, "plugin_value");
    let documents = documents.await.unwrap();
    assert_eq!(documents.len(), 256);
    assert!(documents.iter().all(|(_, body)| !body.to_string().contains("secret word")));
    let bench = bench.restarted().await;
    assert_eq!(context(&bench, "p").load("one-more").await.unwrap(), Some(json!(1)));
}

#[tokio::test]
async fn messages_of_plugins_come_into_conversations_that_they_know() {
    let rules = vec![
        Rule::text("heard").containing("psst"),
        Rule::calls([("p__where", json!({}))]).at_turn(0),
        Rule::calls([("t__slow", json!({}))]).at_turn(1),
        Rule::text("not heard"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    bench.put(TestPlugin::new("p", [], |_, _| nothing()), 0).await;
    let context = context(&bench, "p");
    let sender = Arc::clone(&context);
    let spec = vec![tool("slow", &json!(null))];
    let source = FakeSource::new("t", spec, |_, _| Ok(ToolOutput::text("slow")));
    bench.gate.register(source).await.unwrap();
    let rewriter = TestPlugin::new("r", [Hook::OnMessage], |_, _| nothing());
    bench.put(rewriter, 1).await;
    let id = bench.start("a", "go").await.unwrap();
    // It knows the conversation as soon as its tool is called.
    let sent = async {
        while sender.send_to_thread(&id, "psst".to_owned()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, sent).await.unwrap();
    let end = bench.end_of(&id).await;
    assert_eq!(end.text, "heard");
    let late = context.send_to_thread(&id, "psst".to_owned()).await.unwrap_err();
    assert!(late.0.contains("no run is at work"), "{late}");
}
