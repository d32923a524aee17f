//! Gemini `streamGenerateContent`.
//!
//! The raw form of a reply is its content with all parts; signatures of thoughts are among their
//! members.

use ::http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use super::codec::{
    Codec, Decoder, Fault, Progress, Seed, below, count, is_made_up, list, optional, optional_text,
    push_text, text,
};
use super::{
    Api, Arguments, CallResult, Message, Part, Reply, Stop, ToolCall, Turn, TurnSink, Usage,
};

/// Stands for the signature of a call that another provider's model made; without one, the newer models
/// refuse a conversation.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) struct Gemini;

impl Codec for Gemini {
    fn request(&self, turn: &Turn, _model: &str) -> Value {
        let mut body = Map::new();
        if !turn.system.is_empty() {
            body.insert("systemInstruction".into(), json!({"parts": [{"text": turn.system}]}));
        }
        body.insert("contents".into(), contents(turn));
        if !turn.tools.is_empty() {
            let tools = turn.tools.iter().map(|tool| {
                let (name, description) = (&tool.name, &tool.description);
                json!({"name": name, "description": description, "parametersJsonSchema": tool.schema})
            });
            let tools: Value = tools.collect();
            body.insert("tools".into(), json!([{"functionDeclarations": tools}]));
        }
        let mut generation = json!({"maxOutputTokens": turn.max_output});
        if let (Some(temperature), Some(members)) = (turn.temperature, generation.as_object_mut()) {
            members.insert("temperature".into(), json!(temperature));
        }
        body.insert("generationConfig".into(), generation);
        Value::Object(body)
    }

    fn turn_url(&self, base: &Url, model: &str) -> Url {
        let mut url = method_url(base, model, "streamGenerateContent");
        url.query_pairs_mut().append_pair("alt", "sse");
        url
    }

    fn models_url(&self, base: &Url) -> Url {
        below(base, &["v1beta", "models"])
    }

    fn headers(&self, key: Option<HeaderValue>) -> HeaderMap {
        key.map(|key| (::http::HeaderName::from_static("x-goog-api-key"), key))
            .into_iter()
            .collect()
    }

    fn decoder(&self, seed: Seed) -> Box<dyn Decoder> {
        Box::new(Events { seed, written: Vec::new(), parts: Vec::new(), stop: None, usage: None })
    }
}

/// Where a method of a model is.
pub(super) fn method_url(base: &Url, model: &str, method: &str) -> Url {
    below(base, &["v1beta", "models", &format!("{model}:{method}")])
}

/// Roles must alternate, and no content may be empty.
fn contents(turn: &Turn) -> Value {
    let mut merged: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &turn.messages {
        let (role, parts) = match message {
            Message::User(text) => ("user", vec![json!({"text": text})]),
            Message::Model(reply) => ("model", reply_parts(reply)),
            Message::Results(results) => ("user", results.iter().map(result_part).collect()),
        };
        match merged.last_mut() {
            Some((before, all)) if *before == role => all.extend(parts),
            Some(_) | None if parts.is_empty() => {}
            Some(_) | None => merged.push((role, parts)),
        }
    }
    merged.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
}

fn reply_parts(reply: &Reply) -> Vec<Value> {
    if let (Api::Gemini, Some(Value::Array(parts))) = (reply.api, reply.raw.get("parts")) {
        return parts.clone();
    }
    let part = |part: &Part| match part {
        Part::Text(text) => json!({"text": text}),
        Part::Call(call) => {
            let mut members = Map::new();
            name_call(&mut members, &call.id, &call.name);
            members.insert("args".into(), Value::Object(call.arguments.to_object()));
            json!({"functionCall": members, "thoughtSignature": NO_SIGNATURE})
        }
    };
    reply.parts.iter().map(part).collect()
}

fn result_part(result: &CallResult) -> Value {
    let mut members = Map::new();
    name_call(&mut members, &result.id, &result.name);
    let key = if result.is_error { "error" } else { "output" };
    members.insert("response".into(), json!({key: result.text}));
    json!({"functionResponse": members})
}

/// A call that the provider gave no id goes by its name and place.
fn name_call(members: &mut Map<String, Value>, id: &str, name: &str) {
    if !is_made_up(id) {
        members.insert("id".into(), json!(id));
    }
    members.insert("name".into(), json!(name));
}

/// The answer so far.
struct Events {
    seed: Seed,
    /// The parts as they came.
    written: Vec<Value>,
    parts: Vec<Part>,
    stop: Option<Stop>,
    usage: Option<Usage>,
}

impl Decoder for Events {
    fn event(&mut self, event: &Value, sink: &dyn TurnSink) -> Result<Progress, Fault> {
        if event.get("error").is_some() {
            return Err(Fault::Reported(event.clone()));
        }
        self.usage = usage(event)?.or(self.usage);
        if let Some(feedback) = optional(event, "promptFeedback")
            && optional(feedback, "blockReason").is_some()
        {
            self.stop = Some(Stop::Refused);
        }
        let Some(candidate) = list(event, "candidates")?.first() else {
            return Ok(Progress::More);
        };
        let content = optional(candidate, "content").unwrap_or(&Value::Null);
        for part in list(content, "parts")? {
            self.part(part, sink)?;
        }
        if let Some(reason) = optional_text(candidate, "finishReason")? {
            self.stop = Some(stop(reason)?);
        }
        Ok(Progress::More)
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn has_output(&self) -> bool {
        !self.written.is_empty()
    }

    fn end(self: Box<Self>) -> Result<Reply, Fault> {
        let Self { seed, written, parts, stop, usage } = *self;
        let stop = stop.ok_or(Fault::Unfinished)?;
        let raw = json!({"role": "model", "parts": written});
        Ok(seed.reply(Api::Gemini, parts, stop, usage, raw))
    }
}

impl Events {
    fn part(&mut self, part: &Value, sink: &dyn TurnSink) -> Result<(), Fault> {
        let is_thought = part.get("thought").and_then(Value::as_bool).unwrap_or_default();
        if let Some(more) = optional_text(part, "text")?
            && !is_thought
        {
            sink.text(more);
            push_text(&mut self.parts, more);
        }
        if let Some(call) = optional(part, "functionCall") {
            let id = self.seed.id(optional_text(call, "id")?);
            let arguments = match optional(call, "args") {
                None => Arguments::Object(Map::new()),
                Some(Value::Object(members)) => Arguments::Object(members.clone()),
                Some(other) => Arguments::Malformed(other.to_string()),
            };
            let name = text(call, "name")?.to_owned();
            self.parts.push(Part::Call(ToolCall { id, name, arguments }));
        }
        self.keep(part);
        Ok(())
    }

    /// Plain texts are joined; whatever has other members stays as it came.
    fn keep(&mut self, part: &Value) {
        let plain = |part: &Value| part.as_object().is_some_and(|members| members.len() == 1);
        if let (Some(before), Some(Value::String(more))) =
            (self.written.last_mut(), part.get("text"))
            && plain(before)
            && plain(part)
            && let Some(Value::String(text)) = before.get_mut("text")
        {
            text.push_str(more);
        } else {
            self.written.push(part.clone());
        }
    }
}

/// The tokens that an answer names.
pub(super) fn usage(answer: &Value) -> Result<Option<Usage>, Fault> {
    let Some(counted) = optional(answer, "usageMetadata") else { return Ok(None) };
    let cache_read = count(counted, "cachedContentTokenCount")?;
    let prompt = count(counted, "promptTokenCount")?;
    let of_tools = count(counted, "toolUsePromptTokenCount")?;
    let thoughts = count(counted, "thoughtsTokenCount")?;
    Ok(Some(Usage {
        input: prompt.saturating_add(of_tools).saturating_sub(cache_read),
        cache_read,
        output: count(counted, "candidatesTokenCount")?.saturating_add(thoughts),
        ..Usage::default()
    }))
}

fn stop(reason: &str) -> Result<Stop, Fault> {
    Ok(match reason {
        "STOP" => Stop::End,
        "MAX_TOKENS" => Stop::MaxOutput,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "IMAGE_SAFETY" => Stop::Refused,
        // The model's output was lost on the way: there is nothing to answer it with.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
            return Err(Fault::Malformed(format!(
                "the model's call was not readable (`{reason}`)"
            )));
        }
        other => Stop::Other(other.to_owned()),
    })
}

#[cfg(test)]
#[path = "gemini_tests.rs"]
mod tests;
