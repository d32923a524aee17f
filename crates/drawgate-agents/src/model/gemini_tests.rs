#![expect(clippy::needless_pass_by_value, reason = "`json!` stands in the tables as it is")]

use serde_json::json;

use super::*;
use crate::model::ModelErrorKind;
use crate::model::codec_tests::{question, read, read_for, stream};

fn ended(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason}]})
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts}}]})
}

#[test]
fn reasons_to_stop() {
    for (reason, expected) in [
        ("STOP", Some(Stop::End)),
        ("MAX_TOKENS", Some(Stop::MaxOutput)),
        ("SAFETY", Some(Stop::Refused)),
        ("RECITATION", Some(Stop::Refused)),
        ("PROHIBITED_CONTENT", Some(Stop::Refused)),
        ("OTHER", Some(Stop::Other("OTHER".to_owned()))),
        ("MALFORMED_FUNCTION_CALL", None),
        ("UNEXPECTED_TOOL_CALL", None),
    ] {
        match (read(Api::Gemini, &stream(&[ended(reason)])), expected) {
            (Ok(reply), Some(expected)) => assert_eq!(reply.stop, expected),
            (Err(error), None) => assert_eq!(error.kind, ModelErrorKind::Malformed),
            (outcome, expected) => panic!("{reason}: {outcome:?}, not {expected:?}"),
        }
    }
}

#[test]
fn a_prompt_that_is_blocked_is_refused() {
    let event = json!({
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 5},
    });
    let reply = read(Api::Gemini, &stream(&[event])).unwrap();
    assert_eq!((reply.stop, reply.usage.input, reply.parts.len()), (Stop::Refused, 5, 0));
}

#[test]
fn ids_go_back_if_the_provider_gave_them() {
    let given = json!([{"functionCall": {"id": "f1", "name": "weather", "args": {}}}]);
    let none =
        json!([{"functionCall": {"name": "weather"}}, {"functionCall": {"name": "weather"}}]);
    for (calls, ids) in [(given, vec![Some("f1")]), (none, vec![None, None])] {
        let reply = read(Api::Gemini, &stream(&[parts(calls.clone()), ended("STOP")])).unwrap();
        assert_eq!(reply.stop, Stop::Calls);
        let results = reply.calls().map(|call| CallResult {
            id: call.id.clone(),
            name: call.name.clone(),
            text: "fine".to_owned(),
            is_error: false,
        });
        let results = Message::Results(results.collect());
        let mut turn = question();
        turn.messages.extend([Message::Model(reply), results]);
        let body = Gemini.request(&turn, "m");
        assert_eq!(body["contents"][1]["parts"], calls);
        let answers = body["contents"][2]["parts"].as_array().unwrap();
        let sent: Vec<_> = answers.iter().map(|a| a["functionResponse"]["id"].as_str()).collect();
        assert_eq!(sent, ids);
    }
}

#[test]
fn ids_that_were_made_up_are_unique_in_a_conversation() {
    let sent = stream(&[parts(json!([{"functionCall": {"name": "weather"}}])), ended("STOP")]);
    let mut turn = question();
    for expected in ["drawgate-call-0", "drawgate-call-1"] {
        let reply = read_for(Api::Gemini, &turn, &sent).unwrap();
        assert_eq!(reply.calls().next().unwrap().id, expected);
        turn.messages.push(Message::Model(reply));
    }
}

#[test]
fn only_plain_texts_are_joined() {
    let sent = json!([
        {"text": "a"}, {"text": "b"}, {"text": "c", "thoughtSignature": "s"}, {"text": "d"},
        {"text": "e", "thought": true}, {"text": "f"},
    ]);
    let reply = read(Api::Gemini, &stream(&[parts(sent), ended("STOP")])).unwrap();
    let expected = json!([
        {"text": "ab"}, {"text": "c", "thoughtSignature": "s"}, {"text": "d"},
        {"text": "e", "thought": true}, {"text": "f"},
    ]);
    assert_eq!(reply.raw["parts"], expected);
    assert_eq!(reply.text(), "abcdf");
}

#[test]
fn malformed_arguments_are_kept() {
    let sent = json!([{"functionCall": {"name": "weather", "args": "Paris"}}]);
    let reply = read(Api::Gemini, &stream(&[parts(sent), ended("STOP")])).unwrap();
    let arguments = &reply.calls().next().unwrap().arguments;
    assert_eq!(*arguments, Arguments::Malformed("\"Paris\"".to_owned()));
}

#[test]
fn known_members_of_another_kind_are_malformed() {
    for bad in [
        json!({"candidates": 1}),
        json!({"candidates": [{"finishReason": 1}]}),
        parts(json!(1)),
        parts(json!([{"text": 1}])),
        parts(json!([{"functionCall": {"args": {}}}])),
        json!({"usageMetadata": {"promptTokenCount": -1}}),
    ] {
        let error = read(Api::Gemini, &stream(&[bad.clone(), ended("STOP")])).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{bad}");
    }
}

#[test]
fn a_model_can_not_name_another_path() {
    let base = Url::parse("http://127.0.0.1:9/base/").unwrap();
    for (model, path) in [
        ("gemini-2.0-flash", "/base/v1beta/models/gemini-2.0-flash:streamGenerateContent"),
        ("../x?y#z", "/base/v1beta/models/..%2Fx%3Fy%23z:streamGenerateContent"),
    ] {
        let url = Gemini.turn_url(&base, model);
        assert_eq!((url.path(), url.query()), (path, Some("alt=sse")));
    }
}
