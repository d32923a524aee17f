use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use serde_json::json;

use super::*;
use crate::model::config::ModelsConfig;
use crate::model::{Message, Model, Models, Stop, Turn, estimate};

fn models(server: &FakeModels) -> Models {
    let host = Arc::new(Host::new(Secrets::new(BTreeMap::new()), None).unwrap());
    let provider = |api: Api| json!({"kind": api, "url": server.url(api), "concurrency": 50});
    let providers: serde_json::Map<_, _> =
        Api::ALL.iter().map(|api| (api.as_str().to_owned(), provider(*api))).collect();
    let providers = serde_json::from_value(Value::Object(providers)).unwrap();
    Models::new(&providers, &ModelsConfig::default(), &host)
}

fn turn(text: &str, max_output: u64) -> Turn {
    Turn {
        system: "You are careful.".to_owned(),
        messages: vec![Message::User(text.to_owned())],
        tools: Vec::new(),
        max_output,
        temperature: None,
    }
}

#[tokio::test]
async fn conversations_at_the_same_time_get_their_own_answers() {
    let rules =
        (0..20).map(|n| Rule::text(&format!("answer {n:02}")).containing(&format!("<{n:02}>")));
    let server = FakeModels::start(rules.collect()).await.unwrap();
    let models = models(&server);
    let asked = (0..20).flat_map(|n| Api::ALL.map(|api| (n, api))).map(|(n, api)| {
        let model: Arc<dyn Model> = models.resolve(Some(&format!("{}/m", api.as_str()))).unwrap();
        async move {
            let reply = model.turn(&turn(&format!("question <{n:02}>"), 100), &()).await.unwrap();
            assert_eq!(reply.text(), format!("answer {n:02}"), "{api:?}");
            estimate::input_tokens(&turn(&format!("question <{n:02}>"), 100))
        }
    });
    let counted: u64 = futures_util::future::join_all(asked).await.into_iter().sum();
    assert_eq!(server.requests().len(), 80);
    assert_eq!(server.served().input, counted);
    assert_eq!(server.served().output, 80 * 3);
}

#[tokio::test]
async fn rules_look_at_the_request() {
    let rules = vec![
        Rule::text("gemini").provider(Api::Gemini),
        Rule::text("big").for_model("big"),
        Rule::text("careful").with_system("careful").containing("system"),
        Rule::text("tool").with_tool("weather"),
        Rule::text("first").at_turn(0),
    ];
    let server = FakeModels::start(rules).await.unwrap();
    let models = models(&server);
    for (name, text, expected) in [
        ("gemini/m", "hello", "gemini"),
        ("openai/big", "hello", "big"),
        ("anthropic/m", "what system?", "careful"),
        ("openai_chat/m", "what system?", "careful"),
        ("openai/m", "hello", "first"),
    ] {
        let reply = models.resolve(Some(name)).unwrap().turn(&turn(text, 100), &()).await.unwrap();
        assert_eq!(reply.text(), expected, "{name}");
    }
}

#[tokio::test]
async fn no_more_is_written_than_was_asked_for() {
    let server = FakeModels::start(vec![Rule::text(&"word ".repeat(100))]).await.unwrap();
    let models = models(&server);
    for api in Api::ALL {
        let model = models.resolve(Some(&format!("{}/m", api.as_str()))).unwrap();
        let reply = model.turn(&turn("hello", 5), &()).await.unwrap();
        assert_eq!((reply.text().len(), &reply.stop), (20, &Stop::MaxOutput), "{api:?}");
        assert_eq!(reply.usage.output, 5);
    }
}

#[tokio::test]
async fn a_request_that_no_rule_fits_fails() {
    let server = FakeModels::start(vec![Rule::text("hi").containing("hello")]).await.unwrap();
    let model = models(&server).resolve(Some("openai/m")).unwrap();
    let error = model.turn(&turn("good bye", 100), &()).await.unwrap_err();
    assert!(error.message.contains("no rule"), "{error}");
}

#[test]
fn scripts() {
    let script = json!([
        {"provider": "anthropic", "when": {"turn": 0, "has_tool": "add"},
         "reply": {"calls": [{"name": "add", "arguments": {"a": 1}}]}},
        {"when": {"contains": "slow"}, "reply": "hang"},
        {"reply": {"status": {"code": 529, "headers": {"retry-after": "1"}}}},
        {"reply": {"raw": ["data: {}\n\n"]}},
        {"reply": {"drop_after": {"bytes": 10, "reply": {"text": "hello"}}}},
    ]);
    let rules: Vec<Rule> = serde_json::from_value(script).unwrap();
    assert_eq!(rules[0].when.has_tool.as_deref(), Some("add"));
    assert_eq!(rules[1].reply, Answer::Hang);
    assert_eq!(rules[4], Rule::text("hello").dropped_after(10));
    for bad in [json!({"reply": {"shout": 1}}), json!({"reply": "hang", "if": {}})] {
        assert!(serde_json::from_value::<Rule>(bad).is_err());
    }
}
