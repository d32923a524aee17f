//! Reads and checks the answers: the right id, the right text, all of the tools.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flaw {
    /// The peer refused or the connection broke: an error, which is counted.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
    /// The answer belongs to another call or was changed on its way: the run is void.
    #[error("a wrong answer: {0}")]
    Wrong(String),
}

/// One page of a list.
#[derive(Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) tools: usize,
    pub(crate) next: Option<String>,
}

#[derive(Deserialize)]
struct Envelope<R> {
    id: Option<Value>,
    result: Option<R>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct CallResult {
    content: Vec<Content>,
    #[serde(default, rename = "isError")]
    is_error: bool,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListResult {
    tools: Vec<IgnoredAny>,
    next_cursor: Option<String>,
}

/// Checks the answer to a call of `echo`.
pub(crate) fn check_echo(body: &[u8], id: u64, sent: &str) -> Result<(), Flaw> {
    let result: CallResult = result_of(body, id)?;
    let texts: Vec<&str> = result.content.iter().map(|content| content.text.as_str()).collect();
    if result.is_error {
        return Err(failed(format!("the tool failed: {}", texts.join(" "))));
    }
    if texts != [sent] {
        return Err(Flaw::Wrong(format!("sent `{sent}`, got back {texts:?}")));
    }
    Ok(())
}

/// Checks an answer that says nothing.
pub(crate) fn check_empty(body: &[u8], id: u64) -> Result<(), Flaw> {
    result_of::<IgnoredAny>(body, id).map(drop)
}

/// Checks the answer to a call that must be refused for its arguments.
pub(crate) fn check_refused(body: &[u8], id: u64) -> Result<(), Flaw> {
    let result: CallResult = result_of(body, id)?;
    if !result.is_error
        || !result.content.iter().any(|part| part.text.contains("INVALID_ARGUMENTS"))
    {
        return Err(Flaw::Wrong("a call without its arguments was not refused".to_owned()));
    }
    Ok(())
}

/// Checks one page of the answer to `tools/list`.
pub(crate) fn check_list(body: &[u8], id: u64) -> Result<Page, Flaw> {
    let result: ListResult = result_of(body, id)?;
    Ok(Page { tools: result.tools.len(), next: result.next_cursor })
}

/// Checks that no tool is missing.
pub(crate) fn check_count(tools: usize, at_least: usize) -> Result<(), Flaw> {
    if tools < at_least {
        return Err(Flaw::Wrong(format!("{tools} tools listed, expected at least {at_least}")));
    }
    Ok(())
}

/// The last message of an event stream, which is the answer.
pub(crate) fn event_data(body: &[u8]) -> Result<&[u8]> {
    let text = std::str::from_utf8(body).context("the event stream is not UTF-8")?;
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start);
    // An event may be empty: servers open their streams with one so that clients can resume.
    let last = data.rfind(|data| !data.is_empty());
    last.map(str::as_bytes).context("the event stream has no data")
}

fn result_of<R: DeserializeOwned>(body: &[u8], id: u64) -> Result<R, Flaw> {
    let envelope: Envelope<R> = serde_json::from_slice(body).map_err(|error| {
        let body = String::from_utf8_lossy(body).chars().take(300).collect::<String>();
        failed(format!("the answer is not understood ({error}): {body}"))
    })?;
    if let Some(error) = envelope.error {
        return Err(failed(format!("refused: {error}")));
    }
    if envelope.id != Some(Value::from(id)) {
        return Err(Flaw::Wrong(format!("sent id {id}, got back {:?}", envelope.id)));
    }
    envelope.result.ok_or_else(|| failed("the answer has no result".to_owned()))
}

fn failed(text: String) -> Flaw {
    Flaw::Failed(anyhow::Error::msg(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let found = match check_echo(body.as_bytes(), 4, "hello") {
            Ok(()) => "right",
            Err(Flaw::Failed(_)) => "failed",
            Err(Flaw::Wrong(_)) => "wrong",
        };
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn tells_right_answers_from_failed_and_wrong_ones() {
        check(r#"{"id":4,"result":{"content":[{"type":"text","text":"hello"}]}}"#, "right");
        check(r#"{"id":5,"result":{"content":[{"type":"text","text":"hello"}]}}"#, "wrong");
        check(r#"{"id":"4","result":{"content":[{"type":"text","text":"hello"}]}}"#, "wrong");
        check(r#"{"id":4,"result":{"content":[{"type":"text","text":"hallo"}]}}"#, "wrong");
        check(r#"{"id":4,"result":{"content":[]}}"#, "wrong");
        check(r#"{"id":4,"result":{"content":[{"text":"no"}],"isError":true}}"#, "failed");
        check(r#"{"id":4,"error":{"code":-32602,"message":"unknown tool"}}"#, "failed");
        check("<html>", "failed");
    }

    #[test]
    fn counts_tools_and_keeps_the_cursor() {
        let body = br#"{"id":2,"result":{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"n"}}"#;
        let page = check_list(body, 2).unwrap();
        assert_eq!(page, Page { tools: 2, next: Some("n".to_owned()) });
    }

    #[test]
    fn takes_the_last_event_of_a_stream() {
        let stream = b"id: 0\ndata:\n\nevent: message\ndata: {\"a\":1}\n\ndata: {\"b\":2}\n\n";
        assert_eq!(event_data(stream).unwrap(), b"{\"b\":2}");
        assert!(event_data(b": nothing\n\n").is_err());
    }
}
