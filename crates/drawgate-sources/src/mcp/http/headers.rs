//! Headers of the revision without sessions, which repeat parts of the body for those in between.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Number, Value};

use crate::mcp::parameters::ParameterHeader;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Repeats the arguments that a tool wants in headers.
pub(super) fn insert_parameters(
    headers: &mut HeaderMap,
    wanted: &[ParameterHeader],
    arguments: &Map<String, Value>,
) {
    for ParameterHeader { path, header } in wanted {
        let mut keys = path.iter();
        let first = keys.next().and_then(|key| arguments.get(key));
        let value = keys.try_fold(first, |value, key| Some(value?.get(key)));
        let text = match value.flatten() {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => decimal(number),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => continue,
        };
        headers.insert(header.clone(), encode(&text));
    }
}

/// A whole number without a fraction, however it was written.
fn decimal(number: &Number) -> String {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= LARGEST => {
            format!("{float:.0}")
        }
        Some(_) | None => number.to_string(),
    }
}

/// Text as a header: as it is if it can be, else `=?base64?…?=`.
pub(super) fn encode(text: &str) -> HeaderValue {
    if is_plain(text)
        && let Ok(value) = HeaderValue::from_str(text)
    {
        return value;
    }
    let encoded = format!("=?base64?{}?=", STANDARD.encode(text));
    // Base64 consists of nothing but characters that are legal in headers.
    HeaderValue::from_str(&encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn is_plain(text: &str) -> bool {
    let printable = text.chars().all(|c| (' '..='~').contains(&c));
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    printable && !looks_encoded && text.trim() == text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_encoded_only_where_it_must_be() {
        for (text, expected) in [
            ("plain_name-1", "plain_name-1"),
            ("two words", "two words"),
            ("", ""),
            ("naïve", "=?base64?bmHDr3Zl?="),
            ("a\r\nb", "=?base64?YQ0KYg==?="),
            (" edge", "=?base64?IGVkZ2U=?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(encode(text), expected, "{text:?}");
        }
    }

    #[test]
    fn arguments_are_found_by_path() {
        let wanted = |path: &[&str], header| ParameterHeader {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            header: HeaderName::from_static(header),
        };
        let wanted = [
            wanted(&["a"], "mcp-param-a"),
            wanted(&["b", "c"], "mcp-param-c"),
            wanted(&["absent", "c"], "mcp-param-d"),
            wanted(&["b"], "mcp-param-e"),
        ];
        let arguments = json!({ "a": true, "b": { "c": 7.0 } });
        let mut headers = HeaderMap::new();
        insert_parameters(&mut headers, &wanted, arguments.as_object().unwrap());
        assert_eq!(headers.len(), 2);
        assert_eq!(
            (headers["mcp-param-a"].as_bytes(), headers["mcp-param-c"].as_bytes()),
            (&b"true"[..], &b"7"[..])
        );
    }
}
