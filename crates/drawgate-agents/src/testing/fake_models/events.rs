//! Answers in the streaming form of each API.

use serde_json::{Map, Value, json};

use super::asked::{Asked, Form};
use super::cache::Cached;
use super::rules::{Answer, Call, Page};
use crate::model::estimate::{chars, json_chars, tokens};
use crate::model::{Api, Usage};

/// Characters in one event: small, so that readers meet texts in pieces.
const PIECE: usize = 12;

/// An answer, ready to be sent.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) pieces: Vec<String>,
    pub(super) usage: Usage,
    pub(super) is_stream: bool,
    /// Whether the connection ends after the pieces.
    pub(super) is_cut: bool,
}

/// What an answer says, whatever the API.
#[derive(Default)]
struct Content {
    text: String,
    calls: Vec<(String, Call)>,
    pages: Vec<Page>,
    is_full: bool,
}

pub(super) fn write(asked: &Asked, answer: &Answer, cached: Cached) -> Written {
    match answer {
        Answer::Raw(pieces) => {
            Written { pieces: pieces.clone(), is_stream: true, ..Written::default() }
        }
        Answer::DropAfter { bytes, reply } => cut(write(asked, reply, cached), *bytes),
        Answer::Text(_) | Answer::Calls(_) | Answer::Search(_) => compose(asked, answer, cached),
        Answer::Status { .. } | Answer::Held { .. } | Answer::Hang => Written::default(),
    }
}

fn cut(written: Written, bytes: usize) -> Written {
    let mut left = bytes;
    let mut pieces = Vec::new();
    for mut piece in written.pieces {
        let mut end = left.min(piece.len());
        while !piece.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        left = left.saturating_sub(piece.len());
        piece.truncate(end);
        pieces.push(piece);
    }
    pieces.retain(|piece| !piece.is_empty());
    Written { pieces, is_cut: true, ..written }
}

fn compose(asked: &Asked, answer: &Answer, cached: Cached) -> Written {
    let content = content(asked, answer);
    let of_calls = content
        .calls
        .iter()
        .map(|(_, call)| chars(&call.name).saturating_add(json_chars(&call.arguments)));
    let output = tokens(chars(&content.text).saturating_add(of_calls.sum()));
    let Cached { read: cache_read, written: cache_write } = cached;
    let input = asked.input.saturating_sub(cache_read).saturating_sub(cache_write);
    let usage = Usage { input, cache_read, cache_write, output, ..Usage::default() };
    let events = match asked.api {
        Api::Anthropic => anthropic(asked, &content, usage),
        Api::Openai => responses(asked, &content, usage),
        Api::OpenaiChat => chat(asked, &content, usage),
        Api::Gemini => gemini(&content, usage),
    };
    let is_stream = asked.form == Form::Stream;
    let pieces = match (asked.form, asked.api) {
        (Form::Stream, Api::Anthropic | Api::Openai) => events.iter().map(named_event).collect(),
        (Form::Stream, Api::Gemini) => events.iter().map(event).collect(),
        (Form::Stream, Api::OpenaiChat) => {
            events.iter().map(event).chain(["data: [DONE]\n\n".to_owned()]).collect()
        }
        (Form::Whole, Api::Gemini) => vec![whole(&content, usage).to_string()],
        (Form::Whole, Api::Anthropic) => vec![whole_message(asked, &content, usage).to_string()],
        // Its last event has all that came before.
        (Form::Whole, Api::Openai) => {
            events.last().map(|last| last["response"].to_string()).into_iter().collect()
        }
        (Form::Whole, Api::OpenaiChat) => vec![whole_completion(&content, usage).to_string()],
    };
    Written { pieces, usage, is_stream, is_cut: false }
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn named_event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// Text beyond the limit of the request is not written.
fn content(asked: &Asked, answer: &Answer) -> Content {
    match answer {
        Answer::Text(text) => {
            let most = usize::try_from(asked.max_output.saturating_mul(4)).unwrap_or(usize::MAX);
            let kept: String = text.chars().take(most).collect();
            let is_full = kept.len() < text.len();
            Content { text: kept, is_full, ..Content::default() }
        }
        Answer::Calls(calls) => {
            let id = |number: usize| format!("call_{}_{number}", asked.turn);
            let calls = calls.iter().enumerate().map(|(number, call)| (id(number), call.clone()));
            Content { calls: calls.collect(), ..Content::default() }
        }
        Answer::Search(pages) => {
            let text = pages.iter().map(|page| page.snippet.as_str()).collect();
            Content { text, pages: pages.clone(), ..Content::default() }
        }
        Answer::Raw(_)
        | Answer::DropAfter { .. }
        | Answer::Status { .. }
        | Answer::Held { .. }
        | Answer::Hang => Content::default(),
    }
}

/// A text in pieces of a few characters.
fn split(text: &str) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
}

fn arguments(call: &Call) -> String {
    Value::Object(call.arguments.clone()).to_string()
}

fn anthropic(asked: &Asked, content: &Content, usage: Usage) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {
            "id": "msg_fake", "type": "message", "role": "assistant", "model": asked.model,
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": anthropic_usage(Usage { output: 1, ..usage }),
        }}),
        json!({"type": "ping"}),
    ];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !content.text.is_empty() {
        let delta = |text| json!({"type": "text_delta", "text": text});
        let deltas = split(&content.text).into_iter().map(delta).collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for (id, call) in &content.calls {
        let delta = |json| json!({"type": "input_json_delta", "partial_json": json});
        let deltas = split(&arguments(call)).into_iter().map(delta).collect();
        block(json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}), deltas);
    }
    let stop = content.stop("end_turn", "tool_use", "max_tokens");
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": usage.output},
    }));
    events.push(json!({"type": "message_stop"}));
    events
}

fn anthropic_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.output,
    })
}

fn responses(asked: &Asked, content: &Content, usage: Usage) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_fake", "status": "in_progress"}}),
    ];
    let mut output = Vec::new();
    if !content.text.is_empty() {
        let item = json!({
            "type": "message", "id": "msg_fake", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": content.text, "annotations": []}],
        });
        let added =
            json!({"type": "message", "id": "msg_fake", "role": "assistant", "content": []});
        events
            .push(json!({"type": "response.output_item.added", "output_index": 0, "item": added}));
        events.extend(split(&content.text).into_iter().map(|delta| {
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": delta})
        }));
        output.push(item);
    }
    for (id, call) in &content.calls {
        let mut item = json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": id,
            "name": call.name, "arguments": arguments(call), "status": "completed",
        });
        let own = asked.groups.iter().find_map(|group| {
            let name = call.name.strip_prefix(group.as_str())?.strip_prefix("__")?;
            Some((group, name))
        });
        if let Some((group, name)) = own {
            item["namespace"] = group.as_str().into();
            item["name"] = name.into();
        }
        output.push(item);
    }
    events.extend(output.iter().enumerate().map(|(index, item)| {
        json!({"type": "response.output_item.done", "output_index": index, "item": item})
    }));
    let mut response = json!({
        "id": "resp_fake",
        "status": "completed",
        "output": output,
        "usage": {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "total_tokens": usage.input.saturating_add(usage.output),
        },
    });
    let mut kind = "response.completed";
    if let (true, Some(members)) = (content.is_full, response.as_object_mut()) {
        kind = "response.incomplete";
        members.insert("incomplete_details".into(), json!({"reason": "max_output_tokens"}));
    }
    events.push(json!({"type": kind, "response": response}));
    events
}

/// An answer of the Messages API that is no stream.
fn whole_message(asked: &Asked, content: &Content, usage: Usage) -> Value {
    let text = json!({"type": "text", "text": content.text});
    let calls = content.calls.iter().map(|(id, call)| {
        json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments})
    });
    json!({
        "id": "msg_fake", "type": "message", "role": "assistant", "model": asked.model,
        "content": std::iter::once(text).chain(calls).collect::<Vec<_>>(),
        "stop_reason": content.stop("end_turn", "tool_use", "max_tokens"),
        "usage": anthropic_usage(usage),
    })
}

/// One of Chat Completions.
fn whole_completion(content: &Content, usage: Usage) -> Value {
    let calls = content.calls.iter().map(|(id, call)| {
        let function = json!({"name": call.name, "arguments": arguments(call)});
        json!({"id": id, "type": "function", "function": function})
    });
    let calls: Vec<Value> = calls.collect();
    let message = json!({"role": "assistant", "content": content.text, "tool_calls": calls});
    let reason = content.stop("stop", "tool_calls", "length");
    json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": usage.input, "completion_tokens": usage.output},
    })
}

fn chat(asked: &Asked, content: &Content, usage: Usage) -> Vec<Value> {
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let model = &asked.model;
        json!({"object": "chat.completion.chunk", "model": model, "choices": [choice]})
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    for piece in split(&content.text) {
        events.push(chunk(json!({"content": piece}), Value::Null));
    }
    for (index, (id, call)) in content.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let start = json!({"index": index, "id": id, "type": "function", "function": function});
        events.push(chunk(json!({"tool_calls": [start]}), Value::Null));
        for piece in split(&arguments(call)) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            events.push(chunk(json!({"tool_calls": [more]}), Value::Null));
        }
    }
    events.push(chunk(json!({}), json!(content.stop("stop", "tool_calls", "length"))));
    let counted = json!({"prompt_tokens": usage.input, "completion_tokens": usage.output});
    events.push(json!({"object": "chat.completion.chunk", "choices": [], "usage": counted}));
    events
}

fn gemini(content: &Content, usage: Usage) -> Vec<Value> {
    let texts = split(&content.text).into_iter().map(|text| json!([{"text": text}]));
    let calls: Vec<_> = content
        .calls
        .iter()
        .map(|(_, call)| json!({"functionCall": {"name": call.name, "args": call.arguments}}))
        .collect();
    let calls = (!calls.is_empty()).then(|| Value::Array(calls));
    let mut events: Vec<_> = texts
        .chain(calls)
        .map(|parts| json!({"candidates": [{"content": {"role": "model", "parts": parts}}]}))
        .collect();
    let stop = content.stop("STOP", "STOP", "MAX_TOKENS");
    events.push(json!({
        "candidates": [{"content": {"role": "model", "parts": []}, "finishReason": stop}],
        "usageMetadata": gemini_usage(usage),
    }));
    events
}

fn gemini_usage(usage: Usage) -> Value {
    json!({"promptTokenCount": usage.input, "candidatesTokenCount": usage.output})
}

/// The whole answer of `generateContent`.
fn whole(content: &Content, usage: Usage) -> Value {
    let chunks =
        content.pages.iter().map(|page| json!({"web": {"uri": page.url, "title": page.title}}));
    let supports = content.pages.iter().enumerate().map(|(index, page)| {
        json!({"segment": {"text": page.snippet}, "groundingChunkIndices": [index]})
    });
    let mut candidate = Map::new();
    candidate.insert("content".into(), json!({"role": "model", "parts": [{"text": content.text}]}));
    candidate.insert("finishReason".into(), json!("STOP"));
    if !content.pages.is_empty() {
        let (chunks, supports): (Vec<_>, Vec<_>) = (chunks.collect(), supports.collect());
        let grounding = json!({"groundingChunks": chunks, "groundingSupports": supports});
        candidate.insert("groundingMetadata".into(), grounding);
    }
    json!({"candidates": [candidate], "usageMetadata": gemini_usage(usage)})
}

impl Content {
    /// The provider's word for why the model stopped.
    fn stop<'a>(&self, end: &'a str, calls: &'a str, full: &'a str) -> &'a str {
        if self.is_full {
            full
        } else if self.calls.is_empty() {
            end
        } else {
            calls
        }
    }
}
