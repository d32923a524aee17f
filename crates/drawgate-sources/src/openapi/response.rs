//! An answer as the result of a tool.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::json;
use drawgate_core::model::ToolOutput;
use drawgate_host::egress::Fetched;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Map, Value, json};

use super::media;

/// Bytes of a failed request's answer that are shown.
const MAX_FAILURE: usize = 16 * 1024;
/// Headers that are shown where the answer has no body.
const TELLING: [&str; 8] = [
    "allow",
    "content-length",
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
];

/// The result. `uri` names what has no text of its own.
pub(super) fn output(method: &Method, answer: &Fetched, uri: &str) -> ToolOutput {
    if !answer.status.is_success() {
        return failure(answer);
    }
    if *method == Method::HEAD {
        return head(answer);
    }
    if answer.body.is_empty() {
        return ToolOutput::text(format!("{}: no content{}", line(answer.status), place(answer)));
    }
    let media = content_type(&answer.headers);
    let essence = media::essence(&media);
    if (media::is_json(&media) || essence.is_empty())
        && let Ok(value) = json::parse(&answer.body)
    {
        return structured(text(&answer.body, &media), value);
    }
    if media::is_json(&media) || media::is_text(&media) || essence.is_empty() {
        return ToolOutput::text(text(&answer.body, &media));
    }
    binary(&essence, answer, uri)
}

fn structured(text: String, value: Value) -> ToolOutput {
    // The protocol has objects only.
    let value = if value.is_object() { value } else { json!({ "value": value }) };
    ToolOutput { structured: Some(value), ..ToolOutput::text(text) }
}

fn binary(essence: &str, answer: &Fetched, uri: &str) -> ToolOutput {
    let data = STANDARD.encode(&answer.body);
    let family = essence.split('/').next().unwrap_or_default();
    let block = match family {
        "image" | "audio" => json!({ "type": family, "data": data, "mimeType": essence }),
        _ => json!({
            "type": "resource",
            "resource": { "uri": uri, "mimeType": essence, "blob": data },
        }),
    };
    ToolOutput { content: vec![block], ..ToolOutput::default() }
}

/// What went wrong, as the server tells it.
fn failure(answer: &Fetched) -> ToolOutput {
    let media = content_type(&answer.headers);
    let status = answer.status.as_u16();
    let is_readable = media.is_empty() || media::is_json(&media) || media::is_text(&media);
    let shown = answer.body.get(..MAX_FAILURE).unwrap_or(&answer.body);
    let mut said = line(answer.status);
    said.push_str(&place(answer));
    let mut details = Map::from_iter([("status".to_owned(), Value::from(status))]);
    if is_readable && !shown.is_empty() {
        let body = text(shown, &media);
        said.push('\n');
        said.push_str(&body);
        let whole = (shown.len() == answer.body.len()).then(|| json::parse(shown).ok()).flatten();
        details.insert("body".to_owned(), whole.unwrap_or_else(|| body.into()));
    }
    if shown.len() < answer.body.len() {
        // Writing to a `String` can't fail.
        let _ = write!(said, "\n… {} bytes in all", answer.body.len());
    }
    ToolOutput { structured: Some(details.into()), ..ToolOutput::failure(said) }
}

fn head(answer: &Fetched) -> ToolOutput {
    let headers: Map<String, Value> = TELLING
        .iter()
        .filter_map(|name| {
            let value = answer.headers.get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.into()))
        })
        .collect();
    let mut lines = vec![line(answer.status)];
    lines.extend(
        headers.iter().filter_map(|(name, value)| Some(format!("{name}: {}", value.as_str()?))),
    );
    structured(lines.join("\n"), json!({ "status": answer.status.as_u16(), "headers": headers }))
}

fn line(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or_default();
    format!("HTTP {} {reason}", status.as_u16()).trim_end().to_owned()
}

/// Where something was made, or has moved to.
fn place(answer: &Fetched) -> String {
    let location = answer.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    location.map(|location| format!(", location `{location}`")).unwrap_or_default()
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

fn text(bytes: &[u8], media: &str) -> String {
    let lower = media.to_ascii_lowercase();
    if lower.contains("charset=iso-8859-1") || lower.contains("charset=\"iso-8859-1\"") {
        return bytes.iter().copied().map(char::from).collect();
    }
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
