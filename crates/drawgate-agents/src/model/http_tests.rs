use std::collections::BTreeMap;

use drawgate_host::secrets::Secrets;
use parking_lot::Mutex;
use serde_json::json;

use super::super::codec_tests::question;
use super::super::config::ModelsConfig;
use super::super::{Model, Models, Stop};
use super::*;
use crate::testing::fake_models::{Answer, FakeModels, Rule};

/// A model of this API at an address.
fn model_at(api: Api, url: &str, silence: Duration, concurrency: u32) -> Arc<dyn Model> {
    let host = Arc::new(Host::new(Secrets::new(BTreeMap::new()), None).unwrap());
    let provider = json!({"p": {"kind": api, "url": url, "concurrency": concurrency}});
    let providers = serde_json::from_value(provider).unwrap();
    let models = Models::with_silence(&providers, &ModelsConfig::default(), &host, silence);
    models.resolve(Some("p/m")).unwrap()
}

fn model(server: &FakeModels, api: Api) -> Arc<dyn Model> {
    model_at(api, &server.url(api), SILENCE, 4)
}

async fn failure(rule: Rule, api: Api) -> ModelError {
    let server = FakeModels::start(vec![rule]).await.unwrap();
    model(&server, api).turn(&question(), &()).await.unwrap_err()
}

#[tokio::test]
async fn replies_are_the_same_by_every_api() {
    let calls = [("weather", json!({"city": "Paris"})), ("weather", json!({"city": "Rome"}))];
    let rules = vec![
        Rule::calls(calls).at_turn(0).with_tool("weather"),
        Rule::text("Grüße, warm in both.").at_turn(1).after_results(2),
    ];
    let server = FakeModels::start(rules).await.unwrap();
    for api in Api::ALL {
        let model = model(&server, api);
        let mut turn = question();
        let reply = model.turn(&turn, &()).await.unwrap();
        assert_eq!(reply.stop, Stop::Calls, "{api:?}");
        let results = reply.calls().map(|call| super::super::CallResult {
            id: call.id.clone(),
            name: call.name.clone(),
            text: "18 degrees".to_owned(),
            is_error: false,
        });
        let results: Vec<_> = results.collect();
        assert_eq!(results.len(), 2);
        turn.messages.push(super::super::Message::Model(reply));
        turn.messages.push(super::super::Message::Results(results));
        let shown = Shown::default();
        let reply = model.turn(&turn, &shown).await.unwrap();
        assert_eq!((reply.text().as_str(), &reply.stop), ("Grüße, warm in both.", &Stop::End));
        assert_eq!(*shown.0.lock(), reply.text());
        assert!(!reply.usage.estimated);
        // What is reserved covers what the server counts.
        assert!(reply.usage.input <= crate::model::estimate::input_tokens(&turn), "{api:?}");
    }
}

#[derive(Default)]
struct Shown(Mutex<String>);

impl TurnSink for Shown {
    fn text(&self, delta: &str) {
        self.0.lock().push_str(delta);
    }
}

#[tokio::test]
async fn a_connection_that_ends_anywhere_leaves_no_partial_reply() {
    for api in Api::ALL {
        for bytes in [0, 1, 40, 150, 300, 420] {
            let rule = Rule::text(&"words and words ".repeat(30)).dropped_after(bytes);
            let error = failure(rule, api).await;
            let kinds = [ModelErrorKind::Broken, ModelErrorKind::Unreachable];
            assert!(kinds.contains(&error.kind) && error.began, "{api:?} {bytes}: {error:?}");
            assert!(error.message.starts_with("provider `p`: "), "{error}");
        }
    }
}

#[tokio::test]
async fn refusals_come_with_the_time_to_wait() {
    let body = json!({"error": {"type": "rate_limit_error", "message": "slow down"}});
    for api in Api::ALL {
        let error = failure(Rule::status(429, &[("retry-after", "7")], body.clone()), api).await;
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert_eq!((error.retry_after, error.began), (Some(Duration::from_secs(7)), false));
        assert!(error.message.ends_with("(HTTP 429): slow down"), "{error}");
        let error = failure(Rule::status(503, &[], json!({})), api).await;
        assert_eq!((error.kind, error.retry_after), (ModelErrorKind::Unavailable, None));
    }
}

#[tokio::test]
async fn a_long_refusal_is_cut() {
    let words = "x".repeat(100_000);
    let error = failure(Rule::status(400, &[], json!(words)), Api::Openai).await;
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert!(error.message.len() < 700);
}

#[tokio::test]
async fn silence_ends_a_turn() {
    let server = FakeModels::start(vec![Rule::new(Answer::Hang)]).await.unwrap();
    let url = server.url(Api::Openai);
    let model = model_at(Api::Openai, &url, Duration::from_millis(50), 4);
    let error = model.turn(&question(), &()).await.unwrap_err();
    assert_eq!((error.kind, error.began), (ModelErrorKind::Silent, true));
}

#[tokio::test]
async fn nobody_there() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error =
        model_at(Api::Anthropic, &url, SILENCE, 4).turn(&question(), &()).await.unwrap_err();
    assert_eq!((error.kind, error.began), (ModelErrorKind::Unreachable, false));
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_malformed() {
    let error = failure(Rule::status(200, &[], json!({"choices": []})), Api::OpenaiChat).await;
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.message.contains("`application/json`"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let error = failure(Rule::status(302, &[("location", "/v2")], json!({})), Api::Openai).await;
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert!(error.message.contains("final address"), "{error}");
}

#[tokio::test]
async fn requests_wait_for_a_slot_and_give_it_back_when_dropped() {
    let rules = vec![Rule::new(Answer::Hang).containing("hang"), Rule::text("Hello.")];
    let server = FakeModels::start(rules).await.unwrap();
    let model = model_at(Api::Openai, &server.url(Api::Openai), SILENCE, 1);
    let mut hanging = question();
    hanging.messages = vec![super::super::Message::User("hang".to_owned())];
    let first = {
        let model = Arc::clone(&model);
        tokio::spawn(async move { model.turn(&hanging, &()).await })
    };
    while server.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    let turn = question();
    let mut second = Box::pin(model.turn(&turn, &()));
    let waiting = timeout(Duration::from_millis(20), &mut second).await;
    assert!(waiting.is_err() && server.requests().len() == 1);
    first.abort();
    assert_eq!(second.await.unwrap().text(), "Hello.");
}
