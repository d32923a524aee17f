#![expect(clippy::needless_pass_by_value, reason = "`json!` stands in the tables as it is")]

use serde_json::json;

use super::*;
use crate::model::codec_tests::{call, question, read, read_for, stream};
use crate::model::{Arguments, ModelErrorKind};

fn chunk(delta: Value, reason: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
}

/// An answer of these pieces of calls, one an event.
fn pieces(pieces: &[Value], reason: &str) -> String {
    let mut events: Vec<_> =
        pieces.iter().map(|piece| chunk(json!({"tool_calls": [piece]}), None)).collect();
    events.push(chunk(json!({}), Some(reason)));
    stream(&events)
}

fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: Value) -> Value {
    let mut piece = json!({"function": {"arguments": arguments}});
    if let Some(index) = index {
        piece["index"] = json!(index);
    }
    if let Some(id) = id {
        piece["id"] = json!(id);
    }
    if let Some(name) = name {
        piece["function"]["name"] = json!(name);
    }
    piece
}

/// Reads the pieces of two calls, for Paris and Rome, as a server sends them.
#[track_caller]
fn check_pieces(what: &str, sent: &[Value], [first, second]: [&str; 2]) {
    for reason in ["tool_calls", "stop"] {
        let reply = read(Api::OpenaiChat, &pieces(sent, reason)).unwrap();
        let expected =
            [call(first, json!({"city": "Paris"})), call(second, json!({"city": "Rome"}))];
        assert_eq!(reply.parts, expected, "{what}");
        assert_eq!(reply.stop, Stop::Calls, "{what}");
    }
}

fn paris() -> Value {
    json!("{\"city\":\"Paris\"}")
}

fn rome() -> Value {
    json!("{\"city\":\"Rome\"}")
}

#[test]
fn numbered_pieces_find_their_calls() {
    let name = Some("weather");
    for (what, sent, ids) in [
        (
            "numbered, pieces in turn",
            vec![
                piece(Some(0), Some("a"), name, json!("")),
                piece(Some(1), Some("b"), name, json!("")),
                piece(Some(0), None, None, json!("{\"city\":")),
                piece(Some(1), None, None, json!("{\"city\":\"Rome\"")),
                piece(Some(0), None, None, json!("\"Paris\"}")),
                piece(Some(1), None, None, json!("}")),
            ],
            ["a", "b"],
        ),
        (
            "all numbered 0",
            vec![piece(Some(0), Some("a"), name, paris()), piece(Some(0), Some("b"), name, rome())],
            ["a", "b"],
        ),
        (
            "all numbered 0, without ids",
            vec![piece(Some(0), None, name, paris()), piece(Some(0), None, name, rome())],
            ["drawgate-call-0", "drawgate-call-1"],
        ),
    ] {
        check_pieces(what, &sent, ids);
    }
}

#[test]
fn pieces_without_numbers_find_their_calls() {
    let name = Some("weather");
    for (what, sent, ids) in [
        (
            "without numbers",
            vec![
                piece(None, Some("a"), name, json!("{\"city\":")),
                piece(None, Some("a"), None, json!("\"Paris\"}")),
                piece(None, Some("b"), name, rome()),
            ],
            ["a", "b"],
        ),
        (
            "without numbers and ids",
            vec![
                piece(None, None, name, json!("{\"city\":")),
                piece(None, None, None, json!("\"Paris\"}")),
                piece(None, None, name, rome()),
            ],
            ["drawgate-call-0", "drawgate-call-1"],
        ),
    ] {
        check_pieces(what, &sent, ids);
    }
}

#[test]
fn pieces_of_odd_servers_find_their_calls() {
    let name = Some("weather");
    for (what, sent, ids) in [
        (
            "names repeated in each piece",
            vec![
                piece(Some(0), Some("a"), name, json!("{\"city\":")),
                piece(Some(0), Some(""), name, json!("\"Paris\"}")),
                piece(Some(1), Some("b"), name, json!("{\"city\"")),
                piece(Some(1), Some("b"), name, json!(":\"Rome\"}")),
            ],
            ["a", "b"],
        ),
        (
            "arguments as objects",
            vec![
                piece(Some(0), Some("a"), name, json!({"city": "Paris"})),
                piece(Some(1), Some("b"), name, json!({"city": "Rome"})),
            ],
            ["a", "b"],
        ),
        (
            "one id for all calls",
            vec![piece(Some(0), Some("a"), name, paris()), piece(Some(1), Some("a"), name, rome())],
            ["a", "drawgate-call-1"],
        ),
    ] {
        check_pieces(what, &sent, ids);
    }
}

#[test]
fn ids_are_unique_in_a_conversation() {
    let sent = pieces(&[piece(Some(0), Some("a"), Some("weather"), json!("{}"))], "tool_calls");
    let unnamed = pieces(&[piece(Some(0), None, Some("weather"), json!("{}"))], "tool_calls");
    let mut turn = question();
    let mut ids = Vec::new();
    for stream in [&sent, &sent, &unnamed, &unnamed, &sent] {
        let reply = read_for(Api::OpenaiChat, &turn, stream).unwrap();
        ids.extend(reply.calls().map(|call| call.id.clone()));
        // The id that goes back is the one that the result names.
        assert_eq!(reply.raw["tool_calls"][0]["id"], json!(ids.last()));
        turn.messages.push(Message::Model(reply));
    }
    assert_eq!(
        ids,
        ["a", "drawgate-call-1", "drawgate-call-2", "drawgate-call-3", "drawgate-call-4"]
    );
}

#[test]
fn malformed_arguments_are_kept_for_the_agent_and_not_sent_back() {
    let sent = [piece(Some(0), Some("a"), Some("weather"), json!("{\"city\": Par"))];
    let reply = read(Api::OpenaiChat, &pieces(&sent, "length")).unwrap();
    let arguments = &reply.calls().next().unwrap().arguments;
    assert_eq!(*arguments, Arguments::Malformed("{\"city\": Par".to_owned()));
    assert_eq!(reply.stop, Stop::MaxOutput);
    assert_eq!(reply.raw["tool_calls"][0]["function"]["arguments"], "{}");
}

#[test]
fn usage_that_is_not_told_is_estimated() {
    let events = [chunk(json!({"content": "12345678"}), None), chunk(json!({}), Some("stop"))];
    let reply = read(Api::OpenaiChat, &stream(&events)).unwrap();
    assert!(reply.usage.estimated);
    assert_eq!(reply.usage.output, 2);
    assert_eq!(reply.usage.input, crate::model::estimate::input_tokens(&question()));
}

#[test]
fn other_forms_of_text() {
    for (delta, expected, stop) in [
        (json!({"content": [{"type": "text", "text": "Hi"}]}), "Hi", Stop::End),
        (json!({"content": null, "reasoning_content": "Hm"}), "", Stop::End),
        (json!({"refusal": "No."}), "No.", Stop::Refused),
    ] {
        let events = [chunk(delta, None), chunk(json!({}), Some("stop"))];
        let reply = read(Api::OpenaiChat, &stream(&events)).unwrap();
        assert_eq!((reply.text().as_str(), &reply.stop), (expected, &stop));
    }
}

#[test]
fn reasons_to_stop() {
    for (reason, expected) in [
        ("stop", Stop::End),
        ("tool_calls", Stop::End),
        ("length", Stop::MaxOutput),
        ("content_filter", Stop::Refused),
        ("eos", Stop::Other("eos".to_owned())),
    ] {
        let reply = read(Api::OpenaiChat, &stream(&[chunk(json!({}), Some(reason))])).unwrap();
        assert_eq!(reply.stop, expected);
    }
}

#[test]
fn other_choices_are_ignored() {
    let other =
        json!({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]});
    let events = [other, chunk(json!({"content": "yes"}), Some("stop"))];
    assert_eq!(read(Api::OpenaiChat, &stream(&events)).unwrap().text(), "yes");
}

#[test]
fn known_members_of_another_kind_are_malformed() {
    let end = chunk(json!({}), Some("stop"));
    for bad in [
        json!({"choices": 1}),
        chunk(json!({"content": 1}), None),
        chunk(json!({"tool_calls": 1}), None),
        chunk(json!({"tool_calls": [1]}), None),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}), None),
        json!({"choices": [], "usage": {"prompt_tokens": "many"}}),
    ] {
        let error = read(Api::OpenaiChat, &stream(&[bad.clone(), end.clone()])).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{bad}");
    }
    let flood: Vec<_> =
        (0..1001).map(|n| piece(Some(n), None, Some("weather"), json!(""))).collect();
    let error = read(Api::OpenaiChat, &pieces(&flood, "stop")).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}
