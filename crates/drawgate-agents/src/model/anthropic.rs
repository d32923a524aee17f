//! Anthropic Messages.
//!
//! The raw form of a reply is its list of content blocks; thinking and its signatures are among them.
//!
//! Requests ask the provider to cache what the next one will begin with: tools and system prompt, and the
//! conversation so far.

use ::http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use super::codec::{
    Codec, Decoder, Fault, Progress, Seed, below, count, object, optional, push_text, text,
};
use super::{
    Api, Arguments, CallResult, Message, Part, Reply, Stop, ToolCall, ToolDefinition, Turn,
    TurnSink, Usage,
};

/// The version of the API that this codec is written for.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Messages of the user after which the conversation is cached: the last one for the next request, and the one
/// before it, where the request before ended. The provider takes four marks in all, and looks back only so
/// many blocks from one.
const CACHED_MESSAGES: usize = 2;

pub(super) struct Anthropic;

impl Codec for Anthropic {
    fn request(&self, turn: &Turn, model: &str) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), json!(model));
        body.insert("max_tokens".into(), json!(turn.max_output));
        let mut tools: Vec<Value> = turn.tools.iter().map(tool).collect();
        // Tools come before the system prompt, so that one mark covers both.
        if turn.system.is_empty() {
            cache_until(tools.last_mut());
        } else {
            let mut system = json!({"type": "text", "text": turn.system});
            cache_until(Some(&mut system));
            body.insert("system".into(), json!([system]));
        }
        body.insert("messages".into(), messages(turn));
        if !tools.is_empty() {
            body.insert("tools".into(), json!(tools));
        }
        if let Some(temperature) = turn.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        body.insert("stream".into(), json!(true));
        Value::Object(body)
    }

    fn turn_url(&self, base: &Url, _model: &str) -> Url {
        below(base, &["v1", "messages"])
    }

    fn models_url(&self, base: &Url) -> Url {
        below(base, &["v1", "models"])
    }

    fn headers(&self, key: Option<HeaderValue>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", VERSION);
        if let Some(key) = key {
            headers.insert("x-api-key", key);
        }
        headers
    }

    fn decoder(&self, seed: Seed) -> Box<dyn Decoder> {
        Box::new(Events { seed, blocks: Vec::new(), stop: None, usage: None, is_done: false })
    }
}

fn tool(tool: &ToolDefinition) -> Value {
    let (name, description) = (&tool.name, &tool.description);
    json!({"name": name, "description": description, "input_schema": tool.schema})
}

/// Asks the provider to cache everything up to the end of this block.
fn cache_until(block: Option<&mut Value>) {
    if let Some(members) = block.and_then(Value::as_object_mut) {
        members.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
}

/// Roles must alternate, and no message may be empty.
fn messages(turn: &Turn) -> Value {
    let mut merged: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &turn.messages {
        let (role, blocks) = match message {
            Message::User(text) => ("user", vec![json!({"type": "text", "text": text})]),
            Message::Model(reply) => ("assistant", reply_blocks(reply)),
            Message::Results(results) => ("user", results.iter().map(result_block).collect()),
        };
        match merged.last_mut() {
            Some((before, content)) if *before == role => content.extend(blocks),
            Some(_) | None if blocks.is_empty() => {}
            Some(_) | None => merged.push((role, blocks)),
        }
    }
    let of_user = merged.iter_mut().rev().filter(|(role, _)| *role == "user");
    for (_, content) in of_user.take(CACHED_MESSAGES) {
        cache_until(content.last_mut());
    }
    merged.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn reply_blocks(reply: &Reply) -> Vec<Value> {
    if let (Api::Anthropic, Value::Array(blocks)) = (reply.api, &reply.raw) {
        return blocks.clone();
    }
    let block = |part: &Part| match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call(call) => {
            let (id, name) = (legal_id(&call.id), &call.name);
            json!({"type": "tool_use", "id": id, "name": name, "input": call.arguments.to_object()})
        }
    };
    reply.parts.iter().map(block).collect()
}

fn result_block(result: &CallResult) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": legal_id(&result.id),
        "content": result.text,
    });
    if result.is_error
        && let Some(members) = block.as_object_mut()
    {
        members.insert("is_error".into(), json!(true));
    }
    block
}

/// An id from another provider may have characters that this one does not take.
fn legal_id(id: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    id.chars().map(|c| if legal(c) { c } else { '_' }).collect()
}

/// The answer so far.
struct Events {
    seed: Seed,
    blocks: Vec<Block>,
    stop: Option<Stop>,
    usage: Option<Usage>,
    is_done: bool,
}

/// A content block, and the JSON of its input while that is written.
struct Block {
    members: Map<String, Value>,
    input: Option<String>,
}

impl Decoder for Events {
    fn event(&mut self, event: &Value, sink: &dyn TurnSink) -> Result<Progress, Fault> {
        match text(event, "type")? {
            "message_start" => {
                let message = event.get("message").ok_or_else(|| Fault::member("message"))?;
                self.count(message)?;
            }
            "content_block_start" => self.start(event, sink)?,
            "content_block_delta" => self.delta(event, sink)?,
            "message_delta" => {
                self.count(event)?;
                let delta = event.get("delta").ok_or_else(|| Fault::member("delta"))?;
                if optional(delta, "stop_reason").is_some() {
                    self.stop = Some(stop(text(delta, "stop_reason")?));
                }
            }
            "message_stop" => {
                self.is_done = true;
                return Ok(Progress::Done);
            }
            "error" => return Err(Fault::Reported(event.clone())),
            _ => {}
        }
        Ok(Progress::More)
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn has_output(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn end(self: Box<Self>) -> Result<Reply, Fault> {
        let Self { mut seed, blocks, stop, usage, is_done } = *self;
        let Some(stop) = stop.filter(|_| is_done) else { return Err(Fault::Unfinished) };
        let (mut parts, mut raw) = (Vec::new(), Vec::new());
        for block in blocks {
            let block = finish(block, &mut seed, &mut parts)?;
            // What has no text would be refused when it goes back.
            if block["type"] != "text" || block["text"] != "" {
                raw.push(block);
            }
        }
        Ok(seed.reply(Api::Anthropic, parts, stop, usage, Value::Array(raw)))
    }
}

impl Events {
    /// Takes the counts that are there; later ones replace earlier ones.
    fn count(&mut self, holder: &Value) -> Result<(), Fault> {
        let Some(counted) = optional(holder, "usage") else { return Ok(()) };
        let usage = self.usage.get_or_insert_default();
        for (name, place) in [
            ("input_tokens", &mut usage.input),
            ("cache_read_input_tokens", &mut usage.cache_read),
            ("cache_creation_input_tokens", &mut usage.cache_write),
            ("output_tokens", &mut usage.output),
        ] {
            if optional(counted, name).is_some() {
                *place = count(counted, name)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, event: &Value, sink: &dyn TurnSink) -> Result<(), Fault> {
        if event.get("index").and_then(Value::as_u64) != Some(self.blocks.len() as u64) {
            return Err(Fault::member("index"));
        }
        let members = object(event, "content_block")?.clone();
        if let Some(Value::String(text)) = members.get("text")
            && !text.is_empty()
        {
            sink.text(text);
        }
        self.blocks.push(Block { members, input: None });
        Ok(())
    }

    fn delta(&mut self, event: &Value, sink: &dyn TurnSink) -> Result<(), Fault> {
        let index = event.get("index").and_then(Value::as_u64);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let block = index.and_then(|index| self.blocks.get_mut(index));
        let block = block.ok_or_else(|| Fault::member("index"))?;
        let delta = event.get("delta").ok_or_else(|| Fault::member("delta"))?;
        match text(delta, "type")? {
            "text_delta" => {
                let more = text(delta, "text")?;
                sink.text(more);
                append(&mut block.members, "text", more)?;
            }
            "thinking_delta" => append(&mut block.members, "thinking", text(delta, "thinking")?)?,
            "signature_delta" => {
                append(&mut block.members, "signature", text(delta, "signature")?)?;
            }
            "citations_delta" => {
                let citation = delta.get("citation").ok_or_else(|| Fault::member("citation"))?;
                let all = block.members.entry("citations").or_insert(json!([]));
                if all.is_null() {
                    *all = json!([]);
                }
                let all = all.as_array_mut().ok_or_else(|| Fault::member("citations"))?;
                all.push(citation.clone());
            }
            "input_json_delta" => {
                block.input.get_or_insert_default().push_str(text(delta, "partial_json")?);
            }
            _ => {}
        }
        Ok(())
    }
}

fn append(members: &mut Map<String, Value>, name: &str, more: &str) -> Result<(), Fault> {
    match members.entry(name).or_insert(json!("")) {
        Value::String(text) => text.push_str(more),
        _ => return Err(Fault::member(name)),
    }
    Ok(())
}

/// The block as it goes back. What the agent acts upon is added to the parts.
fn finish(block: Block, seed: &mut Seed, parts: &mut Vec<Part>) -> Result<Value, Fault> {
    let Block { mut members, input } = block;
    let arguments = match (input, members.get("input")) {
        (Some(text), _) if !text.is_empty() => Arguments::parse(&text),
        (_, Some(Value::Object(whole))) => Arguments::Object(whole.clone()),
        _ => Arguments::parse(""),
    };
    if members.contains_key("input") {
        members.insert("input".into(), Value::Object(arguments.to_object()));
    }
    let block = Value::Object(members);
    match text(&block, "type")? {
        "text" => push_text(parts, text(&block, "text")?),
        "tool_use" => {
            let (id, name) = (seed.id(Some(text(&block, "id")?)), text(&block, "name")?);
            parts.push(Part::Call(ToolCall { id, name: name.to_owned(), arguments }));
        }
        _ => {}
    }
    Ok(block)
}

fn stop(reason: &str) -> Stop {
    match reason {
        "end_turn" | "stop_sequence" => Stop::End,
        "tool_use" => Stop::Calls,
        "max_tokens" => Stop::MaxOutput,
        "pause_turn" => Stop::Paused,
        "refusal" => Stop::Refused,
        "model_context_window_exceeded" => Stop::Context,
        other => Stop::Other(other.to_owned()),
    }
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
