use serde_json::json;

use super::*;

const NOW: u64 = 1_794_900_000;

fn refusal(api: Api, status: u16, headers: &[(&str, &str)], body: &Value) -> ModelError {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse::<::http::HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let status = StatusCode::from_u16(status).unwrap();
    let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    refused(api, status, &headers, body.as_bytes(), now)
}

#[test]
fn statuses_and_names_make_kinds() {
    use Api::*;
    use ModelErrorKind::*;
    let error = |name: &str, message: &str| json!({"error": {"type": name, "message": message}});
    let coded = |code: &str| json!({"error": {"code": code, "type": "invalid_request_error"}});
    let google =
        |status: &str, message: &str| json!({"error": {"status": status, "message": message}});
    for (api, status, body, kind) in [
        (Anthropic, 400, error("invalid_request_error", "max_tokens: required"), Rejected),
        (Anthropic, 400, error("invalid_request_error", "prompt is too long: 3 > 2"), Context),
        (Anthropic, 400, error("invalid_request_error", "Your credit balance is too low"), Quota),
        (Anthropic, 401, error("authentication_error", "invalid x-api-key"), Key),
        (Anthropic, 402, error("billing_error", ""), Quota),
        (Anthropic, 403, error("permission_error", ""), Key),
        (Anthropic, 404, error("not_found_error", "model: x"), Rejected),
        (Anthropic, 413, error("request_too_large", ""), Context),
        (Anthropic, 429, error("rate_limit_error", "monthly spend limit"), Quota),
        (Anthropic, 529, error("overloaded_error", "Overloaded"), Unavailable),
        (Openai, 400, coded("context_length_exceeded"), Context),
        (Openai, 401, coded("invalid_api_key"), Key),
        (Openai, 401, error("invalid_request_error", "You didn't provide an API key"), Key),
        (Openai, 429, coded("insufficient_quota"), Quota),
        (Openai, 429, coded("enforced_spend_limit_reached"), Quota),
        (Openai, 429, coded("rate_limit_exceeded"), RateLimited),
        (Openai, 429, error("tokens", "Request too large for the context window"), RateLimited),
        (Openai, 500, error("server_error", "context window lost"), Unavailable),
        (
            OpenaiChat,
            400,
            json!({"object": "error", "message": "the maximum context length is 8"}),
            Context,
        ),
        (
            OpenaiChat,
            400,
            json!({"error": "the request exceeds the available context size"}),
            Context,
        ),
        (OpenaiChat, 404, json!("model not found"), Rejected),
        (OpenaiChat, 408, json!(""), Unavailable),
        (OpenaiChat, 409, json!(""), Unavailable),
        (OpenaiChat, 502, json!("<html>bad gateway</html>"), Unavailable),
        (OpenaiChat, 302, json!(""), Rejected),
        (
            Gemini,
            400,
            google("INVALID_ARGUMENT", "input exceeds the maximum number of tokens"),
            Context,
        ),
        (Gemini, 400, google("FAILED_PRECONDITION", "no billing"), Rejected),
        (Gemini, 403, google("PERMISSION_DENIED", ""), Key),
        (Gemini, 429, google("RESOURCE_EXHAUSTED", ""), RateLimited),
        (Gemini, 503, google("UNAVAILABLE", ""), Unavailable),
        (Gemini, 400, json!([{"error": {"details": [{"reason": "API_KEY_INVALID"}]}}]), Key),
    ] {
        let error = refusal(api, status, &[], &body);
        assert_eq!(error.kind, kind, "{api:?} {status} {body}: {error}");
        assert!(!error.began);
        assert!(error.message.contains(&status.to_string()) && !error.message.contains('<'));
    }
}

#[test]
fn only_a_rate_limit_with_a_time_is_one_of_anthropic() {
    let body = json!({"error": {"type": "rate_limit_error", "message": "too many"}});
    for (headers, kind) in
        [(vec![], ModelErrorKind::Quota), (vec![("retry-after", "7")], ModelErrorKind::RateLimited)]
    {
        assert_eq!(refusal(Api::Anthropic, 429, &headers, &body).kind, kind);
    }
    assert_eq!(refusal(Api::Openai, 429, &[], &body).kind, ModelErrorKind::RateLimited);
}

#[test]
fn times_to_wait() {
    let info = json!({"error": {"status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
    ]}});
    let none = json!({});
    for (headers, body, expected) in [
        (vec![("retry-after", "7")], &none, Some(7_000)),
        (vec![("retry-after", " 0.5 ")], &none, Some(500)),
        (vec![("retry-after-ms", "1500"), ("retry-after", "2")], &none, Some(1_500)),
        (vec![("retry-after", "Tue, 17 Nov 2026 07:21:00 GMT")], &none, Some(60_000)),
        (vec![("retry-after", "Tue, 17 Nov 2020 07:21:00 GMT")], &none, Some(0)),
        (vec![("retry-after", "soon")], &none, None),
        (vec![("retry-after", "-1")], &none, None),
        (vec![("retry-after", "inf")], &none, None),
        (vec![], &info, Some(34_500)),
        (vec![("retry-after", "3")], &info, Some(3_000)),
        (vec![], &none, None),
    ] {
        let error = refusal(Api::Gemini, 429, &headers, body);
        let wait = error.retry_after.map(|wait| wait.as_millis());
        assert_eq!(wait, expected, "{headers:?}");
    }
}

#[test]
fn words_of_providers_are_bounded_and_tame() {
    let wild = format!("a\u{1b}[31m\nb\t{}", "x".repeat(10_000));
    let error = refusal(Api::Openai, 400, &[], &json!({"error": {"message": wild}}));
    assert!(error.message.contains("a[31m b x"));
    assert!(error.message.chars().count() < MAX_SHOWN + 100);
    assert!(!error.message.chars().any(char::is_control));
}

#[test]
fn messages_say_what_to_do() {
    let message = |status| refusal(Api::Openai, status, &[], &json!({})).message;
    insta::assert_snapshot!(
        [401, 402, 404, 302, 500].map(message).join("\n"),
        @r"
    the provider refused the request (HTTP 401); check the provider's `key`
    the provider refused the request (HTTP 402); check the account's balance and limits at the provider
    the provider refused the request (HTTP 404); check the provider's `url` and the model's name
    the provider refused the request (HTTP 302); redirects are not followed: configure the final address as `url`
    the provider refused the request (HTTP 500)
    "
    );
}
