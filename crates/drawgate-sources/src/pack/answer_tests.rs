use serde_json::json;

use super::*;

fn text_of(output: &ToolOutput) -> &str {
    output.content.first().and_then(|block| block["text"].as_str()).unwrap_or_default()
}

#[test]
fn a_string_is_text_and_anything_else_is_structured() {
    let rows = [
        (r#""hello""#, None, "hello"),
        (r#"{"a":1}"#, Some(json!({ "a": 1 })), r#"{"a":1}"#),
        ("{ \"a\" : 1 }\n", Some(json!({ "a": 1 })), r#"{"a":1}"#),
        (r#"{"a":"b c"}"#, Some(json!({ "a": "b c" })), r#"{"a":"b c"}"#),
        ("[1, 2]", Some(json!([1, 2])), "[1,2]"),
        ("7", Some(json!(7)), "7"),
        ("null", Some(Value::Null), "null"),
    ];
    for (written, structured, text) in rows {
        let output = read(Some(Answer::OutputJson(written.to_owned()))).unwrap();
        assert_eq!(output.structured, structured, "{written}");
        assert_eq!(text_of(&output), text, "{written}");
        assert!(!output.is_error);
    }
}

#[test]
fn an_error_is_passed_on_as_written() {
    let output = read(Some(Answer::Error("No such file: ./x\n".to_owned()))).unwrap();
    assert_eq!((text_of(&output), output.is_error), ("No such file: ./x\n", true));
}

#[test]
fn an_mcp_result_is_passed_on_as_it_is() {
    let written = json!({
        "content": [{ "type": "image", "data": "AA==", "mimeType": "image/png", "x": 1 }],
        "structuredContent": { "n": 1 },
        "isError": true,
        "_meta": { "k": "v" },
    });
    let output = read(Some(Answer::McpResultJson(written.to_string()))).unwrap();
    assert_eq!(Value::from(output.content), written["content"]);
    assert_eq!(output.structured.as_ref(), Some(&written["structuredContent"]));
    assert_eq!(output.rest["_meta"], written["_meta"]);
    assert!(output.is_error);
}

#[test]
fn what_is_no_answer_is_a_protocol_error() {
    let output = |text: &str| Some(Answer::OutputJson(text.to_owned()));
    let result = |text: &str| Some(Answer::McpResultJson(text.to_owned()));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let rows = [
        None,
        output(""),
        output("{"),
        output("NaN"),
        output("1 2"),
        output(r#"{"a":1,"a":2}"#),
        output(&deep),
        result("[]"),
        result("{}"),
        result(r#"{"content":"text"}"#),
        result(r#"{"content":["text"]}"#),
        result(r#"{"content":[],"isError":"yes"}"#),
    ];
    for answer in rows {
        let error = read(answer.clone()).err();
        assert!(matches!(error, Some(SourceError::Protocol(_))), "{answer:?}");
    }
}
