use serde_json::json;

use super::*;
use crate::model::ModelErrorKind;
use crate::model::codec_tests::{question, read, stream};

/// An answer with these content blocks, each with its deltas.
fn answer(blocks: &[(Value, &[Value])], reason: &str) -> String {
    let mut events =
        vec![json!({"type": "message_start", "message": {"usage": {"input_tokens": 9}}})];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            deltas.iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 3},
    }));
    events.push(json!({"type": "message_stop"}));
    stream(&events)
}

#[test]
fn reasons_to_stop() {
    for (reason, expected) in [
        ("end_turn", Stop::End),
        ("stop_sequence", Stop::End),
        ("max_tokens", Stop::MaxOutput),
        ("pause_turn", Stop::Paused),
        ("refusal", Stop::Refused),
        ("model_context_window_exceeded", Stop::Context),
        // There is no call.
        ("tool_use", Stop::End),
        ("bored", Stop::Other("bored".to_owned())),
    ] {
        let reply = read(Api::Anthropic, &answer(&[], reason)).unwrap();
        assert_eq!(reply.stop, expected);
        assert_eq!(reply.usage, Usage { input: 9, output: 3, ..Usage::default() });
    }
}

#[test]
fn malformed_arguments_are_kept_for_the_agent_and_not_sent_back() {
    let tool = json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": "{\"city\": \"Par"});
    let reply = read(Api::Anthropic, &answer(&[(tool, &[delta])], "max_tokens")).unwrap();
    let call = reply.calls().next().unwrap();
    assert_eq!(call.arguments, Arguments::Malformed("{\"city\": \"Par".to_owned()));
    assert_eq!(reply.stop, Stop::MaxOutput);
    assert_eq!(reply.raw[0]["input"], json!({}));
}

#[test]
fn arguments_may_come_whole_or_not_at_all() {
    for (input, expected) in
        [(json!({}), json!({})), (json!({"city": "Bonn"}), json!({"city": "Bonn"}))]
    {
        let tool = json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": input});
        let reply = read(Api::Anthropic, &answer(&[(tool, &[])], "tool_use")).unwrap();
        assert_eq!(reply.raw[0]["input"], expected);
        assert_eq!(Value::Object(reply.calls().next().unwrap().arguments.to_object()), expected);
    }
}

#[test]
fn citations_and_unknown_blocks_are_kept_and_empty_text_is_not() {
    let citation = json!({"type": "citations_delta", "citation": {"url": "https://a.example/"}});
    let text = json!({"type": "text_delta", "text": "Cited."});
    let search =
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let blocks: [(Value, &[Value]); 3] = [
        (search.clone(), &[]),
        (json!({"type": "text", "text": ""}), &[citation, text]),
        (json!({"type": "text", "text": ""}), &[]),
    ];
    let reply = read(Api::Anthropic, &answer(&blocks, "end_turn")).unwrap();
    let cited =
        json!({"type": "text", "text": "Cited.", "citations": [{"url": "https://a.example/"}]});
    assert_eq!(reply.raw, json!([search, cited]));
    assert_eq!(reply.parts, [Part::Text("Cited.".to_owned())]);
}

#[test]
fn known_events_in_another_shape_are_malformed() {
    let start =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}});
    for bad in [
        json!({"no": "type"}),
        json!({"type": "message_start"}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text"}}),
        json!({"type": "content_block_start", "index": 0}),
        json!({"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 1}}),
        json!({"type": "message_delta", "usage": {"output_tokens": -1}, "delta": {}}),
        json!({"type": "message_delta", "delta": {"stop_reason": 5}}),
    ] {
        let first =
            if bad["index"] == 0 && bad["delta"].is_object() { Some(start.clone()) } else { None };
        let events: Vec<_> = first.into_iter().chain([bad]).collect();
        let error = read(Api::Anthropic, &stream(&events)).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{events:?}");
    }
    let nameless = json!({"type": "tool_use", "id": "toolu_1", "input": {}});
    let error = read(Api::Anthropic, &answer(&[(nameless, &[])], "tool_use")).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}

#[test]
fn roles_alternate_even_around_an_empty_reply() {
    let empty = read(Api::Anthropic, &answer(&[], "end_turn")).unwrap();
    let mut turn = question();
    turn.messages.push(Message::Model(empty));
    turn.messages.push(Message::User("Hello?".to_owned()));
    let body = Anthropic.request(&turn, "m");
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["user"]);
}

#[test]
fn what_the_next_request_begins_with_is_cached() {
    let result = CallResult {
        id: "toolu_1".to_owned(),
        name: "weather".to_owned(),
        text: "sunny".to_owned(),
        is_error: false,
    };
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}});
    let mut turn = question();
    turn.messages
        .push(Message::Model(read(Api::Anthropic, &answer(&[(call, &[])], "tool_use")).unwrap()));
    turn.messages.push(Message::Results(vec![result.clone(), result]));
    let mark = json!({"type": "ephemeral"});
    let marked = |body: &Value| -> Vec<String> {
        let places = [
            "/system/0",
            "/tools/0",
            "/messages/0/content/0",
            "/messages/1/content/0",
            "/messages/2/content/0",
            "/messages/2/content/1",
        ];
        let is_marked =
            |place: &&str| body.pointer(place).is_some_and(|at| at["cache_control"] == mark);
        places.into_iter().filter(is_marked).map(str::to_owned).collect()
    };
    let body = Anthropic.request(&turn, "m");
    assert_eq!(marked(&body), ["/system/0", "/messages/0/content/0", "/messages/2/content/1"]);
    turn.system.clear();
    let body = Anthropic.request(&turn, "m");
    assert!(body.get("system").is_none());
    assert_eq!(marked(&body)[0], "/tools/0");
}

#[test]
fn ids_of_other_providers_are_made_legal() {
    for (id, expected) in [("call:1/ü", "call_1__"), ("toolu_01-A", "toolu_01-A")] {
        assert_eq!(legal_id(id), expected);
    }
}
