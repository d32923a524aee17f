use std::time::Duration;

use drawgate_core::source::ProgressSink;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::mcp::requests::ClientRequest;

#[derive(Default)]
struct Log(Mutex<Vec<Value>>);

impl ProgressSink for Log {
    fn report(&self, report: Map<String, Value>) {
        self.0.lock().push(Value::Object(report));
    }

    fn log(&self, message: Map<String, Value>) {
        self.0.lock().push(message["data"].clone());
    }
}

fn context(client: &str, capabilities: Value) -> (CallContext, Arc<Log>) {
    let Value::Object(capabilities) = capabilities else { panic!("not an object") };
    let log = Arc::new(Log::default());
    let cx = CallContext {
        deadline: (Instant::now() + Duration::from_mins(1)).into(),
        cancel: CancellationToken::new(),
        progress: Some(log.clone()),
        trace: None,
        meta: Map::new(),
        client: Arc::new(Client {
            capabilities,
            log_level: Some("warning".to_owned()),
            ..Client::default()
        }),
        input: None,
        affinity: client.into(),
        lineage: None,
        carried: std::sync::Arc::default(),
        resume: None,
    };
    (cx, log)
}

fn callers() -> Arc<Callers> {
    Callers::new(ClientRequest::USUAL.into_iter().collect())
}

fn asks(id: u64) -> ServerRequest {
    ServerRequest { id: json!(id), method: "elicitation/create".to_owned(), params: None }
}

fn message(level: &str, data: &str) -> Map<String, Value> {
    json!({ "level": level, "data": data }).as_object().cloned().unwrap()
}

#[tokio::test]
async fn with_one_client_the_newest_call_is_asked() {
    let callers = callers();
    let (cx, _) = context("ann", json!({ "elicitation": {} }));
    let _first = callers.enter(1, &cx);
    let mut second = callers.enter(2, &cx);
    assert_eq!(callers.ask(On::Any, asks(7)), None);
    assert_eq!(second.question().await.id, 7);
}

#[tokio::test]
async fn with_two_clients_only_the_stream_of_a_call_says_whose_it_is() {
    let callers = callers();
    let mut ann = callers.enter(1, &context("ann", json!({ "elicitation": {} })).0);
    let bob = callers.enter(2, &context("bob", json!({ "elicitation": {} })).0);
    let refused = callers.ask(On::Any, asks(7)).unwrap();
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(text.contains("sessions = \"per_client\""), "{text}");
    assert_eq!(callers.ask(On::Call(1), asks(8)), None);
    assert_eq!(ann.question().await.id, 8);
    let mut bob = bob;
    bob.answered();
    drop(bob);
    assert_eq!(callers.ask(On::Any, asks(9)), None);
    assert_eq!(ann.question().await.id, 9);
}

#[tokio::test]
async fn what_comes_late_for_one_client_does_not_reach_another() {
    let callers = callers();
    let gave_up = callers.enter(1, &context("ann", json!({ "elicitation": {} })).0);
    drop(gave_up);
    let (cx, log) = context("bob", json!({ "elicitation": {} }));
    let mut bob = callers.enter(2, &cx);
    assert!(callers.ask(On::Any, asks(7)).is_some(), "it may be ann's");
    callers.log(On::Any, message("error", "whose?"));
    assert!(log.0.lock().is_empty());
    assert_eq!(callers.ask(On::Call(2), asks(8)), None, "on bob's own stream it is bob's");
    assert_eq!(bob.question().await.id, 8);
    let mut again = callers.enter(3, &context("ann", json!({ "elicitation": {} })).0);
    bob.answered();
    drop(bob);
    assert_eq!(callers.ask(On::Any, asks(9)), None, "ann's in any case");
    assert_eq!(again.question().await.id, 9);
}

#[test]
fn who_can_not_answer_is_not_asked() {
    let callers = callers();
    assert_eq!(callers.ask(On::Any, asks(1)).unwrap()["error"]["code"], -32601, "no call");
    assert_eq!(callers.ask(On::Call(5), asks(1)).unwrap()["error"]["code"], -32601, "not a call's");
    let _active_call = callers.enter(1, &context("ann", json!({})).0);
    assert_eq!(callers.ask(On::Any, asks(1)).unwrap()["error"]["code"], -32601, "no capability");
    let ping = ServerRequest { id: json!("p"), method: "ping".to_owned(), params: None };
    assert_eq!(callers.ask(On::Any, ping).unwrap()["result"], json!({}));
}

#[test]
fn questions_that_wait_are_bounded() {
    let callers = callers();
    let _active_call = callers.enter(1, &context("ann", json!({ "elicitation": {} })).0);
    let refused = (0..20).filter_map(|id| callers.ask(On::Any, asks(id))).count();
    assert_eq!(refused, 20 - QUESTIONS);
}

#[test]
fn log_messages_reach_their_caller_if_severe_enough() {
    let callers = callers();
    let (cx, log) = context("ann", json!({}));
    let _active_call = callers.enter(1, &cx);
    callers.log(On::Any, message("info", "dull"));
    callers.log(On::Any, message("error", "bad"));
    callers.log(On::Call(1), message("emergency", "worse"));
    let (other, others) = context("bob", json!({}));
    let _other = callers.enter(2, &other);
    callers.log(On::Any, message("error", "whose?"));
    callers.log(On::Call(2), message("error", "bob's"));
    assert_eq!(*log.0.lock(), [json!("bad"), json!("worse")]);
    assert_eq!(*others.0.lock(), [json!("bob's")]);
}

#[test]
fn reports_go_by_their_token() {
    let callers = callers();
    let (cx, log) = context("ann", json!({}));
    let active_call = callers.enter(1, &cx);
    assert_eq!(callers.report(1, message("x", "y")), Delivery::Delivered);
    assert_eq!(callers.report(2, message("x", "y")), Delivery::Unknown);
    drop(active_call);
    assert_eq!(callers.report(1, message("x", "y")), Delivery::Unknown);
    assert_eq!(log.0.lock().len(), 1);
    assert!(callers.is_empty());
}
