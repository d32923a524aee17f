//! `OpenAI` Responses, without the provider's own store.
//!
//! The raw form of a reply is its list of output items; encrypted reasoning is among them.

use ::http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use super::codec::{
    Codec, Decoder, Fault, Progress, Seed, bearer, below, list, marked, object, openai_usage,
    optional_text, push_text, text,
};
use super::{Api, Arguments, Message, Part, Reply, Stop, ToolCall, Turn, TurnSink, Usage};

pub(super) struct Responses;

impl Codec for Responses {
    fn request(&self, turn: &Turn, model: &str) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), json!(model));
        if !turn.system.is_empty() {
            body.insert("instructions".into(), json!(turn.system));
        }
        body.insert("input".into(), turn.messages.iter().flat_map(items).collect());
        if !turn.tools.is_empty() {
            let tools = turn.tools.iter().map(|tool| {
                json!({
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": false,
                })
            });
            body.insert("tools".into(), tools.collect());
        }
        body.insert("store".into(), json!(false));
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        body.insert("max_output_tokens".into(), json!(turn.max_output));
        if let Some(temperature) = turn.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        body.insert("stream".into(), json!(true));
        Value::Object(body)
    }

    fn turn_url(&self, base: &Url, _model: &str) -> Url {
        below(base, &["responses"])
    }

    fn models_url(&self, base: &Url) -> Url {
        below(base, &["models"])
    }

    fn headers(&self, key: Option<HeaderValue>) -> HeaderMap {
        bearer(key)
    }

    fn decoder(&self, seed: Seed) -> Box<dyn Decoder> {
        Box::new(Events { seed, items: Vec::new(), ending: None, usage: None, has_output: false })
    }
}

fn items(message: &Message) -> Vec<Value> {
    match message {
        Message::User(text) => vec![json!({"role": "user", "content": text})],
        Message::Model(reply) => reply_items(reply),
        Message::Results(results) => {
            let item = |result: &super::CallResult| {
                let output = marked(&result.text, result.is_error);
                json!({"type": "function_call_output", "call_id": result.id, "output": output})
            };
            results.iter().map(item).collect()
        }
    }
}

fn reply_items(reply: &Reply) -> Vec<Value> {
    if let (Api::Openai, Value::Array(items)) = (reply.api, &reply.raw) {
        return items.clone();
    }
    let item = |part: &Part| match part {
        Part::Text(text) => json!({"role": "assistant", "content": text}),
        Part::Call(call) => json!({
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": Value::Object(call.arguments.to_object()).to_string(),
        }),
    };
    reply.parts.iter().map(item).collect()
}

/// The names in `usage`.
const USAGE: [&str; 3] = ["input_tokens", "input_tokens_details", "output_tokens"];

/// The answer so far.
struct Events {
    seed: Seed,
    items: Vec<Value>,
    ending: Option<Stop>,
    usage: Option<Usage>,
    has_output: bool,
}

impl Decoder for Events {
    fn event(&mut self, event: &Value, sink: &dyn TurnSink) -> Result<Progress, Fault> {
        match text(event, "type")? {
            "response.output_item.added" => self.has_output = true,
            "response.output_text.delta" | "response.refusal.delta" => {
                self.has_output = true;
                sink.text(text(event, "delta")?);
            }
            "response.output_item.done" => {
                self.has_output = true;
                self.items.push(Value::Object(object(event, "item")?.clone()));
            }
            "response.completed" => return self.finish(event, Stop::End),
            "response.incomplete" => {
                let details = event.pointer("/response/incomplete_details/reason");
                let stop = match details.and_then(Value::as_str) {
                    Some("max_output_tokens") => Stop::MaxOutput,
                    Some("content_filter") => Stop::Refused,
                    other => Stop::Other(other.unwrap_or("incomplete").to_owned()),
                };
                return self.finish(event, stop);
            }
            "response.failed" => {
                self.count(event.get("response").unwrap_or(&Value::Null))?;
                let error = event.get("response").cloned().unwrap_or_default();
                return Err(Fault::Reported(error));
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
        self.has_output
    }

    fn end(self: Box<Self>) -> Result<Reply, Fault> {
        let Self { mut seed, items, ending, usage, .. } = *self;
        let mut stop = ending.ok_or(Fault::Unfinished)?;
        let mut parts = Vec::new();
        for item in &items {
            if read(item, &mut seed, &mut parts)? == Tone::Refusal {
                stop = Stop::Refused;
            }
        }
        Ok(seed.reply(Api::Openai, parts, stop, usage, Value::Array(items)))
    }
}

impl Events {
    fn finish(&mut self, event: &Value, stop: Stop) -> Result<Progress, Fault> {
        let response = event.get("response").ok_or_else(|| Fault::member("response"))?;
        self.count(response)?;
        // Some servers repeat all items at the end, others send them there alone.
        let repeated = list(response, "output")?;
        if repeated.len() > self.items.len() {
            self.items = repeated.to_vec();
        }
        self.ending = Some(stop);
        Ok(Progress::Done)
    }

    fn count(&mut self, response: &Value) -> Result<(), Fault> {
        self.usage = openai_usage(response, USAGE)?.or(self.usage);
        Ok(())
    }
}

#[derive(PartialEq, Eq)]
enum Tone {
    Usual,
    Refusal,
}

/// Adds what the agent acts upon to the parts.
fn read(item: &Value, seed: &mut Seed, parts: &mut Vec<Part>) -> Result<Tone, Fault> {
    let mut tone = Tone::Usual;
    match text(item, "type")? {
        "message" => {
            for content in list(item, "content")? {
                match text(content, "type")? {
                    "output_text" => push_text(parts, text(content, "text")?),
                    "refusal" => {
                        push_text(parts, text(content, "refusal")?);
                        tone = Tone::Refusal;
                    }
                    _ => {}
                }
            }
        }
        "function_call" => {
            let (id, name) = (seed.id(optional_text(item, "call_id")?), text(item, "name")?);
            let arguments = Arguments::parse(text(item, "arguments")?);
            parts.push(Part::Call(ToolCall { id, name: name.to_owned(), arguments }));
        }
        _ => {}
    }
    Ok(tone)
}

#[cfg(test)]
#[path = "responses_tests.rs"]
mod tests;
