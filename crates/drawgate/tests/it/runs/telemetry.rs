//! Traces and metrics of runs.

use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use http::Method;
use serde_json::{Value, json};

use super::{KEY, config, folder_with};
use crate::load::{fixture, offers};
use crate::operations::collector;
use crate::peers::{Peers, key, key_line};
use crate::support::{Gateway, TestFolder, eventually, text};
use crate::tasks;

const LEAD: &str = "---\nname: lead\ndescription: Leads\n---\nInstructions that stay private.\n";

/// A run that calls a server, then starts another run, which calls nothing.
fn script() -> Vec<Rule> {
    vec![
        Rule::text("the child is done").containing("child"),
        Rule::calls([("fixture__metadata", json!({}))]).at_turn(0),
        Rule::calls([("spawn_agent", json!({ "prompt": "child" }))]).at_turn(1),
        Rule::text("all is done"),
    ]
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |found| {
        let value = found["value"].as_object().unwrap();
        value.values().next().unwrap()
    })
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

fn sum(spans: &[&Value], key: &str) -> u64 {
    spans.iter().map(|span| attribute(span, key).as_str().unwrap().parse::<u64>().unwrap()).sum()
}

async fn metrics(gateway: &Gateway) -> String {
    let bearer = format!("Bearer {}", gateway.token);
    let headers = [("authorization", bearer.as_str())];
    text(&gateway.send(Method::GET, "/metrics", &headers, "").await.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_runs_is_a_trace_and_is_counted() {
    let (collector, received) = collector().await;
    let fake = FakeModels::start(script()).await.unwrap();
    let config = format!(
        "{}[telemetry]\notlp_endpoint = \"{collector}\"\n{}",
        config(&fake, "env:MODEL_KEY"),
        fixture()
    );
    let place = folder_with(&config, &[("lead.md", LEAD)]);
    let gateway = place.serve_with(|command| {
        command.env(KEY.0, KEY.1);
    });
    offers(&gateway, "fixture__metadata").await;
    place.ok(&["run", "lead", "a secret task", "--detach"]);
    let spans = eventually("the spans of both runs", async || {
        let spans = received.lock().clone();
        (named(&spans, "invoke_agent lead").len() == 2).then_some(spans)
    })
    .await;
    check_tree(&spans, &fake);
    check_attributes(&spans, &fake);
    check_metrics(&spans, &fake, &metrics(&gateway).await);
}

fn check_tree(spans: &[Value], fake: &FakeModels) {
    let runs = named(spans, "invoke_agent lead");
    let (root, child) = match runs.as_slice() {
        [a, b] if a["parentSpanId"].is_null() => (*a, *b),
        [a, b] => (*b, *a),
        _ => unreachable!(),
    };
    assert!(root["parentSpanId"].is_null(), "{root}");
    assert!(spans.iter().all(|span| span["traceId"] == root["traceId"]), "{spans:?}");
    let turns = named(spans, "chat small");
    let below = |run: &Value| {
        turns.iter().filter(|turn| turn["parentSpanId"] == run["spanId"]).copied().collect()
    };
    let (of_root, of_child): (Vec<&Value>, Vec<&Value>) = (below(root), below(child));
    assert_eq!((of_root.len(), of_child.len(), turns.len()), (3, 1, 4), "{spans:?}");
    let calls = ["execute_tool fixture__metadata", "execute_tool spawn_agent"];
    let calls = calls.map(|name| named(spans, name)[0]);
    assert!(calls.iter().all(|call| call["parentSpanId"] == root["spanId"]), "{calls:?}");
    assert_eq!(
        child["parentSpanId"], calls[1]["spanId"],
        "a run is below the call that started it"
    );
    assert_eq!(spans.len(), 2 + 4 + 2, "{spans:?}");

    // The server that was called knows its place in the trace; the model was told what it saw.
    let context = |span: &Value| {
        let (trace, own) = (span["traceId"].as_str().unwrap(), span["spanId"].as_str().unwrap());
        format!("00-{trace}-{own}-01")
    };
    let last = fake.requests().last().unwrap().body.to_string();
    assert!(last.contains(&context(calls[0])), "{last}");
}

fn check_attributes(spans: &[Value], fake: &FakeModels) {
    let (served, turns) = (fake.served(), named(spans, "chat small"));
    let runs = named(spans, "invoke_agent lead");
    let root = runs.iter().find(|run| run["parentSpanId"].is_null()).unwrap();
    let turn = turns.iter().find(|turn| turn["parentSpanId"] == root["spanId"]).unwrap();
    let id = attribute(root, "drawgate.run.id").as_str().unwrap();
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "small"),
        ("gen_ai.agent.name", "lead"),
        ("gen_ai.conversation.id", id),
    ] {
        assert_eq!(attribute(turn, key), value, "{key}");
    }
    assert_eq!(attribute(root, "gen_ai.operation.name"), "invoke_agent");
    for spans in [&turns, &runs] {
        assert_eq!(sum(spans, "gen_ai.usage.input_tokens"), served.input);
        assert_eq!(sum(spans, "gen_ai.usage.output_tokens"), served.output);
    }
    let all = json!(spans).to_string();
    for private in ["a secret task", "stay private", "is done"] {
        assert!(!all.contains(private), "{private}: {all}");
    }
}

fn check_metrics(spans: &[Value], fake: &FakeModels, shown: &str) {
    let (served, runs) = (fake.served(), named(spans, "invoke_agent lead"));
    let lines = [
        "drawgate_runs_total{ending=\"done\"} 2".to_owned(),
        "drawgate_runs_total{ending=\"failed\"} 0".to_owned(),
        "drawgate_runs_at_work 0".to_owned(),
        "drawgate_model_requests_total{provider=\"fake\",result=\"ok\"} 4".to_owned(),
        "drawgate_model_request_seconds_count{provider=\"fake\"} 4".to_owned(),
        tokens_line("input", served.input),
        tokens_line("output", served.output),
        format!(
            "drawgate_model_cost_micro_usd_total{{provider=\"fake\"}} {}",
            sum(&runs, "drawgate.cost_micro_usd")
        ),
    ];
    for line in lines {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    // A part of the input comes from the cache, at a tenth of the price.
    assert!(sum(&runs, "drawgate.cost_micro_usd") > served.input * 3 / 10 + served.output * 15);
}

fn tokens_line(direction: &str, count: u64) -> String {
    let labels = format!("provider=\"fake\",direction=\"{direction}\"");
    format!("drawgate_model_tokens_total{{{labels}}} {count}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_have_their_kind_and_without_traces_servers_hear_of_none() {
    let rules = vec![
        Rule::calls([("fixture__metadata", json!({}))]).at_turn(0),
        Rule::status(401, &[], json!({})),
    ];
    let fake = FakeModels::start(rules).await.unwrap();
    let config = format!("{}{}", config(&fake, "env:MODEL_KEY"), fixture());
    let place = folder_with(&config, &[("lead.md", LEAD)]);
    let gateway = place.serve_with(|command| {
        command.env(KEY.0, KEY.1);
    });
    offers(&gateway, "fixture__metadata").await;
    let output = place.run(&["run", "lead", "go"]);
    assert!(!output.status.success(), "{output:?}");
    let last = fake.requests().last().unwrap().body.to_string();
    assert!(last.contains("drawgate") && !last.contains("traceparent"), "{last}");
    let shown = metrics(&gateway).await;
    for line in [
        "drawgate_runs_total{ending=\"failed\"} 1",
        "drawgate_model_requests_total{provider=\"fake\",result=\"ok\"} 1",
        "drawgate_model_requests_total{provider=\"fake\",result=\"key\"} 1",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
}

/// The trace and the span of a caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn traceparent() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

/// The run that another caller than a run has started.
fn root_of(spans: &[Value]) -> Option<Value> {
    let runs = named(spans, "invoke_agent lead");
    let is_below_a_run = |run: &&Value| {
        spans.iter().any(|span| span["spanId"] == run["parentSpanId"] && is_spawn(span))
    };
    runs.into_iter().find(|run| !is_below_a_run(run)).cloned()
}

fn is_spawn(span: &Value) -> bool {
    span["name"] == "execute_tool spawn_agent"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stays_in_the_trace_of_its_caller_after_a_kill() {
    let (collector, received) = collector().await;
    let rules = vec![
        Rule::text("the child is done").containing("child"),
        Rule::calls([("spawn_agent", json!({ "prompt": "child" }))]).at_turn(0).held("killed"),
        Rule::text("all is done"),
    ];
    let fake = FakeModels::start(rules).await.unwrap();
    let config = format!(
        "{}[telemetry]\notlp_endpoint = \"{collector}\"\n[limits]\ntask_after_seconds = 0\n",
        config(&fake, "env:MODEL_KEY")
    );
    let lead = LEAD.replace("description: Leads\n", "description: Leads\npublic: true\n");
    let place = folder_with(&config, &[("lead.md", &lead)]);
    let serve = |place: &TestFolder| {
        place.serve_with(|command| {
            command.env(KEY.0, KEY.1);
        })
    };
    let mut gateway = serve(&place);
    offers(&gateway, "lead").await;
    let meta = json!({ "traceparent": traceparent() });
    let call =
        json!({ "name": "lead", "arguments": { "prompt": "go" }, "_meta": meta, "task": {} });
    let task = tasks::result(&gateway, "tools/call", call).await;
    assert_eq!(task["resultType"], "task", "{task}");
    fake.asked(|_| true).await;
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();
    fake.release("killed");
    let _gateway = serve(&place);
    let spans = eventually("the spans of both runs", async || {
        let spans = received.lock().clone();
        (named(&spans, "invoke_agent lead").len() == 2).then_some(spans)
    })
    .await;
    assert!(spans.iter().all(|span| span["traceId"] == TRACE), "{spans:?}");
    assert_eq!(root_of(&spans).unwrap()["parentSpanId"], SPAN, "{spans:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_below_the_call_that_started_it_over_mcp_and_grpc() {
    let (collector, received) = collector().await;
    let fake = FakeModels::start(vec![Rule::text("done")]).await.unwrap();
    let config = format!("{}[telemetry]\notlp_endpoint = \"{collector}\"\n", config(&fake, KEY.1));
    let reader = key_line("agent=\"reader\",capabilities=\"source.profile-lead\"", &key(1));
    let peers = Peers::start_with(&config, &[reader]);
    let lead = LEAD.replace("description: Leads\n", "description: Leads\npublic: true\n");
    std::fs::create_dir(peers.place.path().join("agents")).unwrap();
    std::fs::write(peers.place.path().join("agents/lead.md"), lead).unwrap();
    eventually("the file is found", async || {
        peers.place.run(&["profiles", "accept", "lead", "--yes"]).status.success().then_some(())
    })
    .await;
    offers(&peers.gateway, "lead").await;
    let agent = peers.join("reader", &key(1)).await;
    for surface in ["mcp", "grpc"] {
        received.lock().clear();
        let arguments = json!({ "prompt": "go" });
        if surface == "mcp" {
            let meta = json!({ "traceparent": traceparent() });
            let call = json!({ "name": "lead", "arguments": arguments, "_meta": meta });
            peers.gateway.rpc(&peers.gateway.token, "tools/call", call).await;
        } else {
            agent.call("lead", arguments).traceparent(traceparent()).await.unwrap();
        }
        let (run, call) = eventually("the spans of the run and the call", async || {
            let spans = received.lock().clone();
            let call = named(&spans, "tools/call").first().map(|call| (*call).clone());
            Some((root_of(&spans)?, call?))
        })
        .await;
        assert_eq!((&run["traceId"], &call["traceId"]), (&json!(TRACE), &json!(TRACE)), "{run}");
        assert_eq!(call["parentSpanId"], SPAN, "{surface}: {call}");
        assert_eq!(run["parentSpanId"], call["spanId"], "{surface}: {run}");
    }
}
