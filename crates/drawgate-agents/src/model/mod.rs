//! Conversations with models, in one form for every provider.
//!
//! A provider's codec turns a [`Turn`] into a request and the answer's stream into a [`Reply`]. What it
//! does not understand it keeps in [`Reply::raw`] and sends back as it came. One call of
//! [`Model::turn`] is one request: whether it is made again is decided by whoever reserves the budget
//! for it.

mod allowed;
mod anthropic;
mod chat;
mod codec;
pub mod config;
pub mod estimate;
mod failure;
mod gemini;
mod http;
mod models;
mod relay;
mod responses;
pub mod retry;
mod search;
mod stream;

use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use models::{Models, UnknownModel};
pub use relay::{ProgramRequest, RelayFailure, RelayRefusal, Relayed, RelayedAnswer};
pub use search::{SearchReply, SearchResult};

/// One request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// What the model is told first.
    pub system: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Vec<ToolDefinition>,
    /// Tokens that it may write.
    pub max_output: u64,
    /// Passed on where it is given.
    pub temperature: Option<f64>,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The wire name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The schema of its arguments.
    pub schema: Value,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// From the person or program that the agent works for.
    User(String),
    /// From the model.
    Model(Reply),
    /// The results of the calls in the reply before, in the order of the calls.
    Results(Vec<CallResult>),
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Texts and calls, in order.
    pub parts: Vec<Part>,
    /// Why it stopped.
    pub stop: Stop,
    /// What the request cost.
    pub usage: Usage,
    /// The provider's API ([`Api::as_str`]) that `raw` is written for.
    pub api: Api,
    /// The reply in the provider's own form, opaque parts included. It goes back as it came, as long as
    /// the conversation stays with the same API.
    pub raw: Value,
}

/// A part of a reply that the agent acts upon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text for the reader.
    Text(String),
    /// A tool to call.
    Call(ToolCall),
}

/// A call that a model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id for it; made up here if it gave none.
    pub id: String,
    /// The tool's wire name, as the model wrote it.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// The arguments of a call as a model wrote them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object.
    Object(Map<String, Value>),
    /// Anything else; the model is told.
    Malformed(String),
}

impl Arguments {
    /// Reads what a model wrote; nothing at all stands for no arguments.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Object(Map::new());
        }
        match json::parse_lossy(text.as_bytes()) {
            Ok(Value::Object(arguments)) => Self::Object(arguments),
            Ok(_) | Err(_) => Self::Malformed(text.to_owned()),
        }
    }

    /// The arguments for a later request. Providers take back nothing but objects; what was wrong with
    /// malformed ones is said in the result of the call.
    #[must_use]
    pub fn to_object(&self) -> Map<String, Value> {
        match self {
            Self::Object(arguments) => arguments.clone(),
            Self::Malformed(_) => Map::new(),
        }
    }
}

/// The result of a call, for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub id: String,
    /// The name in the call.
    pub name: String,
    /// What the tool said.
    pub text: String,
    /// Whether it failed or was refused.
    pub is_error: bool,
}

/// Why a model stopped writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It has said all.
    End,
    /// It wants tools to be called.
    Calls,
    /// The limit of output tokens was reached.
    MaxOutput,
    /// The provider paused a long turn; the same conversation goes on.
    Paused,
    /// The model or the provider refuses to answer.
    Refused,
    /// The conversation does not fit into the model's context.
    Context,
    /// Something else, in the provider's words.
    Other(String),
}

/// Tokens of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read at the full price.
    pub input: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
    /// Written by the model, reasoning included.
    pub output: u64,
    /// The provider did not say, and it was estimated here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// All tokens.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.read().saturating_add(self.output)
    }

    /// All tokens that were read, cached or not.
    #[must_use]
    pub const fn read(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
            estimated: self.estimated || other.estimated,
        }
    }
}

/// The APIs of model providers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses.
    Openai,
    /// `OpenAI` Chat Completions, and what speaks it: Ollama, vLLM, llama.cpp.
    OpenaiChat,
    /// Gemini `generateContent`.
    Gemini,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::OpenaiChat, Self::Gemini];

    /// Its name, as in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::OpenaiChat => "openai_chat",
            Self::Gemini => "gemini",
        }
    }

    /// The address of the provider whose API it is, in the form that its own clients take.
    #[must_use]
    pub const fn official_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::Openai | Self::OpenaiChat => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }
}

/// Why a request to a model has no reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure it is.
    pub kind: ModelErrorKind,
    /// A sentence for people. Holds no key and no content of the conversation.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// Tokens that the provider said it had counted before the failure.
    pub usage: Option<Usage>,
    /// Whether the provider may have begun to work on the request, so that it may cost something. It is
    /// false only where nothing was sent or the provider refused the request by its status.
    pub began: bool,
}

impl ModelError {
    /// A failure before the provider began to work.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, usage: None, began: false }
    }

    /// The same, after the provider may have begun.
    #[must_use]
    pub fn begun(self) -> Self {
        Self { began: true, ..self }
    }
}

/// The kinds of failures of a request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// Not reached, or lost before any output.
    Unreachable,
    /// 408, 409, 5xx or an overload.
    Unavailable,
    /// 429: too many requests now.
    RateLimited,
    /// The account has no money or quota left: waiting does not help.
    Quota,
    /// The key is missing or wrong.
    Key,
    /// Any other refusal of the request.
    Rejected,
    /// The conversation is too long for the model.
    Context,
    /// The stream broke off after output had begun.
    Broken,
    /// No byte came for too long.
    Silent,
    /// What came is not what the API sends.
    Malformed,
}

impl ModelErrorKind {
    /// Its name in metrics and traces.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unavailable => "unavailable",
            Self::RateLimited => "rate_limited",
            Self::Quota => "quota",
            Self::Key => "key",
            Self::Rejected => "rejected",
            Self::Context => "context",
            Self::Broken => "broken",
            Self::Silent => "silent",
            Self::Malformed => "malformed",
        }
    }
}

/// Receives what a model writes, while it does. Must not block.
pub trait TurnSink: Send + Sync {
    /// More text.
    fn text(&self, delta: &str);
}

/// Drops what a model writes.
impl TurnSink for () {
    fn text(&self, _delta: &str) {}
}

/// A model that can be asked.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Makes one request. Dropping the future ends it.
    async fn turn(&self, turn: &Turn, sink: &dyn TurnSink) -> Result<Reply, ModelError>;
    /// What the operator says about the model.
    fn limits(&self) -> &ModelLimits;
    /// Its full name, `provider/model`.
    fn name(&self) -> &str;
}

/// What an operator says about a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelLimits {
    /// Tokens of a whole conversation.
    pub context_tokens: u64,
    /// Tokens of one reply.
    pub max_output: u64,
    /// Prices in US dollars for a million tokens; without them a budget in dollars can't be kept, and is
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_million: Option<Prices>,
}

impl Default for ModelLimits {
    /// What even small models of today have.
    fn default() -> Self {
        Self { context_tokens: 128_000, max_output: 8_000, usd_per_million: None }
    }
}

/// Prices in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Read.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from a cache; a tenth of `input` at Anthropic, and `input` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Written to a cache; 1.25 times `input` at Anthropic, and `input` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod codec_tests;
