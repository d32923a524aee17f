use std::time::Duration;

use drawgate_sdk::proto::execute_tool_response::Result as Answer;
use futures_util::StreamExt;

use super::*;

const ALL: Features = Features { cancel: true, heartbeat: true, shutdown: true };

fn line(features: Features, calls: usize) -> (Arc<Line>, Outgoing) {
    Line::new("0123456789abcdef".to_owned(), features, calls)
}

fn wanted(tool: &str) -> Wanted {
    Wanted {
        tool: tool.to_owned(),
        input_json: "{}".to_owned(),
        timeout_ms: 1000,
        traceparent: String::new(),
        progress: None,
    }
}

fn call(line: &Arc<Line>, tool: &str) -> tokio::task::JoinHandle<Heard> {
    let (line, wanted) = (Arc::clone(line), wanted(tool));
    tokio::spawn(async move { line.call(wanted).await })
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
    let (line, mut outgoing) = line(ALL, 4);
    let (first, second) = (call(&line, "a"), call(&line, "b"));
    let (one, two) = (next(&mut outgoing).await, next(&mut outgoing).await);
    assert_ne!(one.request_id, two.request_id);
    for request in [&two, &one] {
        line.answer(answer_to(request, &format!("\"{}\"", request.tool_name))).unwrap();
    }
    assert_eq!(first.await.unwrap(), Ok(Some(Answer::OutputJson("\"a\"".to_owned()))));
    assert_eq!(second.await.unwrap(), Ok(Some(Answer::OutputJson("\"b\"".to_owned()))));
    assert_eq!(line.calls_under_way(), 0);
}

#[tokio::test]
async fn late_double_and_foreign_answers_are_dropped_and_counted() {
    let (line, mut outgoing) = line(ALL, 4);
    let answered = call(&line, "a");
    let request = next(&mut outgoing).await;
    line.answer(answer_to(&request, "1")).unwrap();
    answered.await.unwrap().unwrap();
    assert_eq!(line.answer(answer_to(&request, "2")), Err(Dropped::Duplicate));
    let given_up = call(&line, "b");
    let request = next(&mut outgoing).await;
    given_up.abort();
    given_up.await.unwrap_err();
    assert_eq!(line.answer(answer_to(&request, "1")), Err(Dropped::Late));
    assert_eq!(line.answer(answer_to(&request, "1")), Err(Dropped::Duplicate));
    let foreign =
        ["", "x", "0123456789abcdef", "0123456789abcdef0", "ffffffffffffffff0000000000000000"];
    let future = line.message(MessageKind::Execute, 7).request_id;
    for id in foreign.into_iter().chain([future.as_str(), "0123456789abcdef+000000000000000"]) {
        let response = ExecuteToolResponse { request_id: id.to_owned(), result: None };
        assert_eq!(line.answer(response), Err(Dropped::Foreign), "{id}");
    }
    assert_eq!(line.answers_dropped(), 10);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_withdrawn() {
    let (line, mut outgoing) = line(ALL, 1);
    let given_up = call(&line, "a");
    let request = next(&mut outgoing).await;
    given_up.abort();
    let message = next(&mut outgoing).await;
    assert_eq!(message.kind(), MessageKind::Cancel);
    assert_eq!(message.request_id, request.request_id);
    assert_eq!(line.calls_under_way(), 0);
}

#[tokio::test]
async fn a_call_that_was_not_sent_yet_is_never_sent() {
    for features in [ALL, Features::default()] {
        let (line, mut outgoing) = line(features, 2);
        let given_up = call(&line, "a");
        while line.calls_under_way() == 0 {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        given_up.await.unwrap_err();
        let _stays = call(&line, "b");
        let message = next(&mut outgoing).await;
        assert_eq!((message.kind(), message.tool_name.as_str()), (MessageKind::Execute, "b"));
    }
}

#[tokio::test]
async fn a_pack_without_the_feature_hears_of_nothing_but_calls() {
    let (line, mut outgoing) = line(Features::default(), 1);
    let given_up = call(&line, "a");
    next(&mut outgoing).await;
    given_up.abort();
    given_up.await.unwrap_err();
    line.beat();
    line.announce_stop();
    for _ in 0..10 {
        line.beat();
    }
    assert_eq!(line.ending(), None);
    line.end(Ending::Stopping);
    assert_eq!(outgoing.next().await, None);
}

#[tokio::test]
async fn the_end_of_the_line_ends_all_calls() {
    let (line, mut outgoing) = line(ALL, 4);
    let (sent, unsent) = (call(&line, "a"), call(&line, "b"));
    let one = next(&mut outgoing).await;
    while line.calls_under_way() < 2 {
        tokio::task::yield_now().await;
    }
    drop(outgoing);
    assert_eq!(sent.await.unwrap(), Err(Sent::Perhaps));
    assert_eq!(unsent.await.unwrap(), Err(Sent::Nothing));
    assert_eq!(line.ending(), Some(Ending::Gone));
    line.ended().await;
    assert_eq!(line.call(wanted("c")).await, Err(Sent::Nothing));
    let late = ExecuteToolResponse { request_id: one.request_id, result: None };
    assert_eq!(line.answer(late), Err(Dropped::Late));
    line.end(Ending::Silent);
    assert_eq!(line.ending(), Some(Ending::Gone), "the first reason counts");
}

#[tokio::test]
async fn a_pack_that_does_not_read_holds_up_its_callers_and_not_the_memory() {
    let (line, mut outgoing) = line(ALL, 1);
    let calls: Vec<_> = (0..100).map(|_| call(&line, "a")).collect();
    tokio::task::yield_now().await;
    assert!(line.calls_under_way() <= 2 + ROOM, "{}", line.calls_under_way());
    next(&mut outgoing).await;
    // Those that wait for room hear of the end as well.
    line.end(Ending::Silent);
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    assert_eq!(line.calls_under_way(), 0);
    assert_eq!(outgoing.next().await, None);
}

#[tokio::test]
async fn two_heartbeats_without_an_answer_are_silence() {
    let (line, mut outgoing) = line(ALL, 1);
    for _ in 0..5 {
        line.beat();
        assert_eq!(next(&mut outgoing).await.kind(), MessageKind::Heartbeat);
        line.alive();
    }
    line.beat();
    line.beat();
    assert_eq!(line.ending(), None);
    line.beat();
    assert_eq!(line.ending(), Some(Ending::Silent));
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
    let (line, mut outgoing) = line(ALL, 1);
    let sink = Arc::new(Reports::default());
    let wanted = Wanted { progress: Some(sink.clone()), ..wanted("a") };
    let caller = Arc::clone(&line);
    let call = tokio::spawn(async move { caller.call(wanted).await });
    let request_id = next(&mut outgoing).await.request_id;
    let news = |id: &str, progress: f64| ToolProgress {
        request_id: id.to_owned(),
        progress,
        total: Some(4.0),
        message: "half".to_owned(),
    };
    line.progress(news(&request_id, 2.0));
    line.progress(news(&request_id, f64::NAN));
    line.progress(news("elsewhere", 3.0));
    let reports = sink.0.lock().clone();
    assert_eq!(reports, [serde_json::json!({ "progress": 2.0, "total": 4.0, "message": "half" })]);
    call.abort();
    drop(tokio::time::timeout(Duration::from_secs(10), call).await.expect("it ends"));
    line.progress(news(&request_id, 3.0));
    assert_eq!(sink.0.lock().len(), 1);
}
