//! Requests that programs make to models themselves: held to the paths, members and tools that ask a model
//! ([`allowed`](super::allowed)), sent on with the provider's real key, and counted while the answer passes.

use std::sync::Arc;
use std::time::Instant;

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use drawgate_core::json;
use drawgate_host::egress::address::to_uri;
use drawgate_host::egress::{AnswerBody, Body, Chunks, read_body};
use drawgate_sources::setting::MASK;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use url::Url;

use super::allowed;
use super::codec::{Progress, Seed, below, codec};
use super::estimate::tokens;
use super::gemini::method_url;
use super::http::{Provider, beginning};
use super::stream::{MAX_REPLY, ReplyStream};
use super::{
    Api, ModelError, ModelErrorKind, ModelLimits, Models, Reply, Stop, TurnSink, Usage, failure,
};

/// Characters that count for a long text without spaces, which is an image or a signature.
const OPAQUE_CHARS: u64 = 8 * 1024;

/// Headers of a program that a provider gets, beside its betas; all others are the program's own business.
const PASSED_ON: [HeaderName; 2] = [header::ACCEPT, HeaderName::from_static("anthropic-version")];
const BETAS: HeaderName = HeaderName::from_static("anthropic-beta");

/// Why a request of a program does not reach a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayRefusal {
    /// The run may not use this provider.
    #[error("this run has no provider `{0}`")]
    Provider(String),
    /// The path asks no model.
    #[error("`{method} {path}` is not relayed; only requests that ask a model are")]
    Path {
        /// The method.
        method: String,
        /// The path.
        path: String,
    },
    /// The model is not configured.
    #[error("the model `{0}` is not configured; add it to the `models` of the provider")]
    Model(String),
    /// The body is not one of the API.
    #[error("the request can't be read: {0}")]
    Body(String),
    /// A part of the conversation is more than a question to a model.
    #[error("the request has {0}, which is not relayed")]
    Part(String),
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// A reply.
    Reply,
    /// The number of tokens in a conversation, which costs nothing.
    Count,
}

/// A request of a program, as it came.
pub struct ProgramRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path below the provider.
    pub path: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: &'a [u8],
}

/// A request of a program that may be sent on.
pub struct Relayed {
    provider: Arc<Provider>,
    model: String,
    limits: ModelLimits,
    asks: Asks,
    is_stream: bool,
    headers: HeaderMap,
    url: Url,
    body: Value,
}

impl Models {
    /// Reads a request to a provider. `own` is the model of the run, which may be one that is not
    /// listed; others must be.
    pub fn relayed(
        &self,
        provider: &str,
        own: &str,
        request: &ProgramRequest<'_>,
    ) -> Result<Relayed, RelayRefusal> {
        let (provider, listed) = self
            .listed(provider)
            .ok_or_else(|| RelayRefusal::Provider(provider.escape_debug().to_string()))?;
        let refused = || RelayRefusal::Path {
            method: request.method.to_string(),
            path: request.path.escape_debug().to_string(),
        };
        if request.method != Method::POST {
            return Err(refused());
        }
        let body = json::parse_lossy(request.body)
            .map_err(|error| RelayRefusal::Body(format!("its body is not JSON: {error}")))?;
        let Value::Object(mut body) = body else {
            return Err(RelayRefusal::Body("its body is not an object".to_owned()));
        };
        let target = Target::of(provider.api, request.path, &body).ok_or_else(refused)?;
        allowed::narrow(provider.api, &mut body).map_err(RelayRefusal::Part)?;
        let is_own = format!("{}/{}", provider.name, target.model) == own;
        let limits = listed.get(&target.model).copied().or_else(|| is_own.then(Default::default));
        let limits =
            limits.ok_or_else(|| RelayRefusal::Model(target.model.escape_debug().to_string()))?;
        Ok(Relayed {
            url: target.url(&provider),
            headers: passed_on(request.headers),
            provider,
            limits,
            model: target.model,
            asks: target.asks,
            is_stream: target.is_stream,
            body: Value::Object(body),
        })
    }
}

/// Where a request goes.
struct Target {
    model: String,
    asks: Asks,
    is_stream: bool,
}

impl Target {
    fn of(api: Api, path: &str, body: &Map<String, Value>) -> Option<Self> {
        let is_stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
        let named = |asks| {
            let model = body.get("model")?.as_str()?.to_owned();
            Some(Self { model, asks, is_stream })
        };
        match (api, path) {
            (Api::Anthropic, "/v1/messages")
            | (Api::Openai, "/responses")
            | (Api::OpenaiChat, "/chat/completions") => named(Asks::Reply),
            (Api::Anthropic, "/v1/messages/count_tokens") => named(Asks::Count),
            (Api::Gemini, path) => {
                let (model, method) = path.strip_prefix("/v1beta/models/")?.split_once(':')?;
                let (asks, is_stream) = match method {
                    "streamGenerateContent" => (Asks::Reply, true),
                    "generateContent" => (Asks::Reply, false),
                    "countTokens" => (Asks::Count, false),
                    _ => return None,
                };
                Some(Self { model: model.to_owned(), asks, is_stream })
            }
            (Api::Anthropic | Api::Openai | Api::OpenaiChat, _) => None,
        }
    }

    /// Written anew, so that nothing of the program's spelling is left.
    fn url(&self, provider: &Provider) -> Url {
        let (base, model) = (&provider.base, &self.model);
        match (provider.api, self.asks, self.is_stream) {
            (Api::Anthropic, Asks::Count, _) => below(base, &["v1", "messages", "count_tokens"]),
            (Api::Gemini, Asks::Count, _) => method_url(base, model, "countTokens"),
            (Api::Gemini, Asks::Reply, false) => method_url(base, model, "generateContent"),
            (api, _, _) => codec(api).turn_url(base, model),
        }
    }
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let own = headers.iter().filter(|(name, _)| PASSED_ON.contains(name));
    let mut passed: HeaderMap = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    let betas = headers.get_all(BETAS).iter().filter_map(|betas| betas.to_str().ok());
    let betas = allowed::betas(&betas.collect::<Vec<_>>().join(","));
    passed.extend(betas.and_then(|betas| Some((BETAS, HeaderValue::from_str(&betas).ok()?))));
    passed
}

impl Relayed {
    /// The model's full name.
    #[must_use]
    pub fn model(&self) -> String {
        format!("{}/{}", self.provider.name, self.model)
    }

    /// What the operator says about the model.
    #[must_use]
    pub const fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    /// Whether it costs something.
    #[must_use]
    pub fn is_charged(&self) -> bool {
        self.asks == Asks::Reply
    }

    /// Tokens that the provider will count in it, about.
    #[must_use]
    pub fn input_tokens(&self) -> u64 {
        tokens(text_chars(&self.body))
    }

    /// Tokens that the model may write.
    #[must_use]
    pub fn max_output(&self) -> u64 {
        let wanted = match self.provider.api {
            Api::Anthropic => self.body.get("max_tokens"),
            Api::Openai => self.body.get("max_output_tokens"),
            Api::OpenaiChat => {
                self.body.get("max_completion_tokens").or_else(|| self.body.get("max_tokens"))
            }
            Api::Gemini => self.body.pointer("/generationConfig/maxOutputTokens"),
        };
        let most = self.limits.max_output;
        wanted.and_then(Value::as_u64).map_or(most, |wanted| wanted.min(most))
    }

    /// Sets the tokens that the model may write.
    pub fn limit_output(&mut self, most: u64) {
        let Some(body) = self.body.as_object_mut() else { return };
        match self.provider.api {
            Api::Anthropic => {
                body.insert("max_tokens".to_owned(), most.into());
                // To think more than may be written is an error.
                let budget =
                    body.get("thinking").and_then(|thinking| thinking.get("budget_tokens"));
                if budget.and_then(Value::as_u64).is_some_and(|budget| budget >= most) {
                    body.remove("thinking");
                }
            }
            Api::Openai => drop(body.insert("max_output_tokens".to_owned(), most.into())),
            Api::OpenaiChat => {
                let is_old = body.contains_key("max_tokens");
                let name = if is_old { "max_tokens" } else { "max_completion_tokens" };
                body.insert(name.to_owned(), most.into());
                if self.is_stream {
                    let options = body
                        .entry("stream_options")
                        .or_insert_with(|| Value::Object(<_>::default()));
                    if let Some(options) = options.as_object_mut() {
                        options.insert("include_usage".to_owned(), true.into());
                    }
                }
            }
            Api::Gemini => {
                let config = body
                    .entry("generationConfig")
                    .or_insert_with(|| Value::Object(serde_json::Map::new()));
                if let Some(config) = config.as_object_mut() {
                    config.insert("maxOutputTokens".to_owned(), most.into());
                }
            }
        }
    }

    /// Sends it on, when the provider has a place free.
    pub async fn send(self) -> Result<RelayedAnswer, RelayFailure> {
        let provider = Arc::clone(&self.provider);
        let failed = |error| RelayFailure::new(StatusCode::BAD_GATEWAY, provider.named(error));
        let slot = provider.own_slot().await.map_err(failed)?;
        let request = self.request().map_err(failed)?;
        let limit = provider.silence;
        let deadline = Instant::now() + limit;
        let answer = provider.host.egress.request(request, &provider.reach, deadline).await;
        let answer = answer.map_err(|error| failed(provider.unsent(&error)))?;
        if !answer.status().is_success() {
            return Err(refused(&provider, answer).await);
        }
        let status = answer.status();
        let kind = answer.headers().get(header::CONTENT_TYPE).cloned();
        let seed = Seed::estimated(self.input_tokens());
        let counted = self.is_charged().then(|| ReplyStream::of(provider.api, seed));
        // What it is, whatever was asked for: it must be counted as what it is.
        let is_stream = kind.as_ref().is_some_and(|kind| {
            kind.to_str().unwrap_or_default().to_ascii_lowercase().starts_with("text/event-stream")
        });
        let passing = if is_stream {
            Passing::Stream(Chunks::new(answer.into_body()))
        } else {
            let deadline = Instant::now() + limit;
            let whole = read_body(answer.into_body(), MAX_REPLY, deadline).await;
            Passing::Whole(Some(whole.map_err(|error| failed(provider.unsent(&error)))?))
        };
        Ok(RelayedAnswer {
            status,
            kind,
            passing,
            key: KeyMask::new(provider.key_text()),
            counted,
            fed: Fed::More,
            provider,
            _slot: slot,
        })
    }

    fn request(&self) -> Result<Request<Body>, ModelError> {
        let provider = &self.provider;
        let uri = to_uri(&self.url).map_err(|error| provider.unsent(&error.into()))?;
        let mut headers = codec(provider.api).headers(provider.key()?);
        headers.extend(self.headers.clone());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut request = Request::new(Body::new(Bytes::from(self.body.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

async fn refused(provider: &Provider, answer: Response<AnswerBody>) -> RelayFailure {
    let (head, body) = answer.into_parts();
    let body = beginning(Chunks::new(body), provider.silence).await;
    let error = failure::refused(provider.api, head.status, &head.headers, &body, provider.now());
    let retry_after = head.headers.get(header::RETRY_AFTER).cloned();
    RelayFailure { retry_after, ..RelayFailure::new(head.status, provider.named(error)) }
}

/// A request that the provider did not answer, or refused.
#[derive(Debug)]
pub struct RelayFailure {
    /// The status for the program.
    pub status: StatusCode,
    /// When the program may ask again.
    pub retry_after: Option<HeaderValue>,
    /// Why.
    pub error: ModelError,
}

impl RelayFailure {
    const fn new(status: StatusCode, error: ModelError) -> Self {
        Self { status, retry_after: None, error }
    }
}

/// An answer on its way to a program.
pub struct RelayedAnswer {
    /// The status.
    pub status: StatusCode,
    /// What the body is.
    pub kind: Option<HeaderValue>,
    passing: Passing,
    key: KeyMask,
    counted: Option<ReplyStream>,
    fed: Fed,
    provider: Arc<Provider>,
    _slot: OwnedSemaphorePermit,
}

/// How far an answer was understood.
enum Fed {
    More,
    Done,
    Failed(ModelError),
}

enum Passing {
    Stream(Chunks),
    Whole(Option<Bytes>),
}

impl RelayedAnswer {
    /// The next bytes; nothing at the end. `sink` hears what the model writes. The provider's key is
    /// masked in them, which some providers repeat.
    pub async fn next(&mut self, sink: &dyn TurnSink) -> Result<Option<Bytes>, ModelError> {
        loop {
            let came = self.came().await?;
            let is_end = came.is_none();
            let mut shown = came.map(|bytes| self.key.feed(&bytes)).unwrap_or_default();
            if is_end || matches!(self.passing, Passing::Whole(_)) {
                shown.extend(self.key.end());
            }
            if !shown.is_empty() {
                self.count(&shown, sink);
                return Ok(Some(shown.into()));
            }
            if is_end {
                return Ok(None);
            }
        }
    }

    async fn came(&mut self) -> Result<Option<Bytes>, ModelError> {
        let provider = &self.provider;
        match &mut self.passing {
            Passing::Whole(whole) => Ok(whole.take()),
            Passing::Stream(chunks) => match timeout(provider.silence, chunks.next()).await {
                Err(_) => Err(super::stream::silent(provider.silence)),
                Ok(Err(error)) => Err(provider.unsent(&error).begun()),
                Ok(Ok(chunk)) => Ok(chunk),
            },
        }
    }

    fn count(&mut self, bytes: &[u8], sink: &dyn TurnSink) {
        let Some(counted) = &mut self.counted else { return };
        match (&self.passing, &self.fed) {
            (Passing::Whole(_), _) => counted.whole(bytes),
            (Passing::Stream(_), Fed::More) => {
                // The program reads on, whatever is understood here.
                self.fed = match counted.feed(bytes, sink) {
                    Ok(Progress::More) => Fed::More,
                    Ok(Progress::Done) => Fed::Done,
                    Err(error) => Fed::Failed(error),
                };
            }
            (Passing::Stream(_), Fed::Done | Fed::Failed(_)) => {}
        }
    }

    /// The tokens that the provider has counted so far.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.counted.as_ref().and_then(ReplyStream::usage)
    }

    /// The whole answer, after its end: the reply, if it was one that is understood, or why not.
    pub fn end(self) -> Result<Reply, ModelError> {
        let no_reply = || ModelError::new(ModelErrorKind::Malformed, "it is no reply").begun();
        let counted = self.counted.ok_or_else(no_reply)?;
        match (self.fed, self.passing) {
            (Fed::Failed(error), _) => Err(error),
            (Fed::More | Fed::Done, Passing::Stream(_)) => counted.end(),
            (Fed::More | Fed::Done, Passing::Whole(_)) => Ok(Reply {
                parts: Vec::new(),
                stop: Stop::End,
                usage: counted.usage().ok_or_else(no_reply)?,
                api: self.provider.api,
                raw: Value::Null,
            }),
        }
    }
}

/// Bytes of a key that is a secret. Servers without keys are given words such as `none`, which stand in every
/// answer.
const SHORTEST_KEY: usize = 16;

/// Masks a key in bytes that come piece by piece.
struct KeyMask {
    key: Vec<u8>,
    /// What may be the beginning of the key.
    held: Vec<u8>,
}

impl KeyMask {
    fn new(key: Option<String>) -> Self {
        let key = key.filter(|key| key.len() >= SHORTEST_KEY);
        Self { key: key.unwrap_or_default().into_bytes(), held: Vec::new() }
    }

    fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Self { key, held } = self;
        let Some(first) = key.first().copied() else { return bytes.to_vec() };
        held.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(held.len());
        let mut at = 0;
        while let Some(rest) = held.get(at..).filter(|rest| !rest.is_empty()) {
            let plain = rest.iter().position(|byte| *byte == first).unwrap_or(rest.len());
            let (plain, perhaps) = rest.split_at(plain);
            shown.extend_from_slice(plain);
            at += plain.len();
            if perhaps.starts_with(key) {
                shown.extend_from_slice(MASK.as_bytes());
                at += key.len();
            } else if key.starts_with(perhaps) {
                break;
            } else {
                shown.push(first);
                at += 1;
            }
        }
        held.drain(..at);
        shown
    }

    fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// The characters of all texts in a request.
fn text_chars(value: &Value) -> u64 {
    match value {
        Value::String(text) => {
            let chars = text.chars().count() as u64;
            let is_opaque = chars > OPAQUE_CHARS && !text.contains([' ', '\n']);
            if is_opaque { OPAQUE_CHARS } else { chars }
        }
        Value::Array(items) => items.iter().map(text_chars).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.len() as u64).saturating_add(text_chars(value)))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
