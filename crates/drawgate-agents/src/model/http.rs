//! Requests to one provider: its key, its place in line, the time limits and the sizes.
//!
//! How long a turn may take as a whole is left to the caller, who drops it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ::http::{HeaderValue, Method, Request, Response, header};
use bytes::Bytes;
use drawgate_host::Host;
use drawgate_host::egress::address::to_uri;
use drawgate_host::egress::{AnswerBody, Body, Chunks, EgressError, Reach, read_body};
use drawgate_host::secrets::Resolved;
use drawgate_sources::setting::{MASK, Setting};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use url::Url;

use super::codec::{Progress, codec};
use super::stream::{MAX_REPLY, ReplyStream, silent};
use super::{Api, ModelError, ModelErrorKind, Reply, Turn, TurnSink, failure};

/// How long nothing may come.
pub(super) const SILENCE: Duration = Duration::from_mins(2);
/// How long the answer to a question about the provider itself may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// How much of a refusal is read.
const MAX_REFUSAL: usize = 64 * 1024;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("drawgate/", env!("CARGO_PKG_VERSION")));

/// A provider as it is configured.
pub(super) struct Provider {
    pub(super) name: String,
    pub(super) api: Api,
    pub(super) base: Url,
    /// The host of that address, and no other.
    pub(super) reach: Reach,
    pub(super) key: Option<Setting>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) silence: Duration,
    pub(super) host: Arc<Host>,
}

impl Provider {
    /// Makes one request for a turn.
    #[tracing::instrument(skip_all, fields(provider = self.name, model))]
    pub(super) async fn turn(
        &self,
        model: &str,
        turn: &Turn,
        sink: &dyn TurnSink,
    ) -> Result<Reply, ModelError> {
        let _slot = self.slot().await?;
        let url = codec(self.api).turn_url(&self.base, model);
        let body = codec(self.api).request(turn, model).to_string();
        let outcome = async {
            let request = self.request(Method::POST, &url, body.into(), EVENTS)?;
            let response = self.send(request, self.silence).await?;
            expect_events(&response)?;
            self.read(ReplyStream::new(self.api, turn), response, sink).await
        };
        outcome.await.map_err(|error| self.named(error))
    }

    /// Makes one request for a whole JSON answer.
    pub(super) async fn whole(&self, url: &Url, body: Option<&Value>) -> Result<Value, ModelError> {
        let _slot = self.slot().await?;
        let outcome = async {
            let (method, limit) = match body {
                Some(_) => (Method::POST, self.silence),
                None => (Method::GET, CHECK_TIMEOUT.min(self.silence)),
            };
            let body = body.map(ToString::to_string).unwrap_or_default();
            let request = self.request(method, url, body.into(), JSON)?;
            let response = self.send(request, limit).await?;
            let deadline = Instant::now() + limit;
            let body = read_body(response.into_body(), MAX_REPLY, deadline).await;
            let body = body.map_err(|error| self.unsent(&error))?;
            drawgate_core::json::parse_lossy(&body).map_err(|_| {
                let message = "the answer is not JSON; check the provider's `url`";
                ModelError::new(ModelErrorKind::Malformed, message).begun()
            })
        };
        outcome.await.map_err(|error| self.named(error))
    }

    async fn slot(&self) -> Result<SemaphorePermit<'_>, ModelError> {
        let closed = |_| ModelError::new(ModelErrorKind::Unreachable, "the gateway is stopping");
        self.slots.acquire().await.map_err(closed)
    }

    /// The same, for a request that outlives this borrow.
    pub(super) async fn own_slot(&self) -> Result<OwnedSemaphorePermit, ModelError> {
        let closed = |_| ModelError::new(ModelErrorKind::Unreachable, "the gateway is stopping");
        Arc::clone(&self.slots).acquire_owned().await.map_err(closed)
    }

    fn request(
        &self,
        method: Method,
        url: &Url,
        body: Bytes,
        accept: HeaderValue,
    ) -> Result<Request<Body>, ModelError> {
        let uri = to_uri(url).map_err(|error| self.unsent(&error.into()))?;
        let mut headers = codec(self.api).headers(self.key()?);
        headers.insert(header::ACCEPT, accept);
        headers.insert(header::USER_AGENT, USER_AGENT);
        if !body.is_empty() {
            headers.insert(header::CONTENT_TYPE, JSON);
        }
        let mut request = Request::new(Body::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The key as it is now; a new value of the variable counts from the next request on.
    pub(super) fn key(&self) -> Result<Option<HeaderValue>, ModelError> {
        let Some(setting) = &self.key else { return Ok(None) };
        let bad = |message: String| ModelError::new(ModelErrorKind::Key, message);
        let key = self.host.secrets.resolve(setting.expose());
        let key = key.map_err(|error| bad(error.to_string()))?;
        if let Resolved::Plain(literal) = &key {
            self.host.secrets.remember(literal);
        }
        let mut value = HeaderValue::from_str(key.expose())
            .ok()
            .filter(|value| !value.is_empty())
            .ok_or_else(|| {
                let where_from = setting.variable().unwrap_or("key");
                bad(format!(
                    "`{where_from}` is empty or holds characters that no key has; set it to the key alone"
                ))
            })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Sends a request and waits for an answer that is not a refusal.
    async fn send(
        &self,
        request: Request<Body>,
        limit: Duration,
    ) -> Result<Response<AnswerBody>, ModelError> {
        let deadline = Instant::now() + limit;
        let response = self.host.egress.request(request, &self.reach, deadline).await;
        let response = response.map_err(|error| self.unsent(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let body = beginning(Chunks::new(body), limit).await;
        Err(failure::refused(self.api, head.status, &head.headers, &body, self.now()))
    }

    pub(super) fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.host.clock.now_ms())
    }

    async fn read(
        &self,
        mut stream: ReplyStream,
        response: Response<AnswerBody>,
        sink: &dyn TurnSink,
    ) -> Result<Reply, ModelError> {
        let mut chunks = Chunks::new(response.into_body());
        loop {
            match timeout(self.silence, chunks.next()).await {
                Err(_) => return Err(stream.silent(self.silence)),
                Ok(Err(error)) => return stream.lost(&error),
                Ok(Ok(None)) => return stream.end(),
                Ok(Ok(Some(chunk))) => {
                    if stream.feed(&chunk, sink)? == Progress::Done {
                        return stream.end();
                    }
                }
            }
        }
    }

    /// A request that has no answer.
    pub(super) fn unsent(&self, error: &EgressError) -> ModelError {
        let kind = match error {
            EgressError::Deadline => return silent(self.silence),
            EgressError::Connect { .. }
            | EgressError::Slow(_)
            | EgressError::Lost(_)
            | EgressError::Truncated => ModelErrorKind::Unreachable,
            EgressError::Address(_)
            | EgressError::Refused { .. }
            | EgressError::Tls(_)
            | EgressError::Detour(_)
            | EgressError::Redirected(_) => ModelErrorKind::Rejected,
            EgressError::Protocol(_) | EgressError::TooLarge(_) | EgressError::Encoding(_) => {
                ModelErrorKind::Malformed
            }
        };
        ModelError { began: !error.nothing_was_sent(), ..ModelError::new(kind, error.to_string()) }
    }

    /// The key itself, to be masked.
    pub(super) fn key_text(&self) -> Option<String> {
        let key = self.host.secrets.resolve(self.key.as_ref()?.expose()).ok()?;
        Some(key.expose().to_owned()).filter(|key| !key.is_empty())
    }

    /// Names the provider in an error, and hides its key, which some providers repeat.
    pub(super) fn named(&self, error: ModelError) -> ModelError {
        let message = match self.key_text() {
            Some(key) => error.message.replace(&key, MASK),
            None => error.message,
        };
        ModelError { message: format!("provider `{}`: {message}", self.name), ..error }
    }
}

/// A server that does not know streaming, or that is none of a model's, answers with something else.
fn expect_events(response: &Response<AnswerBody>) -> Result<(), ModelError> {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.to_ascii_lowercase().starts_with("text/event-stream") {
        return Ok(());
    }
    let message = format!(
        "the answer is `{}` instead of a stream of events; check the provider's `kind` and `url`",
        failure::shown(kind)
    );
    Err(ModelError::new(ModelErrorKind::Malformed, message).begun())
}

/// The beginning of a refusal. Whatever goes wrong, there is still the status.
pub(super) async fn beginning(mut chunks: Chunks, limit: Duration) -> Vec<u8> {
    let mut read = Vec::new();
    let all = async {
        while let Ok(Some(chunk)) = chunks.next().await {
            let room = MAX_REFUSAL.saturating_sub(read.len());
            read.extend(chunk.iter().take(room));
            if read.len() >= MAX_REFUSAL {
                break;
            }
        }
    };
    // What has come is enough.
    let _ = timeout(limit, all).await;
    read
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
