//! What providers mean by refusing: by a status, or by an error in the middle of an answer.

use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, StatusCode, header};
use drawgate_core::json;
use serde_json::Value;

use super::{Api, ModelError, ModelErrorKind};

/// How much of a provider's own words is repeated.
const MAX_SHOWN: usize = 500;

/// Names of errors that mean that the account has nothing left.
const QUOTA: [&str; 4] = [
    "insufficient_quota",
    "enforced_spend_limit_reached",
    "billing_error",
    "billing_hard_limit_reached",
];
/// The same in words, for providers that give such errors no name of their own.
const QUOTA_PHRASES: [&str; 2] = ["credit balance is too low", "spend limit"];
/// Names of errors about the key.
const KEY: [&str; 4] =
    ["invalid_api_key", "authentication_error", "API_KEY_INVALID", "UNAUTHENTICATED"];
/// Names of errors about the length of a conversation.
const CONTEXT: [&str; 3] =
    ["context_length_exceeded", "exceed_context_size_error", "request_too_large"];
/// The same in words, in lower case.
const CONTEXT_PHRASES: [&str; 6] = [
    "prompt is too long",
    "maximum context length",
    "exceeds the maximum number of tokens",
    "exceed context limit",
    "exceeds the available context size",
    "context window",
];
/// Names of errors about too many requests.
const RATE: [&str; 3] = ["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"];
/// Names of errors that pass by themselves.
const UNAVAILABLE: [&str; 7] = [
    "overloaded_error",
    "api_error",
    "timeout_error",
    "server_error",
    "UNAVAILABLE",
    "INTERNAL",
    "DEADLINE_EXCEEDED",
];
/// Names of errors that the request itself is the cause of.
const REJECTED: [&str; 4] =
    ["invalid_request_error", "invalid_prompt", "INVALID_ARGUMENT", "FAILED_PRECONDITION"];

/// What a provider means by a status that is not success.
pub(super) fn refused(
    api: Api,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
) -> ModelError {
    let said = Said::read(body);
    let retry_after = retry_after(headers, now).or(said.retry_after);
    let kind = match (said.special(), by_status(status)) {
        // Such words in an error of the server, or about too many requests, mean something else.
        (Some(ModelErrorKind::Context), other) if other != ModelErrorKind::Rejected => other,
        (special, other) => special.unwrap_or(other),
    };
    // A provider that knows when to try again says so; this one says nothing about spent budgets.
    let kind = match (kind, api, retry_after) {
        (ModelErrorKind::RateLimited, Api::Anthropic, None) => ModelErrorKind::Quota,
        (kind, _, _) => kind,
    };
    let mut message = format!("the provider refused the request (HTTP {})", status.as_u16());
    if !said.message.is_empty() {
        message = format!("{message}: {}", said.message);
    }
    message.push_str(advice(kind, status));
    ModelError { retry_after, ..ModelError::new(kind, message) }
}

/// What a provider means by an error in the middle of an answer.
pub(super) fn reported(api: Api, error: &Value) -> ModelError {
    let said = Said::of(error);
    let kind = said.kind();
    let message = match said.message.as_str() {
        "" => format!("the provider of the `{}` API broke off with an error", api.as_str()),
        words => format!("the provider broke off with an error: {words}"),
    };
    ModelError { retry_after: said.retry_after, ..ModelError::new(kind, message) }
}

/// The beginning of a text, without characters that could control a terminal.
pub(super) fn shown(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    visible.filter(|c| !c.is_control()).take(MAX_SHOWN).collect::<String>().trim().to_owned()
}

/// What an error says.
#[derive(Default)]
struct Said {
    /// Its names: `type`, `code`, `status` and reasons.
    names: Vec<String>,
    message: String,
    retry_after: Option<Duration>,
}

impl Said {
    fn read(body: &[u8]) -> Self {
        match json::parse_lossy(body) {
            Ok(answer) => Self::of(&answer),
            Err(_) => Self { message: shown_text(body), ..Self::default() },
        }
    }

    /// Providers wrap the error in an object, a list or both, or send its text alone.
    fn of(answer: &Value) -> Self {
        let answer = answer.get(0).unwrap_or(answer);
        let error = answer.get("error").filter(|error| !error.is_null()).unwrap_or(answer);
        let member = |name: &str| error.get(name).and_then(Value::as_str);
        let message = error.as_str().or_else(|| member("message")).or_else(|| member("detail"));
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice);
        let details = details.unwrap_or_default();
        let reasons = details.iter().filter_map(|detail| detail.get("reason")?.as_str());
        let names = ["type", "code", "status"].into_iter().filter_map(member).chain(reasons);
        Self {
            names: names.map(str::to_owned).collect(),
            message: shown(message.unwrap_or_default()),
            retry_after: details.iter().find_map(retry_delay),
        }
    }

    /// What kind of error its names make it, whatever its status is.
    fn special(&self) -> Option<ModelErrorKind> {
        let words = self.message.to_lowercase();
        let has = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
        if self.is(&QUOTA) || has(&QUOTA_PHRASES) {
            Some(ModelErrorKind::Quota)
        } else if self.is(&CONTEXT) || has(&CONTEXT_PHRASES) {
            Some(ModelErrorKind::Context)
        } else if self.is(&KEY) {
            Some(ModelErrorKind::Key)
        } else {
            None
        }
    }

    /// What kind of error it is, where there is no status.
    fn kind(&self) -> ModelErrorKind {
        self.special().unwrap_or_else(|| {
            if self.is(&RATE) {
                ModelErrorKind::RateLimited
            } else if self.is(&UNAVAILABLE) {
                ModelErrorKind::Unavailable
            } else if self.is(&REJECTED) {
                ModelErrorKind::Rejected
            } else {
                ModelErrorKind::Broken
            }
        })
    }

    fn is(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }
}

fn by_status(status: StatusCode) -> ModelErrorKind {
    match status.as_u16() {
        401 | 403 => ModelErrorKind::Key,
        402 => ModelErrorKind::Quota,
        413 => ModelErrorKind::Context,
        429 => ModelErrorKind::RateLimited,
        408 | 409 | 500.. => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::Rejected,
    }
}

fn advice(kind: ModelErrorKind, status: StatusCode) -> &'static str {
    match kind {
        ModelErrorKind::Key => "; check the provider's `key`",
        ModelErrorKind::Quota => "; check the account's balance and limits at the provider",
        ModelErrorKind::Rejected if status.is_redirection() => {
            "; redirects are not followed: configure the final address as `url`"
        }
        ModelErrorKind::Rejected if status == StatusCode::NOT_FOUND => {
            "; check the provider's `url` and the model's name"
        }
        ModelErrorKind::Rejected
        | ModelErrorKind::Unreachable
        | ModelErrorKind::Unavailable
        | ModelErrorKind::RateLimited
        | ModelErrorKind::Context
        | ModelErrorKind::Broken
        | ModelErrorKind::Silent
        | ModelErrorKind::Malformed => "",
    }
}

/// A body that is not JSON is shown unless it is a page for browsers.
fn shown_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if text.trim_start().starts_with('<') { String::new() } else { shown(&text) }
}

/// `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|ms| seconds(ms, 1000.0)) {
        return Some(wait);
    }
    let asked = text(header::RETRY_AFTER.as_str())?;
    seconds(asked, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(asked).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    })
}

/// Gemini's `RetryInfo`: `{"@type": "…RetryInfo", "retryDelay": "34.5s"}`.
fn retry_delay(detail: &Value) -> Option<Duration> {
    seconds(detail.get("retryDelay")?.as_str()?.strip_suffix('s')?, 1.0)
}

fn seconds(text: &str, in_a_second: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number / in_a_second).ok()
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
