use std::collections::BTreeMap;

use drawgate_host::secrets::Secrets;
use serde_json::json;

use super::*;
use crate::model::codec_tests::question;
use crate::testing::fake_models::{Answer, FakeModels, Page, Rule};

const KEY: &str = "sk-test-0123456789";

fn host() -> Arc<Host> {
    let variables = [("MODEL_KEY", KEY), ("BAD_KEY", "two\nlines"), ("NO_KEY", "")];
    let variables: BTreeMap<String, String> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Arc::new(Host::new(Secrets::new(variables), None).unwrap())
}

fn models(providers: Value, names: Value) -> Models {
    let providers = serde_json::from_value(providers).unwrap();
    Models::new(&providers, &serde_json::from_value(names).unwrap(), &host())
}

/// A provider of each API, all at one server, with this key.
fn all_of(server: &FakeModels, key: &str) -> Models {
    let provider = |api: Api| json!({"kind": api, "url": server.url(api), "key": key});
    let providers: serde_json::Map<_, _> =
        Api::ALL.iter().map(|api| (api.as_str().to_owned(), provider(*api))).collect();
    models(Value::Object(providers), json!({}))
}

fn two_providers() -> Models {
    models(
        json!({
            "anthropic": {"kind": "anthropic", "models": {"claude-sonnet-4-6": {"context_tokens": 200_000}}},
            "local": {"kind": "openai_chat", "url": "http://127.0.0.1:11434/v1"},
        }),
        json!({
            "default": "fast",
            "aliases": {"fast": "local/qwen3:8b", "deep": "anthropic/claude-sonnet-4-6"},
        }),
    )
}

#[test]
fn names_are_resolved() {
    let models = two_providers();
    for (name, expected, context) in [
        (None, "local/qwen3:8b", 128_000),
        (Some("fast"), "local/qwen3:8b", 128_000),
        (Some("deep"), "anthropic/claude-sonnet-4-6", 200_000),
        (Some("anthropic/claude-sonnet-4-6"), "anthropic/claude-sonnet-4-6", 200_000),
        (Some("anthropic/another"), "anthropic/another", 128_000),
        (Some("local/org/model"), "local/org/model", 128_000),
    ] {
        let model = models.resolve(name).unwrap();
        assert_eq!((model.name(), model.limits().context_tokens), (expected, context));
    }
}

#[test]
fn names_that_mean_nothing_are_explained() {
    let models = two_providers();
    let bad = ["fats", "anthropic/", "antropic/claude-sonnet-4-6", "gpt", ""];
    let mut messages: Vec<_> =
        bad.map(|name| models.resolve(Some(name)).err().unwrap().to_string()).into();
    let empty = super::Models { providers: BTreeMap::new(), names: ModelsConfig::default() };
    messages.push(empty.resolve(None).err().unwrap().to_string());
    messages.push(empty.resolve(Some("a/b")).err().unwrap().to_string());
    insta::assert_snapshot!(messages.join("\n"));
}

#[tokio::test]
async fn keys_go_where_each_api_wants_them() {
    let server = FakeModels::start_with_key(vec![Rule::text("Hello.")], KEY).await.unwrap();
    let models = all_of(&server, "env:MODEL_KEY");
    for (api, header, value) in [
        (Api::Anthropic, "x-api-key", KEY.to_owned()),
        (Api::Openai, "authorization", format!("Bearer {KEY}")),
        (Api::OpenaiChat, "authorization", format!("Bearer {KEY}")),
        (Api::Gemini, "x-goog-api-key", KEY.to_owned()),
    ] {
        let model = models.resolve(Some(&format!("{}/m", api.as_str()))).unwrap();
        assert_eq!(model.turn(&question(), &()).await.unwrap().text(), "Hello.");
        let received = server.requests();
        let received = received.last().unwrap();
        assert_eq!(received.header(header), Some(value.as_str()));
        assert_eq!(received.header("content-type"), Some("application/json"));
        assert!(!received.body.to_string().contains(KEY));
        assert!(!received.path.contains(KEY));
    }
}

#[tokio::test]
async fn keys_that_are_missing_or_bad_are_named_and_nothing_is_sent() {
    let server = FakeModels::start(vec![Rule::text("Hello.")]).await.unwrap();
    let mut messages = Vec::new();
    for key in ["env:ABSENT_KEY", "env:BAD_KEY", "env:NO_KEY"] {
        let model = all_of(&server, key).resolve(Some("openai/m")).unwrap();
        let error = model.turn(&question(), &()).await.unwrap_err();
        assert_eq!((error.kind, error.began), (ModelErrorKind::Key, false));
        messages.push(error.message);
    }
    assert_eq!(server.requests(), []);
    insta::assert_snapshot!(messages.join("\n"));
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_hidden() {
    let body = json!({"error": {"message": format!("Incorrect API key provided: {KEY}.")}});
    let server = FakeModels::start(vec![Rule::status(401, &[], body)]).await.unwrap();
    for key in ["env:MODEL_KEY", KEY] {
        let model = all_of(&server, key).resolve(Some("openai/m")).unwrap();
        let error = model.turn(&question(), &()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Key);
        assert!(!error.message.contains(KEY) && error.message.contains("****"), "{error}");
    }
}

#[tokio::test]
async fn providers_are_checked_by_their_list_of_models() {
    let server = FakeModels::start_with_key(Vec::new(), KEY).await.unwrap();
    for api in Api::ALL {
        let checked = all_of(&server, "env:MODEL_KEY").check(api.as_str()).await.unwrap();
        assert!(checked.contains("accepts the key"), "{checked}");
        let error = all_of(&server, "wrong").check(api.as_str()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Key, "{error}");
    }
    let error = two_providers().check("other").await.unwrap_err();
    assert!(error.message.contains("`anthropic`, `local`"), "{error}");
    let url = format!("http://{}", server.address());
    let elsewhere = models(json!({"a": {"kind": "openai", "url": format!("{url}/x")}}), json!({}));
    assert_eq!(elsewhere.check("a").await.unwrap_err().kind, ModelErrorKind::Key);
}

#[test]
fn lists_of_models() {
    for (answer, expected) in [
        (json!({"data": [{"id": "m"}]}), true),
        (json!({"models": []}), true),
        // Ollama without any model.
        (json!({"object": "list", "data": null}), true),
        (json!({"data": "m"}), false),
        (json!([]), false),
        (json!({"status": "ok"}), false),
    ] {
        assert_eq!(lists_models(&answer), expected, "{answer}");
    }
}

#[tokio::test]
async fn searches_are_made_by_gemini_alone() {
    let page = |number: u32| Page {
        title: format!("Page {number}"),
        url: format!("https://{number}.example/"),
        snippet: format!("Fact {number}."),
    };
    let rule = Rule::new(Answer::Search(vec![page(1), page(2), page(3)])).containing("rust");
    let server = FakeModels::start(vec![rule]).await.unwrap();
    let models = all_of(&server, "env:MODEL_KEY");
    let found = models.search("rust release", 2, Some("gemini/flash")).await.unwrap();
    let shown: Vec<_> = found.results.iter().map(|result| result.snippet.as_str()).collect();
    assert_eq!(shown, ["Fact 1.", "Fact 2."]);
    assert!(found.usage.input > 0 && found.usage.output > 0);
    let received = server.requests();
    assert_eq!(received[0].path, "/v1beta/models/flash:generateContent");
    assert_eq!(received[0].body["tools"], json!([{"google_search": {}}]));
    let error = models.search("rust", 2, Some("openai/m")).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert!(error.message.contains("kind `gemini`"), "{error}");
}
