//! What all codecs must do, as one table over recorded streams.

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::codec::{Progress, codec};
use super::stream::ReplyStream;
use super::*;

/// A recorded stream of an API.
macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/models/", $name, ".sse"))
    };
}

struct Recorded {
    api: Api,
    /// Text alone.
    text: &'static str,
    /// Text, two calls and opaque parts.
    calls: &'static str,
    /// An error after the first text.
    error: &'static str,
    /// The opaque parts.
    opaque: &'static [&'static str],
}

const RECORDED: [Recorded; 4] = [
    Recorded {
        api: Api::Anthropic,
        text: recorded!("anthropic-text"),
        calls: recorded!("anthropic-calls"),
        error: recorded!("anthropic-error"),
        opaque: &["Two cities, two calls.", "EqQBCgIYAhIM1gbc==", "EmwKAhgBEgy3va3p"],
    },
    Recorded {
        api: Api::Openai,
        text: recorded!("responses-text"),
        calls: recorded!("responses-calls"),
        error: recorded!("responses-error"),
        opaque: &["gAAAAABo8vNk==", "rs_1"],
    },
    Recorded {
        api: Api::OpenaiChat,
        text: recorded!("chat-text"),
        calls: recorded!("chat-calls"),
        error: recorded!("chat-error"),
        opaque: &["EoYCCoMC=="],
    },
    Recorded {
        api: Api::Gemini,
        text: recorded!("gemini-text"),
        calls: recorded!("gemini-calls"),
        error: recorded!("gemini-error"),
        opaque: &["CiQB0e2Kb==", "CiQB1f3Lc==", "Two cities, two calls."],
    },
];

/// A conversation of one question.
pub(super) fn question() -> Turn {
    Turn {
        system: "Answer in one sentence.".to_owned(),
        messages: vec![Message::User("How is the weather in Paris and Rome?".to_owned())],
        tools: vec![ToolDefinition {
            name: "weather".to_owned(),
            description: "The weather of a city".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            }),
        }],
        max_output: 1000,
        temperature: None,
    }
}

/// Reads a stream that comes in pieces of this size, and what was shown meanwhile.
fn read_in(
    api: Api,
    turn: &Turn,
    stream: &[u8],
    piece: usize,
) -> (Result<Reply, ModelError>, String) {
    struct Shown(Mutex<String>);
    impl TurnSink for Shown {
        fn text(&self, delta: &str) {
            self.0.lock().push_str(delta);
        }
    }
    let shown = Shown(Mutex::default());
    let mut reading = ReplyStream::new(api, turn);
    for piece in stream.chunks(piece) {
        match reading.feed(piece, &shown) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => break,
            Err(error) => return (Err(error), shown.0.into_inner()),
        }
    }
    (reading.end(), shown.0.into_inner())
}

/// Reads the answer to a question.
pub(super) fn read(api: Api, stream: &str) -> Result<Reply, ModelError> {
    read_in(api, &question(), stream.as_bytes(), usize::MAX).0
}

/// Reads the answer to a turn.
pub(super) fn read_for(api: Api, turn: &Turn, stream: &str) -> Result<Reply, ModelError> {
    read_in(api, turn, stream.as_bytes(), usize::MAX).0
}

/// A stream of events with these data.
pub(super) fn stream(events: &[Value]) -> String {
    events.iter().map(|data| format!("data: {data}\n\n")).collect::<Vec<_>>().concat()
}

/// A call with an object as its arguments.
pub(super) fn call(id: &str, arguments: Value) -> Part {
    let Value::Object(arguments) = arguments else { panic!("not an object") };
    let arguments = Arguments::Object(arguments);
    Part::Call(ToolCall { id: id.to_owned(), name: "weather".to_owned(), arguments })
}

/// The question, a reply and the results of its calls.
fn continued(reply: &Reply) -> Turn {
    let results = reply.calls().enumerate().map(|(number, call)| CallResult {
        id: call.id.clone(),
        name: call.name.clone(),
        text: if number == 0 { "18 degrees".to_owned() } else { "no such city".to_owned() },
        is_error: number != 0,
    });
    let mut turn = question();
    turn.messages.push(Message::Model(reply.clone()));
    turn.messages.push(Message::Results(results.collect()));
    turn
}

#[test]
fn texts_are_read_in_every_chunking() {
    for Recorded { api, text, .. } in RECORDED {
        for piece in [1, 2, 3, 7, 64, usize::MAX] {
            let (reply, shown) = read_in(api, &question(), text.as_bytes(), piece);
            let reply = reply.unwrap();
            assert_eq!(reply.parts, [Part::Text("Grüße from the model.".to_owned())], "{api:?}");
            assert_eq!((reply.stop, reply.api), (Stop::End, api));
            assert_eq!(shown, "Grüße from the model.");
            assert!(!reply.usage.estimated);
        }
    }
}

#[test]
fn two_calls_are_read_beside_text_and_opaque_parts() {
    for Recorded { api, calls, .. } in RECORDED {
        let reply = read(api, calls).unwrap();
        let ids: Vec<_> = reply.calls().map(|call| call.id.as_str()).collect();
        let expected = match api {
            Api::Anthropic => ["toolu_01", "toolu_02"],
            Api::Openai | Api::OpenaiChat => ["call_a", "call_b"],
            Api::Gemini => ["drawgate-call-0", "drawgate-call-1"],
        };
        assert_eq!(ids, expected);
        let parts = [
            Part::Text("I look it up.".to_owned()),
            call(expected[0], json!({"city": "Paris"})),
            call(expected[1], json!({"city": "Rome", "days": 2})),
        ];
        assert_eq!((reply.parts.as_slice(), &reply.stop), (parts.as_slice(), &Stop::Calls));
        let output = if api == Api::Anthropic { 89 } else { 40 };
        let cache_write = if api == Api::Anthropic { 7 } else { 0 };
        let usage = Usage { input: 25, cache_read: 100, cache_write, output, estimated: false };
        assert_eq!(reply.usage, usage, "{api:?}");
    }
}

#[test]
fn opaque_parts_go_back_as_they_came_and_to_no_other_api() {
    for Recorded { api, calls, opaque, .. } in RECORDED {
        let reply = read(api, calls).unwrap();
        let turn = continued(&reply);
        let body = codec(api).request(&turn, "m");
        let text = body.to_string();
        for part in opaque {
            assert!(text.contains(part), "{api:?}: {part} is missing in {text}");
        }
        let raw = reply.raw.to_string();
        assert!(
            text.contains(raw.trim_matches(['[', ']'])) || contains(&body, &reply.raw),
            "{api:?}"
        );
        for other in Api::ALL.into_iter().filter(|other| *other != api) {
            let text = codec(other).request(&turn, "m").to_string();
            assert!(opaque.iter().all(|part| !text.contains(part)), "{api:?} to {other:?}: {text}");
            assert!(text.contains("18 degrees") && text.contains("I look it up."));
        }
        // What was stored goes back in the same way.
        let stored = serde_json::to_string(&turn.messages).unwrap();
        let messages = serde_json::from_str(&stored).unwrap();
        assert_eq!(codec(api).request(&Turn { messages, ..turn }, "m"), body);
    }
}

/// Whether a value is somewhere in another.
fn contains(outer: &Value, inner: &Value) -> bool {
    outer == inner
        || match outer {
            Value::Array(items) => items.iter().any(|item| contains(item, inner)),
            Value::Object(members) => members.values().any(|member| contains(member, inner)),
            _ => false,
        }
}

#[test]
fn requests() {
    for Recorded { api, calls, .. } in RECORDED {
        let reply = read(api, calls).unwrap();
        let mut turn = continued(&reply);
        turn.messages.push(Message::User("Go on.".to_owned()));
        turn.messages.push(Message::User("Please.".to_owned()));
        turn.temperature = Some(0.5);
        let name = format!("{}-request", api.as_str());
        insta::assert_json_snapshot!(name, codec(api).request(&turn, "some-model"));
    }
}

#[test]
fn a_conversation_may_change_its_provider() {
    let reply = read(Api::Gemini, recorded!("gemini-calls")).unwrap();
    let turn = continued(&reply);
    for api in [Api::Anthropic, Api::Openai, Api::OpenaiChat] {
        let name = format!("{}-request-after-gemini", api.as_str());
        insta::assert_json_snapshot!(name, codec(api).request(&turn, "some-model"));
    }
    let reply = read(Api::Anthropic, recorded!("anthropic-calls")).unwrap();
    let request = codec(Api::Gemini).request(&continued(&reply), "some-model");
    insta::assert_json_snapshot!("gemini-request-after-anthropic", request);
}

#[test]
fn what_is_empty_is_left_out() {
    let turn = Turn { system: String::new(), tools: Vec::new(), ..question() };
    for api in Api::ALL {
        let body = codec(api).request(&turn, "m");
        for absent in ["tools", "system", "instructions", "systemInstruction", "temperature"] {
            assert!(body.get(absent).is_none(), "{api:?}: {absent}");
        }
        assert!(!body.to_string().contains("\"system\""));
    }
}

#[test]
fn an_error_in_the_middle_is_reported() {
    for Recorded { api, error, .. } in RECORDED {
        let error = read(api, error).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unavailable, "{api:?}: {error}");
        assert!(error.began);
        let counted = error.usage.map(|usage| usage.input);
        assert_eq!(counted, (api == Api::Anthropic).then_some(25));
        let words = ["Overloaded", "failed to generate", "overloaded"];
        assert!(words.iter().any(|words| error.message.contains(words)), "{error}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_whole_or_an_error() {
    for Recorded { api, text, calls, .. } in RECORDED {
        for stream in [text, calls] {
            let whole = read(api, stream).unwrap();
            let mut whole_at = None;
            for end in 0..stream.len() {
                let cut = &stream.as_bytes()[..end];
                match read_in(api, &question(), cut, usize::MAX).0 {
                    Ok(reply) => {
                        assert_eq!((&reply.parts, &reply.stop), (&whole.parts, &whole.stop));
                        assert_eq!(reply.raw, whole.raw);
                        whole_at.get_or_insert(end);
                    }
                    Err(error) => {
                        assert_eq!(whole_at, None, "{api:?} at {end}: {error}");
                        let kinds = [ModelErrorKind::Broken, ModelErrorKind::Unreachable];
                        assert!(kinds.contains(&error.kind) && error.began, "{api:?}: {error:?}");
                    }
                }
            }
            let early = whole_at.map_or(0, |at| stream.len() - at);
            // Chat Completions say that the model has finished before they say what it cost.
            let allowed = if api == Api::OpenaiChat { 250 } else { 2 };
            assert!(early <= allowed, "{api:?}: whole {early} bytes before the end");
        }
    }
}

#[test]
fn a_stream_breaks_off_before_or_after_output() {
    for Recorded { api, text, .. } in RECORDED {
        assert_eq!(read(api, "").unwrap_err().kind, ModelErrorKind::Unreachable);
        let seen = text.find("Grüße").unwrap();
        let end = seen + text[seen..].find("\n\n").unwrap() + 2;
        assert_eq!(read(api, &text[..end]).unwrap_err().kind, ModelErrorKind::Broken, "{api:?}");
    }
}

#[test]
fn unknown_events_and_comments_are_ignored() {
    let noise = ": keep-alive\n\nevent: news\ndata: {\"type\":\"news\",\"news\":[1]}\n\nid: 7\n\n";
    for Recorded { api, calls, .. } in RECORDED {
        let disturbed = calls.replace("\n\n", &format!("\n\n{noise}"));
        assert_eq!(read(api, &disturbed), read(api, calls), "{api:?}");
    }
}

#[test]
fn nonsense_is_malformed() {
    for Recorded { api, text, .. } in RECORDED {
        for nonsense in ["data: {\n\n", "data: <html>\n\n", "data: {\"a\":1,\"a\":2}\n\n"] {
            let error = read(api, &format!("{nonsense}{text}")).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Malformed, "{api:?}: {error}");
            assert!(error.began);
        }
    }
}

#[test]
fn a_reply_is_bounded() {
    let line = format!("data: {{\"type\":\"news\",\"text\":\"{}\"}}\n\n", "x".repeat(1 << 20));
    for api in Api::ALL {
        let mut reading = ReplyStream::new(api, &question());
        let fed = (0..17).try_for_each(|_| reading.feed(line.as_bytes(), &()).map(|_| ()));
        assert_eq!(fed.unwrap_err().kind, ModelErrorKind::Malformed);
    }
}

#[test]
fn arguments() {
    for (text, expected) in [
        ("", Some(json!({}))),
        (" \n", Some(json!({}))),
        ("{\"a\":1}", Some(json!({"a": 1}))),
        ("[1]", None),
        ("{\"a\":", None),
        ("{\"a\":1,\"a\":2}", None),
        ("null", None),
    ] {
        match (Arguments::parse(text), expected) {
            (Arguments::Object(read), Some(expected)) => assert_eq!(Value::Object(read), expected),
            (Arguments::Malformed(kept), None) => assert_eq!(kept, text),
            (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
        }
    }
}
