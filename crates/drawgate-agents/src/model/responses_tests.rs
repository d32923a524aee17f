#![expect(clippy::needless_pass_by_value, reason = "`json!` stands in the tables as it is")]

use serde_json::json;

use super::*;
use crate::model::ModelErrorKind;
use crate::model::codec_tests::{call, read, stream};

fn done(item: &Value) -> Value {
    json!({"type": "response.output_item.done", "item": item})
}

fn ended(kind: &str, response: Value) -> Value {
    json!({"type": kind, "response": response})
}

#[test]
fn reasons_to_stop() {
    let incomplete = |reason: &str| {
        ended("response.incomplete", json!({"incomplete_details": {"reason": reason}}))
    };
    for (event, expected) in [
        (ended("response.completed", json!({})), Stop::End),
        (incomplete("max_output_tokens"), Stop::MaxOutput),
        (incomplete("content_filter"), Stop::Refused),
        (incomplete("bored"), Stop::Other("bored".to_owned())),
        (ended("response.incomplete", json!({})), Stop::Other("incomplete".to_owned())),
    ] {
        let reply = read(Api::Openai, &stream(&[event])).unwrap();
        assert_eq!(reply.stop, expected);
        assert!(reply.usage.estimated && reply.usage.input > 10);
    }
}

#[test]
fn a_refusal_is_text_that_is_marked() {
    let content = json!([{"type": "refusal", "refusal": "No."}]);
    let item = json!({"type": "message", "content": content});
    let events = [done(&item), ended("response.completed", json!({}))];
    let reply = read(Api::Openai, &stream(&events)).unwrap();
    assert_eq!((reply.text().as_str(), &reply.stop), ("No.", &Stop::Refused));
}

#[test]
fn items_may_come_at_the_end_alone() {
    let item = json!({
        "type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{\"city\":\"Bonn\"}",
    });
    let events = [ended("response.completed", json!({"output": [item]}))];
    let reply = read(Api::Openai, &stream(&events)).unwrap();
    assert_eq!(reply.parts, [call("call_1", json!({"city": "Bonn"}))]);
    assert_eq!(reply.raw, json!([item]));
}

#[test]
fn malformed_arguments_are_kept() {
    let item =
        json!({"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "[1"});
    let events = [done(&item), ended("response.completed", json!({}))];
    let reply = read(Api::Openai, &stream(&events)).unwrap();
    let arguments = &reply.calls().next().unwrap().arguments;
    assert_eq!(*arguments, Arguments::Malformed("[1".to_owned()));
}

#[test]
fn errors() {
    for (event, kind) in [
        (
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}),
            ModelErrorKind::RateLimited,
        ),
        (json!({"type": "error", "error": {"code": "insufficient_quota"}}), ModelErrorKind::Quota),
        (json!({"type": "error", "code": "context_length_exceeded"}), ModelErrorKind::Context),
        (
            ended("response.failed", json!({"error": {"code": "invalid_prompt"}})),
            ModelErrorKind::Rejected,
        ),
        (
            ended("response.failed", json!({"error": {"code": "vector_store_timeout"}})),
            ModelErrorKind::Broken,
        ),
        (ended("response.failed", json!({})), ModelErrorKind::Broken),
    ] {
        let error = read(Api::Openai, &stream(std::slice::from_ref(&event))).unwrap_err();
        assert_eq!(error.kind, kind, "{event}");
    }
}

#[test]
fn known_events_in_another_shape_are_malformed() {
    let completed = ended("response.completed", json!({}));
    for bad in [
        json!({"no": "type"}),
        json!({"type": "response.output_text.delta", "delta": 1}),
        json!({"type": "response.output_item.done", "item": 1}),
        json!({"type": "response.completed"}),
        ended("response.completed", json!({"usage": {"input_tokens": "many"}})),
        done(&json!({"type": "function_call", "call_id": "call_1"})),
        done(&json!({"type": "message", "content": [{"type": "output_text"}]})),
    ] {
        let error = read(Api::Openai, &stream(&[bad.clone(), completed.clone()])).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{bad}");
    }
}
