//! A pack at a gateway: calls, answers, losses and refusals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use drawgate_sdk::proto::execute_tool_response::Result as Wire;
use drawgate_sdk::proto::{ExecuteToolRequest, ExecuteToolResponse, MessageKind, ToolProgress};
use drawgate_sdk::{
    Call, CancellationToken, ConnectionError, Event, Gateway, NoInput, Pack, PackClient, ToolError,
    tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use crate::fake::{Fake, Heard, PackHere, at_once, key};

type Served = JoinHandle<Result<(), ConnectionError>>;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// What the tools of the pack share with the test.
struct Stage {
    ran: AtomicUsize,
    started: mpsc::UnboundedSender<&'static str>,
    gate: Semaphore,
}

struct Play {
    fake: Fake,
    stage: Arc<Stage>,
    started: mpsc::UnboundedReceiver<&'static str>,
    stop: CancellationToken,
    served: Served,
}

fn pack(stage: &Arc<Stage>) -> Pack {
    let (counting, waiting, stopping) = (Arc::clone(stage), Arc::clone(stage), Arc::clone(stage));
    Pack::new("stage", "1")
        .tool(tool("echo", "").run(|input: Text, _| async move { Ok::<_, ToolError>(input.text) }))
        .tool(tool("fail", "").run(|input: Text, _| async move { Err::<(), _>(input.text) }))
        .tool(tool("panic", "").run(|input: Text, _| async move {
            assert!(input.text.is_empty(), "{}", input.text);
            Ok::<_, ToolError>("calm")
        }))
        .tool(tool("count", "").run(move |_: NoInput, _| {
            let stage = Arc::clone(&counting);
            async move { Ok::<_, ToolError>(stage.ran.fetch_add(1, Ordering::SeqCst) + 1) }
        }))
        .tool(tool("wait", "").run(move |_: NoInput, _| {
            let stage = Arc::clone(&waiting);
            async move {
                stage.started.send("wait").unwrap();
                stage.gate.acquire().await?.forget();
                Ok::<_, ToolError>("waited")
            }
        }))
        .tool(tool("until_cancelled", "").run(move |_: NoInput, call: Call| {
            let stage = Arc::clone(&stopping);
            async move {
                stage.started.send("until_cancelled").unwrap();
                call.cancelled().await;
                stage.started.send("was cancelled").unwrap();
                Ok::<_, ToolError>("too late")
            }
        }))
        .tool(tool("progress", "").run(|_: NoInput, call: Call| async move {
            call.progress(1.0, Some(2.0), "half").await;
            Ok::<_, ToolError>(call.traceparent().map(str::to_owned))
        }))
}

impl Play {
    async fn begin() -> (Self, PackHere) {
        Self::begin_with(|pack| pack).await
    }

    async fn begin_with(change: impl FnOnce(Pack) -> Pack) -> (Self, PackHere) {
        let mut fake = Fake::start().await;
        let (started, told) = mpsc::unbounded_channel();
        let stage = Arc::new(Stage { ran: AtomicUsize::new(0), started, gate: Semaphore::new(0) });
        let stop = CancellationToken::new();
        let gateway = fake.gateway().identity(fake.identity());
        let client = PackClient::new(gateway, key()).backoff(at_once()).stop_on(stop.clone());
        let pack = change(pack(&stage));
        let served = tokio::spawn(async move { client.serve(pack).await });
        let here = fake.packs.recv().await.unwrap();
        (Self { fake, stage, started: told, stop, served }, here)
    }

    async fn result(&mut self) -> (String, Wire) {
        match self.fake.heard.recv().await.unwrap() {
            Heard::Result(ExecuteToolResponse { request_id, result }) => {
                (request_id, result.unwrap())
            }
            other => panic!("{other:?}"),
        }
    }
}

fn message(kind: MessageKind, id: &str) -> ExecuteToolRequest {
    ExecuteToolRequest { request_id: id.to_owned(), kind: kind.into(), ..Default::default() }
}

impl PackHere {
    fn call(&self, id: &str, tool: &str, arguments: &Value) {
        let request = ExecuteToolRequest {
            tool_name: tool.to_owned(),
            input_json: arguments.to_string(),
            timeout_ms: 60_000,
            traceparent: "00-trace".to_owned(),
            ..message(MessageKind::Execute, id)
        };
        self.calls.send(Ok(request)).unwrap();
    }

    fn send(&self, kind: MessageKind, id: &str) {
        self.calls.send(Ok(message(kind, id))).unwrap();
    }
}

fn output(json: &str) -> Wire {
    Wire::OutputJson(json.to_owned())
}

fn error(text: &str) -> Wire {
    Wire::Error(text.to_owned())
}

#[tokio::test]
async fn calls_are_answered_and_whatever_a_tool_does_the_pack_goes_on() {
    let (mut play, here) = Play::begin().await;
    assert_eq!(play.fake.logins(), ["pack stage"]);
    assert_eq!(here.manifest.pack_id, "stage");
    let panicked = "tool `panic` panicked; its pack's log says more";
    let cases = [
        ("echo", json!({ "text": "a" }), output(r#""a""#)),
        ("fail", json!({ "text": " as written " }), error(" as written ")),
        ("panic", json!({ "text": "secret" }), error(panicked)),
        ("echo", json!({}), error("invalid arguments: missing field `text`")),
        ("absent", json!({}), error("pack `stage` has no tool `absent`")),
        ("echo", json!({ "text": "b" }), output(r#""b""#)),
    ];
    for (number, (tool, arguments, expected)) in cases.into_iter().enumerate() {
        let id = number.to_string();
        here.call(&id, tool, &arguments);
        assert_eq!(play.result().await, (id, expected), "{tool}");
    }
}

#[tokio::test]
async fn calls_run_side_by_side_and_heartbeats_are_answered_meanwhile() {
    let (mut play, here) = Play::begin().await;
    here.call("slow", "wait", &json!({}));
    assert_eq!(play.started.recv().await, Some("wait"));
    here.call("fast", "echo", &json!({ "text": "a" }));
    assert_eq!(play.result().await, ("fast".to_owned(), output(r#""a""#)));
    here.send(MessageKind::Heartbeat, "beat");
    assert_eq!(play.fake.heard.recv().await, Some(Heard::Alive("beat".to_owned())));
    play.stage.gate.add_permits(1);
    assert_eq!(play.result().await, ("slow".to_owned(), output(r#""waited""#)));
}

#[tokio::test]
async fn a_call_that_comes_twice_runs_once() {
    let (mut play, here) = Play::begin().await;
    here.call("1", "count", &json!({}));
    assert_eq!(play.result().await, ("1".to_owned(), output("1")));
    here.call("1", "count", &json!({}));
    here.call("2", "count", &json!({}));
    assert_eq!(play.result().await, ("2".to_owned(), output("2")));
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_the_pack_says() {
    let (mut play, here) = Play::begin_with(|pack| pack.max_concurrent_calls(1)).await;
    assert_eq!(here.manifest.max_concurrent_calls, 1);
    here.call("1", "wait", &json!({}));
    assert_eq!(play.started.recv().await, Some("wait"));
    here.call("2", "count", &json!({}));
    here.call("3", "count", &json!({}));
    assert_eq!(play.result().await, ("3".to_owned(), error("pack `stage` is busy; try again")));
    assert_eq!(play.stage.ran.load(Ordering::SeqCst), 0);
    play.stage.gate.add_permits(1);
    assert_eq!(play.result().await, ("1".to_owned(), output(r#""waited""#)));
    assert_eq!(play.result().await, ("2".to_owned(), output("1")));
}

#[tokio::test]
async fn a_cancelled_call_hears_it_and_is_not_answered() {
    let (mut play, here) = Play::begin().await;
    here.call("1", "until_cancelled", &json!({}));
    assert_eq!(play.started.recv().await, Some("until_cancelled"));
    here.send(MessageKind::Cancel, "1");
    assert_eq!(play.started.recv().await, Some("was cancelled"));
    here.send(MessageKind::Cancel, "unknown");
    here.call("2", "count", &json!({}));
    assert_eq!(play.result().await, ("2".to_owned(), output("1")));
}

#[tokio::test]
async fn a_call_is_cancelled_when_its_time_is_over() {
    let (mut play, here) = Play::begin().await;
    let request = ExecuteToolRequest {
        tool_name: "until_cancelled".to_owned(),
        input_json: "{}".to_owned(),
        timeout_ms: 1,
        ..message(MessageKind::Execute, "1")
    };
    here.calls.send(Ok(request)).unwrap();
    assert_eq!(play.started.recv().await, Some("until_cancelled"));
    assert_eq!(play.started.recv().await, Some("was cancelled"));
}

#[tokio::test]
async fn a_cancelled_call_that_does_not_care_is_dropped() {
    let (mut play, here) =
        Play::begin_with(|pack| pack.max_concurrent_calls(1).cancel_grace(Duration::ZERO)).await;
    here.call("1", "wait", &json!({}));
    assert_eq!(play.started.recv().await, Some("wait"));
    here.send(MessageKind::Cancel, "1");
    here.call("2", "count", &json!({}));
    assert_eq!(play.result().await, ("2".to_owned(), output("1")));
}

#[tokio::test]
async fn progress_and_trace_context_reach_the_other_side() {
    let (mut play, here) = Play::begin().await;
    here.call("1", "progress", &json!({}));
    let news = ToolProgress {
        request_id: "1".to_owned(),
        progress: 1.0,
        total: Some(2.0),
        message: "half".to_owned(),
    };
    assert_eq!(play.fake.heard.recv().await, Some(Heard::Progress(news)));
    assert_eq!(play.result().await, ("1".to_owned(), output(r#""00-trace""#)));
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_an_error_and_not_silence() {
    let (mut play, here) = Play::begin_with(|pack| {
        pack.tool(tool("large", "").run(|_: NoInput, _| async {
            Ok::<_, ToolError>("x".repeat(drawgate_sdk::MAX_MESSAGE))
        }))
    })
    .await;
    here.call("1", "large", &json!({}));
    let (_, Wire::Error(text)) = play.result().await else { panic!("an error") };
    assert!(text.starts_with("the answer is too large"), "{text}");
}

#[tokio::test]
async fn a_lost_connection_is_made_anew_and_old_answers_are_not_sent_on_it() {
    let (mut play, here) = Play::begin().await;
    here.call("1", "until_cancelled", &json!({}));
    here.call("2", "wait", &json!({}));
    for _ in 0..2 {
        play.started.recv().await.unwrap();
    }
    play.fake.cut();
    let here = play.fake.packs.recv().await.unwrap();
    assert_eq!(play.started.recv().await, Some("was cancelled"));
    play.stage.gate.add_permits(1);
    here.call("3", "count", &json!({}));
    assert_eq!(play.result().await, ("3".to_owned(), output("1")));
    here.send(MessageKind::Heartbeat, "after all");
    assert_eq!(play.fake.heard.recv().await, Some(Heard::Alive("after all".to_owned())));
    assert_eq!(play.fake.logins(), ["pack stage", "pack stage"]);
}

#[tokio::test]
async fn a_stream_that_the_gateway_ends_is_made_anew() {
    let (mut play, here) = Play::begin().await;
    here.send(MessageKind::Shutdown, "");
    here.calls.send(Err(Status::unavailable("kicked"))).unwrap();
    let here = play.fake.packs.recv().await.unwrap();
    drop(here);
    assert!(play.fake.packs.recv().await.is_some());
}

#[tokio::test]
async fn a_stop_lets_calls_finish_and_takes_no_new_ones() {
    let (mut play, here) = Play::begin().await;
    here.call("1", "wait", &json!({}));
    assert_eq!(play.started.recv().await, Some("wait"));
    play.stop.cancel();
    // The stop and these calls race; the pack may take some before it hears of the stop.
    for number in 2.. {
        here.call(&number.to_string(), "count", &json!({}));
        let (_, answer) = play.result().await;
        if answer == error("pack `stage` is stopping; try again") {
            break;
        }
    }
    assert!(!play.served.is_finished());
    play.stage.gate.add_permits(1);
    assert_eq!(play.result().await, ("1".to_owned(), output(r#""waited""#)));
    play.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn whoever_stops_waiting_for_the_pack_cuts_it_off() {
    let (mut play, here) = Play::begin().await;
    here.call("1", "wait", &json!({}));
    assert_eq!(play.started.recv().await, Some("wait"));
    play.served.abort();
    play.fake.deserted().await;
    assert!(here.calls.is_closed());
}

#[tokio::test]
async fn being_replaced_is_final() {
    let (play, here) = Play::begin().await;
    here.calls.send(Err(Status::aborted("another has come"))).unwrap();
    let end = play.served.await.unwrap().unwrap_err();
    assert!(matches!(end, ConnectionError::Replaced { .. }), "{end}");
}

#[tokio::test]
async fn a_refused_manifest_is_final_and_told_as_it_is() {
    let fake = Fake::start().await;
    let faults = "tool `a`: bad name\ntool `b`: taken by `c`";
    fake.refuse(Status::invalid_argument(faults));
    let (events, mut told) = mpsc::unbounded_channel();
    let client = PackClient::new(fake.gateway(), key()).observe(move |event| {
        events.send(matches!(event, Event::Refused { .. })).unwrap();
    });
    let end = client.serve(Pack::new("p", "1")).await.unwrap_err();
    let ConnectionError::Refused { code, message } = end else { panic!("{end}") };
    assert_eq!((code, message.as_str()), (Code::InvalidArgument, faults));
    assert_eq!(told.recv().await, Some(true));
    assert_eq!(fake.logins().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_tried_again_if_that_is_wanted() {
    let mut fake = Fake::start().await;
    fake.refuse(Status::permission_denied("not yet"));
    let client = PackClient::new(fake.gateway(), key()).backoff(at_once()).retry_refusals();
    let serving = tokio::spawn(async move { client.serve(Pack::new("p", "1")).await });
    assert!(fake.packs.recv().await.is_some());
    serving.abort();
}

#[tokio::test]
async fn another_gateway_than_the_expected_gets_no_proof() {
    let fake = Fake::start().await;
    let gateway = fake.gateway().identity("SHA256:somebody-else");
    let end = PackClient::new(gateway, key()).serve(Pack::new("p", "1")).await.unwrap_err();
    assert!(matches!(end, ConnectionError::Identity { .. }), "{end}");
    assert_eq!(fake.logins(), [""; 0]);
}

#[tokio::test]
async fn plaintext_does_not_leave_this_machine() {
    let gateway = Gateway::at("http://192.0.2.1:7700").unwrap();
    let end = PackClient::new(gateway, key()).serve(Pack::new("p", "1")).await.unwrap_err();
    assert!(matches!(end, ConnectionError::Plaintext { .. }), "{end}");
}

#[tokio::test]
async fn a_gateway_that_is_not_there_yet_is_waited_for() {
    let place = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let (events, mut told) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let client = PackClient::new(Gateway::at(&format!("http://{address}")).unwrap(), key())
        .backoff(at_once())
        .stop_on(stop.clone())
        .observe(move |event| {
            let lost = matches!(event, Event::Lost { error: ConnectionError::Dial { .. }, .. });
            events.send(lost).unwrap();
        });
    let serving = tokio::spawn(async move { client.serve(Pack::new("p", "1")).await });
    for _ in 0..3 {
        assert_eq!(told.recv().await, Some(true));
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
}
