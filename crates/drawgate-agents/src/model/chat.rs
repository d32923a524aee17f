//! `OpenAI` Chat Completions, and what speaks it: Ollama, vLLM, llama.cpp.
//!
//! The raw form of a reply is the assistant's message. Members of a call that this codec does not know
//! are kept in it: some servers put signatures there.

mod calls;

use ::http::{HeaderMap, HeaderValue};
use calls::{Calls, Written};
use serde_json::{Map, Value, json};
use url::Url;

use super::codec::{
    Codec, Decoder, Fault, Progress, Seed, bearer, below, list, marked, openai_usage, optional,
    optional_text, push_text,
};
use super::{
    Api, CallResult, Message, Part, Reply, Stop, ToolCall, ToolDefinition, Turn, TurnSink, Usage,
};

pub(super) struct Chat;

impl Codec for Chat {
    fn request(&self, turn: &Turn, model: &str) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), json!(model));
        let system =
            (!turn.system.is_empty()).then(|| json!({"role": "system", "content": turn.system}));
        let messages = system.into_iter().chain(turn.messages.iter().flat_map(messages));
        body.insert("messages".into(), messages.collect());
        if !turn.tools.is_empty() {
            body.insert("tools".into(), turn.tools.iter().map(function).collect());
        }
        // The newer `max_completion_tokens` is ignored by servers that don't know it.
        body.insert("max_tokens".into(), json!(turn.max_output));
        if let Some(temperature) = turn.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
        Value::Object(body)
    }

    fn turn_url(&self, base: &Url, _model: &str) -> Url {
        below(base, &["chat", "completions"])
    }

    fn models_url(&self, base: &Url) -> Url {
        below(base, &["models"])
    }

    fn headers(&self, key: Option<HeaderValue>) -> HeaderMap {
        bearer(key)
    }

    fn decoder(&self, seed: Seed) -> Box<dyn Decoder> {
        Box::new(Events {
            seed,
            text: String::new(),
            calls: Calls::default(),
            stop: None,
            is_refusal: false,
            usage: None,
            has_output: false,
        })
    }
}

fn function(tool: &ToolDefinition) -> Value {
    let (name, description) = (&tool.name, &tool.description);
    json!({
        "type": "function",
        "function": {"name": name, "description": description, "parameters": tool.schema},
    })
}

fn messages(message: &Message) -> Vec<Value> {
    match message {
        Message::User(text) => vec![json!({"role": "user", "content": text})],
        Message::Model(reply) => vec![reply_message(reply)],
        Message::Results(results) => {
            let message = |result: &CallResult| {
                let content = marked(&result.text, result.is_error);
                json!({"role": "tool", "tool_call_id": result.id, "content": content})
            };
            results.iter().map(message).collect()
        }
    }
}

fn reply_message(reply: &Reply) -> Value {
    if reply.api == Api::OpenaiChat && reply.raw.is_object() {
        return reply.raw.clone();
    }
    let calls = reply.calls().map(|call| call_member(call, Map::new())).collect();
    assistant(&reply.text(), calls)
}

fn assistant(text: &str, calls: Vec<Value>) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    // With calls alone, `null` is what the API itself sends; without them, text is demanded.
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { json!(text) };
    message.insert("content".into(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    Value::Object(message)
}

fn call_member(call: &ToolCall, mut others: Map<String, Value>) -> Value {
    let arguments = Value::Object(call.arguments.to_object()).to_string();
    others.insert("id".into(), json!(call.id));
    others.insert("type".into(), json!("function"));
    others.insert("function".into(), json!({"name": call.name, "arguments": arguments}));
    Value::Object(others)
}

/// The names in `usage`.
const USAGE: [&str; 3] = ["prompt_tokens", "prompt_tokens_details", "completion_tokens"];

/// The answer so far.
struct Events {
    seed: Seed,
    text: String,
    calls: Calls,
    stop: Option<Stop>,
    is_refusal: bool,
    usage: Option<Usage>,
    has_output: bool,
}

impl Decoder for Events {
    fn event(&mut self, event: &Value, sink: &dyn TurnSink) -> Result<Progress, Fault> {
        if optional(event, "error").is_some() {
            return Err(Fault::Reported(event.clone()));
        }
        self.usage = openai_usage(event, USAGE)?.or(self.usage);
        for choice in list(event, "choices")? {
            // One answer was asked for; servers that send more can't be helped.
            if optional(choice, "index").is_none_or(|index| index == 0) {
                self.choice(choice, sink)?;
            }
        }
        Ok(Progress::More)
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn has_output(&self) -> bool {
        self.has_output
    }

    fn end(self: Box<Self>) -> Result<Reply, Fault> {
        let Self { mut seed, text, calls, stop, is_refusal, usage, .. } = *self;
        let stop = stop.ok_or(Fault::Unfinished)?;
        let (mut parts, mut members) = (Vec::new(), Vec::new());
        push_text(&mut parts, &text);
        for Written { id, name, arguments, others, .. } in calls.finish()? {
            let id = seed.unique_id(id.as_deref());
            let call = ToolCall { id, name, arguments };
            members.push(call_member(&call, others));
            parts.push(Part::Call(call));
        }
        let stop = if is_refusal { Stop::Refused } else { stop };
        Ok(seed.reply(Api::OpenaiChat, parts, stop, usage, assistant(&text, members)))
    }
}

impl Events {
    fn choice(&mut self, choice: &Value, sink: &dyn TurnSink) -> Result<(), Fault> {
        let delta = optional(choice, "delta").unwrap_or(&Value::Null);
        self.has_output |= delta.as_object().is_some_and(has_output);
        match optional(delta, "content") {
            None => {}
            Some(Value::String(more)) => self.write(more, sink),
            Some(Value::Array(pieces)) => {
                for piece in pieces {
                    self.write(optional_text(piece, "text")?.unwrap_or_default(), sink);
                }
            }
            Some(_) => return Err(Fault::member("content")),
        }
        if let Some(refusal) = optional_text(delta, "refusal")?
            && !refusal.is_empty()
        {
            self.is_refusal = true;
            self.write(refusal, sink);
        }
        for piece in list(delta, "tool_calls")? {
            self.calls.take(piece)?;
        }
        if let Some(reason) = optional_text(choice, "finish_reason")?
            && !reason.is_empty()
        {
            self.stop = Some(stop(reason));
        }
        Ok(())
    }

    fn write(&mut self, more: &str, sink: &dyn TurnSink) {
        if !more.is_empty() {
            sink.text(more);
            self.text.push_str(more);
        }
    }
}

/// The first piece often has a role and nothing else.
fn has_output(delta: &Map<String, Value>) -> bool {
    delta.iter().any(|(name, value)| {
        name != "role"
            && !value.is_null()
            && value != ""
            && value.as_array().is_none_or(|all| !all.is_empty())
    })
}

fn stop(reason: &str) -> Stop {
    match reason {
        "stop" => Stop::End,
        "tool_calls" | "function_call" => Stop::Calls,
        "length" => Stop::MaxOutput,
        "content_filter" => Stop::Refused,
        other => Stop::Other(other.to_owned()),
    }
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
