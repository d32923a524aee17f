//! `MCPToolCall` and `MCPToolResult`.

use drawgate_core::json;
use drawgate_core::model::ToolOutput;
use drawgate_core::source::{PermittedCall, SourceError};
use serde::Serialize;
use serde_json::{Map, Value};

use super::exchange::Reply;

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a Map<String, Value>,
}

/// The call as JSON, on one line.
pub(super) fn call(call: &PermittedCall) -> Result<Vec<u8>, SourceError> {
    let call = Call { id: call.call_id(), name: call.tool(), arguments: call.arguments() };
    serde_json::to_vec(&call)
        .map_err(|error| SourceError::Protocol(format!("the call can't be written: {error}")))
}

/// What the tool made of it. A failing tool may say so with an HTTP status and still send a result; one that comes with
/// such a status is never a success.
pub(super) fn result(reply: &Reply) -> Result<ToolOutput, SourceError> {
    match (read(&reply.body), reply.refusal()) {
        (read, None) => read,
        (Ok(output), Some(refusal)) if !output.is_error => Ok(failed(&refusal, None, output)),
        (Ok(output), Some(_)) => Ok(output),
        (Err(SourceError::Protocol(_)), Some(refusal)) => Err(SourceError::lost(refusal)),
        (Err(error), Some(_)) => Err(error),
    }
}

fn read(bytes: &[u8]) -> Result<ToolOutput, SourceError> {
    let protocol =
        |reason: String| SourceError::Protocol(format!("the result can't be used: {reason}"));
    let Value::Object(mut result) =
        json::parse_lossy(bytes).map_err(|error| protocol(error.about(bytes)))?
    else {
        return Err(protocol("it is not an object".to_owned()));
    };
    let Some(Value::Bool(success)) = result.remove("success") else {
        return Err(protocol("`success` is missing; it must be `true` or `false`".to_owned()));
    };
    let content = match result.remove("content") {
        Some(Value::Array(content)) => content,
        None => Vec::new(),
        Some(_) => return Err(protocol("`content` is not a list".to_owned())),
    };
    let structured = result.remove("structuredContent");
    let rest = result
        .remove("meta")
        .map(|meta| Map::from_iter([("_meta".to_owned(), meta)]))
        .unwrap_or_default();
    let error = result.remove("error").filter(|error| !error.is_null());
    let is_error = !success;
    let output = ToolOutput { content, structured, is_error, rest, ..ToolOutput::default() };
    match (success, error) {
        (true, Some(_)) => Err(protocol("it has both success and an error".to_owned())),
        (false, Some(error)) => {
            let (message, details) = failure(error);
            if output.content.is_empty() && output.structured.is_none() {
                return Err(SourceError::Failed { message, details });
            }
            Ok(failed(&message, details, output))
        }
        (true | false, None) => Ok(output),
    }
}

/// A failure that keeps what the tool returned: why it failed comes first, for people and models; what else the error has
/// is for programs.
fn failed(message: &str, details: Option<Value>, mut output: ToolOutput) -> ToolOutput {
    let is_said = output.content.first().is_some_and(|block| block["text"] == message);
    if !is_said {
        output.content.insert(0, serde_json::json!({ "type": "text", "text": message }));
    }
    if let (None, Some(details)) = (&output.structured, details) {
        output.structured = Some(serde_json::json!({ "error": details }));
    }
    ToolOutput { is_error: true, ..output }
}

/// The message of an error, and what else it has.
fn failure(mut error: Value) -> (String, Option<Value>) {
    let message = match &error {
        Value::String(message) => message.clone(),
        other => other
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or("the tool failed without a message")
            .to_owned(),
    };
    let details = error.as_object_mut().map(|error| {
        error.remove("message");
        Value::Object(std::mem::take(error))
    });
    (message, details.filter(|details| details.as_object().is_some_and(|map| !map.is_empty())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(body: &'static [u8]) -> Result<ToolOutput, SourceError> {
        super::result(&Reply { body: body.into(), refused: None })
    }

    /// What comes with an error status is no success, and keeps what it says.
    #[test]
    fn the_status_of_an_answer_counts() {
        let refused = |body: &'static str| {
            super::result(&Reply { body: body.as_bytes().into(), refused: Some(500) })
        };
        let claimed =
            refused(r#"{"success":true,"content":[{"type":"text","text":"half"}]}"#).unwrap();
        assert!(claimed.is_error);
        let texts: Vec<&Value> = claimed.content.iter().map(|block| &block["text"]).collect();
        assert_eq!(texts, ["the address answered with HTTP 500", "half"]);
        let own = refused(r#"{"success":false,"content":[{"type":"text","text":"no"}]}"#).unwrap();
        assert_eq!((own.is_error, &own.content[0]["text"]), (true, &json!("no")));
        for other in ["", "<html>", "{}", r#"{"detail":"gone"}"#] {
            let error = refused(other).unwrap_err();
            assert!(matches!(error, SourceError::Unavailable { .. }), "{other}: {error:?}");
            assert!(error.to_string().contains("HTTP 500"), "{error}");
        }
    }

    #[test]
    fn a_failure_keeps_its_content() {
        let failed = result(
            br#"{"success":false,"content":[{"type":"text","text":"so far"}],"error":{"code":"NOPE","message":"no"}}"#,
        )
        .unwrap();
        assert!(failed.is_error);
        let texts: Vec<&Value> = failed.content.iter().map(|block| &block["text"]).collect();
        assert_eq!(texts, ["no", "so far"]);
        assert_eq!(failed.structured, Some(json!({ "error": { "code": "NOPE" } })));
    }

    #[test]
    fn success_and_failure_are_told_apart() {
        let good = result(
            br#"{"success":true,"content":[{"type":"text","text":"hi"}],"meta":{"durationMs":3}}"#,
        )
        .unwrap();
        assert_eq!(good.content, [json!({ "type": "text", "text": "hi" })]);
        assert_eq!(good.rest["_meta"], json!({ "durationMs": 3 }));
        let quiet =
            result(br#"{"success":false,"content":[{"type":"text","text":"no"}]}"#).unwrap();
        assert!(quiet.is_error);
        let failed =
            result(br#"{"success":false,"error":{"code":"NOPE","message":"no","details":[1]}}"#)
                .unwrap_err();
        let SourceError::Failed { message, details } = failed else { panic!("{failed:?}") };
        assert_eq!(
            (message.as_str(), details),
            ("no", Some(json!({ "code": "NOPE", "details": [1] })))
        );
    }

    #[test]
    fn a_program_that_prints_something_else_is_told_so() {
        let error = result(b"hello\n").unwrap_err().to_string();
        let expected = "the result can't be used: it is not JSON; it begins with `hello`";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn what_is_not_a_result_is_refused() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"success":1}"#,
            r#"{"success":true,"content":{}}"#,
            r#"{"success":true,"error":{}}"#,
            r#"{"success":true,"success":false}"#,
            r#"{"success":true} x"#,
        ] {
            assert!(matches!(result(bad.as_bytes()), Err(SourceError::Protocol(_))), "{bad}");
        }
    }
}
