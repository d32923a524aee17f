use std::collections::BTreeMap;

use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use serde_json::json;

use super::*;
use crate::model::config::{ModelsConfig, ProviderConfig, ProvidersConfig};

fn models() -> Models {
    let provider = |kind| ProviderConfig {
        kind,
        url: Some("http://127.0.0.1:9/base".to_owned()),
        key: None,
        concurrency: 1,
        models: BTreeMap::from([(
            "m".to_owned(),
            ModelLimits { context_tokens: 1000, max_output: 100, usd_per_million: None },
        )]),
    };
    let providers: ProvidersConfig =
        Api::ALL.map(|api| (api.as_str().to_owned(), provider(api))).into();
    let host = Arc::new(Host::new(Secrets::new(BTreeMap::new()), None).unwrap());
    Models::new(&providers, &ModelsConfig::default(), &host)
}

fn read(provider: &str, path: &str, body: &Value) -> Result<Relayed, RelayRefusal> {
    let (headers, body) = (HeaderMap::new(), body.to_string());
    let request =
        ProgramRequest { method: &Method::POST, path, headers: &headers, body: body.as_bytes() };
    models().relayed(provider, &format!("{provider}/own"), &request)
}

#[tokio::test]
async fn requests_that_ask_a_model_are_written_anew() {
    let m = json!({"model": "m", "stream": true});
    for (provider, path, body, url, charged) in [
        ("anthropic", "/v1/messages", &m, "/base/v1/messages", true),
        ("anthropic", "/v1/messages/count_tokens", &m, "/base/v1/messages/count_tokens", false),
        ("openai", "/responses", &m, "/base/responses", true),
        ("openai_chat", "/chat/completions", &m, "/base/chat/completions", true),
        (
            "gemini",
            "/v1beta/models/m:streamGenerateContent",
            &json!({}),
            "/base/v1beta/models/m:streamGenerateContent?alt=sse",
            true,
        ),
        (
            "gemini",
            "/v1beta/models/m:generateContent",
            &json!({}),
            "/base/v1beta/models/m:generateContent",
            true,
        ),
        (
            "gemini",
            "/v1beta/models/m:countTokens",
            &json!({}),
            "/base/v1beta/models/m:countTokens",
            false,
        ),
        ("openai", "/responses", &json!({"model": "own"}), "/base/responses", true),
    ] {
        let relayed = read(provider, path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(relayed.url.as_str(), format!("http://127.0.0.1:9{url}"), "{path}");
        assert_eq!(relayed.is_charged(), charged, "{path}");
    }
}

#[tokio::test]
async fn everything_else_is_refused() {
    let m = json!({"model": "m"});
    let refusal = |provider: &str, path: &str, body: &Value| {
        read(provider, path, body).map(|relayed| relayed.model()).unwrap_err().to_string()
    };
    for (provider, path) in [
        ("anthropic", "/v1/files"),
        ("anthropic", "/v1/messages/"),
        ("anthropic", "/v1/../v1/messages"),
        ("anthropic", "/v1/messages/batches"),
        ("openai", "/v1/responses"),
        ("openai", "/responses/resp_1/cancel"),
        ("openai_chat", "/completions"),
        ("gemini", "/v1beta/models/m:batchGenerateContent"),
        ("gemini", "/v1beta/files"),
        ("gemini", "/v1/models/m:generateContent"),
    ] {
        assert!(refusal(provider, path, &m).contains("not relayed"), "{path}");
    }
    assert!(refusal("elsewhere", "/v1/messages", &m).contains("no provider"));
    assert!(refusal("openai", "/responses", &json!({"model": "x"})).contains("not configured"));
    let escaped = "/v1beta/models/m%2F..:generateContent";
    assert!(refusal("gemini", escaped, &m).contains("not configured"));
    assert!(refusal("openai", "/responses", &json!([])).contains("not an object"));
    assert!(refusal("openai", "/responses", &json!({})).contains("not relayed"), "no model");
}

#[tokio::test]
async fn output_is_held_to_the_model_and_the_budget() {
    for (provider, path, pointer, more) in [
        ("anthropic", "/v1/messages", "/max_tokens", json!({"max_tokens": 32_000})),
        ("openai", "/responses", "/max_output_tokens", json!({})),
        ("openai_chat", "/chat/completions", "/max_tokens", json!({"max_tokens": 500})),
        ("openai_chat", "/chat/completions", "/max_completion_tokens", json!({})),
        (
            "gemini",
            "/v1beta/models/m:generateContent",
            "/generationConfig/maxOutputTokens",
            json!({"generationConfig": {"maxOutputTokens": 500}}),
        ),
    ] {
        let mut body = more;
        body["model"] = "m".into();
        let mut relayed = read(provider, path, &body).unwrap();
        assert_eq!(relayed.max_output(), 100, "{path}: that of the model");
        relayed.limit_output(7);
        assert_eq!(relayed.body.pointer(pointer), Some(&json!(7)), "{path}");
        assert_eq!(relayed.max_output(), 7, "{path}");
    }
    let thinking = json!({"type": "enabled", "budget_tokens": 50});
    let body = json!({"model": "m", "max_tokens": 90, "thinking": thinking});
    let mut relayed = read("anthropic", "/v1/messages", &body).unwrap();
    relayed.limit_output(60);
    assert_eq!(relayed.body["thinking"], thinking);
    relayed.limit_output(50);
    assert_eq!(relayed.body.get("thinking"), None);
}

#[test]
fn only_what_speaks_of_the_api_is_passed_on() {
    let names = ["accept", "anthropic-beta", "authorization", "x-api-key", "cookie", "host"];
    let value = HeaderValue::from_static("effort-2025-11-24,files-api-2025-04-14");
    let headers = names.map(|name| (HeaderName::from_static(name), value.clone()));
    let passed = passed_on(&headers.into_iter().collect());
    let mut names: Vec<_> = passed.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "anthropic-beta"]);
    assert_eq!(passed.get(BETAS).unwrap(), "effort-2025-11-24");
}

#[tokio::test]
async fn more_than_a_question_to_a_model_is_left_out_or_refused() {
    let body = json!({"model": "m", "mcp_servers": [], "tools": [{"type": "web_search_20250305"}]});
    let relayed = read("anthropic", "/v1/messages", &body).unwrap();
    assert_eq!(relayed.body, json!({"model": "m"}));
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://evil"}});
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [image]}]});
    let refusal = read("anthropic", "/v1/messages", &body).err();
    assert!(matches!(refusal, Some(RelayRefusal::Part(_))), "{refusal:?}");
    // A text of few bytes that would be a hundred megabytes of values.
    let many = format!("{{\"model\":\"m\",\"messages\":[{}0]}}", "0,".repeat(1_000_000));
    let request = ProgramRequest {
        method: &Method::POST,
        path: "/v1/messages",
        headers: &HeaderMap::new(),
        body: many.as_bytes(),
    };
    let refusal = models().relayed("anthropic", "anthropic/own", &request).err();
    assert!(matches!(refusal, Some(RelayRefusal::Body(_))), "{refusal:?}");
}

#[test]
fn the_key_is_masked_however_it_is_cut() {
    let key = "sk-aab";
    for text in
        ["", "sk-aab", "xsk-aabx", "sk-sk-aab", "sk-aa", "sk-aasssk-aabsk-aab", "ssk-aa sk-"]
    {
        let expected = text.replace(key, MASK);
        for size in 1..=text.len().max(1) {
            let mut mask = KeyMask { key: key.into(), held: Vec::new() };
            let pieces = text.as_bytes().chunks(size);
            let mut shown: Vec<u8> = pieces.flat_map(|piece| mask.feed(piece)).collect();
            shown.extend(mask.end());
            assert_eq!(String::from_utf8(shown).unwrap(), expected, "{text} by {size}");
        }
    }
    for key in [None, Some("none".to_owned())] {
        assert_eq!(KeyMask::new(key).feed(b"none"), b"none", "no secret");
    }
}

#[test]
fn images_count_as_little_text() {
    let image = "A".repeat(1_000_000);
    assert_eq!(text_chars(&json!({"data": image})), 4 + OPAQUE_CHARS);
    assert_eq!(text_chars(&json!(["a b", {"c": 1}])), 4);
}

#[test]
fn whole_answers_are_counted() {
    for (api, answer) in [
        (Api::Anthropic, json!({"usage": {"input_tokens": 3, "output_tokens": 4}})),
        (
            Api::Openai,
            json!({"status": "completed", "output": [], "usage": {"input_tokens": 3, "output_tokens": 4}}),
        ),
        (Api::OpenaiChat, json!({"usage": {"prompt_tokens": 3, "completion_tokens": 4}})),
        (Api::Gemini, json!({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}})),
    ] {
        let mut stream = ReplyStream::of(api, Seed::estimated(0));
        stream.whole(answer.to_string().as_bytes());
        let usage = stream.usage().unwrap_or_else(|| panic!("{api:?}"));
        assert_eq!((usage.input, usage.output), (3, 4), "{api:?}");
    }
}
