use std::time::Duration;

use drawgate_sdk::proto::execute_tool_response::Result as Answer;
use futures_util::StreamExt;

use super::*;

const ALL: Features = Features { cancel: true, heartbeat: true, shutdown: true };

fn connection(features: Features, calls: usize) -> (Arc<PackConnection>, Outgoing) {
    PackConnection::new("0123456789abcdef".to_owned(), features, calls)
}

fn wanted(tool: &str) -> ToolCall {
    ToolCall {
        tool: tool.to_owned(),
        input_json: "{}".to_owned(),
        timeout_ms: 1000,
        traceparent: String::new(),
        progress: None,
    }
}

fn call(connection: &Arc<PackConnection>, tool: &str) -> tokio::task::JoinHandle<Heard> {
    let (connection, wanted) = (Arc::clone(connection), wanted(tool));
    tokio::spawn(async move { connection.call(wanted).await })
}

async fn next(outgoing: &mut Outgoing) -> ExecuteToolRequest {
    outgoing.next().await.expect("a message")
}

fn answer_to(request: &ExecuteToolRequest, text: &str) -> ExecuteToolResponse {
    let result = Some(Answer::OutputJson(text.to_owned()));
    ExecuteToolResponse { request_id: request.request_id.clone(), result }
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (connection, mut outgoing) = connection(ALL, 4);
    let (first, second) = (call(&connection, "a"), call(&connection, "b"));
    let (one, two) = (next(&mut outgoing).await, next(&mut outgoing).await);
    assert_ne!(one.request_id, two.request_id);
    for request in [&two, &one] {
        connection.answer(answer_to(request, &format!("\"{}\"", request.tool_name))).unwrap();
    }
    assert_eq!(first.await.unwrap(), Ok(Some(Answer::OutputJson("\"a\"".to_owned()))));
    assert_eq!(second.await.unwrap(), Ok(Some(Answer::OutputJson("\"b\"".to_owned()))));
    assert_eq!(connection.calls_under_way(), 0);
}

#[tokio::test]
async fn late_double_and_foreign_answers_are_dropped_and_counted() {
    let (connection, mut outgoing) = connection(ALL, 4);
    let answered = call(&connection, "a");
    let request = next(&mut outgoing).await;
    connection.answer(answer_to(&request, "1")).unwrap();
    answered.await.unwrap().unwrap();
    assert_eq!(connection.answer(answer_to(&request, "2")), Err(Dropped::Duplicate));
    let given_up = call(&connection, "b");
    let request = next(&mut outgoing).await;
    given_up.abort();
    given_up.await.unwrap_err();
    assert_eq!(connection.answer(answer_to(&request, "1")), Err(Dropped::Late));
    assert_eq!(connection.answer(answer_to(&request, "1")), Err(Dropped::Duplicate));
    let foreign =
        ["", "x", "0123456789abcdef", "0123456789abcdef0", "ffffffffffffffff0000000000000000"];
    let future = connection.message(MessageKind::Execute, 7).request_id;
    for id in foreign.into_iter().chain([future.as_str(), "0123456789abcdef+000000000000000"]) {
        let response = ExecuteToolResponse { request_id: id.to_owned(), result: None };
        assert_eq!(connection.answer(response), Err(Dropped::Foreign), "{id}");
    }
    assert_eq!(connection.answers_dropped(), 10);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_withdrawn() {
    let (connection, mut outgoing) = connection(ALL, 1);
    let given_up = call(&connection, "a");
    let request = next(&mut outgoing).await;
    given_up.abort();
    let message = next(&mut outgoing).await;
    assert_eq!(message.kind(), MessageKind::Cancel);
    assert_eq!(message.request_id, request.request_id);
    assert_eq!(connection.calls_under_way(), 0);
}

#[tokio::test]
async fn a_call_that_was_not_sent_yet_is_never_sent() {
    for features in [ALL, Features::default()] {
        let (connection, mut outgoing) = connection(features, 2);
        let given_up = call(&connection, "a");
        while connection.calls_under_way() == 0 {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        given_up.await.unwrap_err();
        let _stays = call(&connection, "b");
        let message = next(&mut outgoing).await;
        assert_eq!((message.kind(), message.tool_name.as_str()), (MessageKind::Execute, "b"));
    }
}

#[tokio::test]
async fn a_pack_without_the_feature_hears_of_nothing_but_calls() {
    let (connection, mut outgoing) = connection(Features::default(), 1);
    let given_up = call(&connection, "a");
    next(&mut outgoing).await;
    given_up.abort();
    given_up.await.unwrap_err();
    connection.beat();
    connection.announce_stop();
    for _ in 0..10 {
        connection.beat();
    }
    assert_eq!(connection.ending(), None);
    connection.end(Ending::Stopping);
    assert_eq!(outgoing.next().await, None);
}

#[tokio::test]
async fn the_end_of_the_line_ends_all_calls() {
    let (connection, mut outgoing) = connection(ALL, 4);
    let (sent, unsent) = (call(&connection, "a"), call(&connection, "b"));
    let one = next(&mut outgoing).await;
    while connection.calls_under_way() < 2 {
        tokio::task::yield_now().await;
    }
    drop(outgoing);
    assert_eq!(sent.await.unwrap(), Err(Sent::Perhaps));
    assert_eq!(unsent.await.unwrap(), Err(Sent::Nothing));
    assert_eq!(connection.ending(), Some(Ending::Gone));
    connection.ended().await;
    assert_eq!(connection.call(wanted("c")).await, Err(Sent::Nothing));
    let late = ExecuteToolResponse { request_id: one.request_id, result: None };
    assert_eq!(connection.answer(late), Err(Dropped::Late));
    connection.end(Ending::Silent);
    assert_eq!(connection.ending(), Some(Ending::Gone), "the first reason counts");
}

#[tokio::test]
async fn a_pack_that_does_not_read_holds_up_its_callers_and_not_the_memory() {
    let (connection, mut outgoing) = connection(ALL, 1);
    let calls: Vec<_> = (0..100).map(|_| call(&connection, "a")).collect();
    tokio::task::yield_now().await;
    assert!(connection.calls_under_way() <= 2 + ROOM, "{}", connection.calls_under_way());
    next(&mut outgoing).await;
    // Those that wait for room hear of the end as well.
    connection.end(Ending::Silent);
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    assert_eq!(connection.calls_under_way(), 0);
    assert_eq!(outgoing.next().await, None);
}

#[tokio::test]
async fn two_heartbeats_without_an_answer_are_silence() {
    let (connection, mut outgoing) = connection(ALL, 1);
    for _ in 0..5 {
        connection.beat();
        assert_eq!(next(&mut outgoing).await.kind(), MessageKind::Heartbeat);
        connection.alive();
    }
    connection.beat();
    connection.beat();
    assert_eq!(connection.ending(), None);
    connection.beat();
    assert_eq!(connection.ending(), Some(Ending::Silent));
}

#[derive(Default)]
struct Reports(Mutex<Vec<Value>>);

impl ProgressSink for Reports {
    fn report(&self, progress: Map<String, Value>) {
        self.0.lock().push(Value::Object(progress));
    }
}

#[tokio::test]
async fn news_reach_the_call_that_they_are_about() {
    let (connection, mut outgoing) = connection(ALL, 1);
    let sink = Arc::new(Reports::default());
    let wanted = ToolCall { progress: Some(sink.clone()), ..wanted("a") };
    let caller = Arc::clone(&connection);
    let call = tokio::spawn(async move { caller.call(wanted).await });
    let request_id = next(&mut outgoing).await.request_id;
    let news = |id: &str, progress: f64| ToolProgress {
        request_id: id.to_owned(),
        progress,
        total: Some(4.0),
        message: "half".to_owned(),
    };
    connection.progress(news(&request_id, 2.0));
    connection.progress(news(&request_id, f64::NAN));
    connection.progress(news("elsewhere", 3.0));
    let reports = sink.0.lock().clone();
    assert_eq!(reports, [serde_json::json!({ "progress": 2.0, "total": 4.0, "message": "half" })]);
    call.abort();
    drop(tokio::time::timeout(Duration::from_secs(10), call).await.expect("it ends"));
    connection.progress(news(&request_id, 3.0));
    assert_eq!(sink.0.lock().len(), 1);
}
