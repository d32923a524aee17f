//! `MCPToolCall` and `MCPToolResult`.

use drawgate_core::json;
use drawgate_core::model::ToolOutput;
use drawgate_core::source::{PermittedCall, SourceError};
use serde::Serialize;
use serde_json::{Map, Value};

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

/// What the tool made of it.
pub(super) fn result(bytes: &[u8]) -> Result<ToolOutput, SourceError> {
    let protocol =
        |reason: String| SourceError::Protocol(format!("the result can't be used: {reason}"));
    let Value::Object(mut result) =
        json::parse_lossy(bytes).map_err(|error| protocol(error.to_string()))?
    else {
        return Err(protocol("it is not an object".to_owned()));
    };
    let Some(Value::Bool(success)) = result.remove("success") else {
        return Err(protocol("`success` is missing; it must be `true` or `false`".to_owned()));
    };
    let error = result.remove("error").filter(|error| !error.is_null());
    match (success, error) {
        (true, Some(_)) => return Err(protocol("it has both success and an error".to_owned())),
        (false, Some(error)) => return Err(failure(error)),
        (true | false, None) => {}
    }
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
    Ok(ToolOutput { content, structured, is_error: !success, rest, ..ToolOutput::default() })
}

fn failure(mut error: Value) -> SourceError {
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
    SourceError::Failed {
        message,
        details: details.filter(|details| details.as_object().is_some_and(|map| !map.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
