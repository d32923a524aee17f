//! What all codecs have in common: the trait between them and the HTTP client, and the helpers by which
//! they read events.
//!
//! A codec does no input or output. An event of a kind that it does not know is ignored; one that it
//! knows, in another shape, is a [`Fault`].

use std::collections::BTreeSet;

use ::http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value};
use url::Url;

use super::estimate::{self, tokens};
use super::{Api, Message, Part, Reply, Stop, ToolCall, Turn, TurnSink, Usage};
use super::{anthropic::Anthropic, chat::Chat, gemini::Gemini, responses::Responses};

/// One provider's API.
pub(super) trait Codec: Send + Sync {
    /// The body of the request for a turn. Equal turns give equal bodies.
    fn request(&self, turn: &Turn, model: &str) -> Value;
    /// Where that request goes.
    fn turn_url(&self, base: &Url, model: &str) -> Url;
    /// Where the provider lists its models.
    fn models_url(&self, base: &Url) -> Url;
    /// The headers of every request, with the key if there is one.
    fn headers(&self, key: Option<HeaderValue>) -> HeaderMap;
    /// Reads the answer.
    fn decoder(&self, seed: Seed) -> Box<dyn Decoder>;
}

/// Reads the events of one answer.
pub(super) trait Decoder: Send {
    /// Takes the data of an event.
    fn event(&mut self, event: &Value, sink: &dyn TurnSink) -> Result<Progress, Fault>;
    /// The tokens that the provider has counted so far.
    fn usage(&self) -> Option<Usage>;
    /// Whether anything that the model wrote has come.
    fn has_output(&self) -> bool;
    /// Takes the end of the stream. An answer that did not come to its own end is
    /// [`Fault::Unfinished`].
    fn end(self: Box<Self>) -> Result<Reply, Fault>;
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The answer goes on.
    More,
    /// It has come to its own end.
    Done,
}

/// Why events are not a reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// A known event without what it must have.
    Malformed(String),
    /// The provider reports an error, in these words.
    Reported(Value),
    /// The stream ended too early.
    Unfinished,
}

impl Fault {
    /// A member of an event that is missing or of another kind.
    pub(super) fn member(name: &str) -> Self {
        Self::Malformed(format!("`{name}` is missing in an event, or of another kind"))
    }
}

/// The codec of an API.
pub(super) fn codec(api: Api) -> &'static dyn Codec {
    match api {
        Api::Anthropic => &Anthropic,
        Api::Openai => &Responses,
        Api::OpenaiChat => &Chat,
        Api::Gemini => &Gemini,
    }
}

/// What a decoder must know of the request.
#[derive(Debug, Clone, Default)]
pub(super) struct Seed {
    /// Ids of calls that the conversation has had.
    taken: BTreeSet<String>,
    /// The estimated input, for providers that don't say.
    input: u64,
}

/// What ids of calls that were made up here begin with.
const MADE_UP: &str = "drawgate-call-";

/// Whether the provider does not know an id.
pub(super) fn is_made_up(id: &str) -> bool {
    id.starts_with(MADE_UP)
}

impl Seed {
    pub(super) fn of(turn: &Turn) -> Self {
        let replies = turn.messages.iter().filter_map(|message| match message {
            Message::Model(reply) => Some(reply),
            Message::User(_) | Message::Results(_) => None,
        });
        let taken = replies.flat_map(Reply::calls).map(|call| call.id.clone()).collect();
        Self { taken, input: estimate::input_tokens(turn) }
    }

    /// That of a request that was written elsewhere.
    pub(super) fn estimated(input: u64) -> Self {
        Self { taken: BTreeSet::new(), input }
    }

    /// The id that a provider gave, or one in its place where it gave none.
    pub(super) fn id(&mut self, given: Option<&str>) -> String {
        let id = match given {
            Some(given) if !given.is_empty() => given.to_owned(),
            Some(_) | None => self.make_up(),
        };
        self.taken.insert(id.clone());
        id
    }

    /// The same, where the provider gives one id to several calls of a conversation.
    pub(super) fn unique_id(&mut self, given: Option<&str>) -> String {
        let given = given.filter(|given| !self.taken.contains(*given));
        self.id(given)
    }

    /// One more candidate than there are ids, so that one of them is free.
    fn make_up(&self) -> String {
        let first = self.taken.len();
        (first..=first.saturating_mul(2))
            .map(|number| format!("{MADE_UP}{number}"))
            .find(|id| !self.taken.contains(id))
            .unwrap_or_default()
    }

    /// Puts a reply together.
    pub(super) fn reply(
        &self,
        api: Api,
        parts: Vec<Part>,
        stop: Stop,
        usage: Option<Usage>,
        raw: Value,
    ) -> Reply {
        let has_calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
        let stop = match stop {
            Stop::End if has_calls => Stop::Calls,
            Stop::Calls if !has_calls => Stop::End,
            stop => stop,
        };
        let usage = usage.unwrap_or_else(|| Usage {
            input: self.input,
            output: tokens(parts.iter().map(estimate::part_chars).sum()),
            estimated: true,
            ..Usage::default()
        });
        Reply { parts, stop, usage, api, raw }
    }
}

impl Reply {
    /// Its calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text(_) => None,
        })
    }

    /// Its text, without the calls.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Call(_) => None,
        });
        texts.collect()
    }
}

/// Adds text to the text before it, or begins a new one.
pub(super) fn push_text(parts: &mut Vec<Part>, more: &str) {
    if more.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(Part::Text(text)) => text.push_str(more),
        Some(Part::Call(_)) | None => parts.push(Part::Text(more.to_owned())),
    }
}

/// An address below the configured one.
pub(super) fn below(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// `Authorization: Bearer KEY`, if there is a key.
pub(super) fn bearer(key: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = key.map(|key| [b"Bearer ", key.as_bytes()].concat());
    if let Some(mut value) = value.and_then(|value| HeaderValue::from_bytes(&value).ok()) {
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    headers
}

/// Text for providers that have no mark for results of calls that failed.
pub(super) fn marked(text: &str, is_error: bool) -> String {
    if is_error { format!("error: {text}") } else { text.to_owned() }
}

/// A member that must be text.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Fault> {
    value.get(name).and_then(Value::as_str).ok_or_else(|| Fault::member(name))
}

/// A member that must be an object.
pub(super) fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>, Fault> {
    value.get(name).and_then(Value::as_object).ok_or_else(|| Fault::member(name))
}

/// A member that may be absent.
pub(super) fn optional<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|member| !member.is_null())
}

/// A text that may be absent.
pub(super) fn optional_text<'a>(value: &'a Value, name: &str) -> Result<Option<&'a str>, Fault> {
    optional(value, name)
        .map(|member| member.as_str().ok_or_else(|| Fault::member(name)))
        .transpose()
}

/// A list that may be absent.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Fault> {
    optional(value, name).map_or(Ok(&[]), |member| {
        member.as_array().map(Vec::as_slice).ok_or_else(|| Fault::member(name))
    })
}

/// A number of tokens; 0 if it is absent.
pub(super) fn count(value: &Value, name: &str) -> Result<u64, Fault> {
    optional(value, name).map_or(Ok(0), |member| member.as_u64().ok_or_else(|| Fault::member(name)))
}

/// The tokens that an answer of `OpenAI`'s APIs names in `usage`; each API has names of its own for the
/// input, for what is known about it, and for the output.
pub(super) fn openai_usage(
    answer: &Value,
    [input, details, output]: [&str; 3],
) -> Result<Option<Usage>, Fault> {
    let Some(counted) = optional(answer, "usage") else { return Ok(None) };
    let details = optional(counted, details);
    let cache_read = details.map_or(Ok(0), |details| count(details, "cached_tokens"))?;
    Ok(Some(Usage {
        input: count(counted, input)?.saturating_sub(cache_read),
        cache_read,
        output: count(counted, output)?,
        ..Usage::default()
    }))
}
