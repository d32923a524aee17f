//! From an HTTP answer, whole or as a stream of events, to the answer of a request.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use drawgate_core::json;
use drawgate_core::source::SourceError;
use drawgate_host::egress::{Chunks, Incoming as ResponseBody, read_body};
use serde_json::Value;
use tokio::time::{sleep, timeout, timeout_at};

use super::sse::{Event, Parser};
use super::{Peer, Session, headers, source_error};
use crate::mcp::progress::Progress;
use crate::mcp::wire::{self, Era, Incoming, MAX_MESSAGE};
use crate::mcp::{Reply, too_late};

/// How much of a refusal is read.
const MAX_REFUSAL: usize = 64 * 1024;
/// How often a stream that breaks off is taken up again.
const MAX_RESUMPTIONS: usize = 8;
/// The pause before that, if the server names none.
const RESUME_PAUSE: Duration = Duration::from_millis(200);
/// How long the end of a stream is waited for, so that its connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// For the caller.
    Source(SourceError),
    /// The server does not know the session.
    SessionGone,
    /// The server refused the request itself.
    Rejected { status: StatusCode, error: SourceError },
}

impl Failure {
    pub(super) fn into_source(self) -> SourceError {
        match self {
            Self::Source(error) | Self::Rejected { error, .. } => error,
            Self::SessionGone => {
                SourceError::unreachable("the server has forgotten the session again")
            }
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// Waits for the answer to one request.
pub(super) struct Waiter<'a> {
    pub(super) peer: &'a Arc<Peer>,
    pub(super) session: &'a Arc<Session>,
    pub(super) id: u64,
    pub(super) progress: Option<Progress>,
    pub(super) deadline: Instant,
}

impl Waiter<'_> {
    pub(super) async fn answer(
        mut self,
        response: Response<ResponseBody>,
    ) -> Result<Reply, Failure> {
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(status, response).await);
        }
        match media_type(response.headers()) {
            Media::Json => {
                let body = read_body(response.into_body(), MAX_MESSAGE, self.deadline).await;
                Ok(self.whole(&body.map_err(|error| source_error(&error))?)?)
            }
            Media::Events => Ok(self.stream(response).await?),
            Media::Other => Err(SourceError::Protocol(format!(
                "the server answered with neither JSON nor an event stream (HTTP {})",
                status.as_u16()
            ))
            .into()),
        }
    }

    fn whole(&mut self, body: &Bytes) -> Result<Reply, SourceError> {
        let message = json::parse(body).map_err(|error| {
            SourceError::Protocol(format!("the server's answer can't be read: {error}"))
        })?;
        match self.take(message, body.len()) {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(()) => Err(SourceError::Protocol(
                "the server's answer does not answer the request".to_owned(),
            )),
        }
    }

    /// Takes one message; breaks with the answer.
    fn take(&mut self, message: Value, size: usize) -> ControlFlow<Result<Reply, SourceError>> {
        match wire::sort(message) {
            Incoming::Answer { id, outcome } if id == self.id => {
                return ControlFlow::Break(outcome.map(|result| Reply { result, size }));
            }
            Incoming::Progress { token, report } if token == self.id => {
                if let Some(progress) = &mut self.progress {
                    progress.report(report, Instant::now());
                }
            }
            Incoming::ToolsChanged => self.peer.changes.announce(),
            Incoming::Request { reply } => self.peer.send_aside(self.session, &reply),
            Incoming::Ignored => {}
            Incoming::Answer { .. } | Incoming::Progress { .. } | Incoming::Nonsense => {
                self.peer.journal.ignored();
            }
        }
        ControlFlow::Continue(())
    }

    async fn stream(&mut self, response: Response<ResponseBody>) -> Result<Reply, SourceError> {
        let deadline = self.deadline;
        timeout_at(deadline.into(), self.read_stream(response)).await.map_err(|_| too_late())?
    }

    async fn read_stream(
        &mut self,
        mut response: Response<ResponseBody>,
    ) -> Result<Reply, SourceError> {
        let mut last_id = None;
        for _ in 0..=MAX_RESUMPTIONS {
            let mut stream = Stream::new(response.into_body());
            let broken = loop {
                match stream.next().await {
                    Ok(Some(event)) => {
                        last_id = event.id.or(last_id);
                        if let ControlFlow::Break(outcome) = self.event(&event.data) {
                            stream.drain();
                            return outcome;
                        }
                    }
                    Ok(None) => break SourceError::lost("the server's answer ended early"),
                    Err(error) => break error,
                }
            };
            let resumable = self.session.era == Era::Sessions;
            let Some(id) = last_id.as_deref().filter(|_| resumable) else { return Err(broken) };
            sleep(stream.parser.retry().unwrap_or(RESUME_PAUSE)).await;
            response = self.resume(id).await?.ok_or(broken)?;
        }
        Err(SourceError::lost("the server's answer broke off again and again"))
    }

    fn event(&mut self, data: &[u8]) -> ControlFlow<Result<Reply, SourceError>> {
        if data.is_empty() {
            return ControlFlow::Continue(());
        }
        if let Ok(message) = json::parse(data) {
            return self.take(message, data.len());
        }
        self.peer.journal.ignored();
        ControlFlow::Continue(())
    }

    /// Takes a stream up again after its last event; `None` if the server won't.
    async fn resume(&self, last_id: &str) -> Result<Option<Response<ResponseBody>>, SourceError> {
        let mut headers = self.session.headers.clone();
        let Ok(id) = HeaderValue::from_str(last_id) else { return Ok(None) };
        headers.insert(headers::LAST_EVENT_ID, id);
        let response = self.peer.send(Method::GET, headers, Bytes::new(), self.deadline).await?;
        let usable =
            response.status().is_success() && media_type(response.headers()) == Media::Events;
        Ok(usable.then_some(response))
    }

    async fn refusal(&mut self, status: StatusCode, response: Response<ResponseBody>) -> Failure {
        if status == StatusCode::NOT_FOUND && self.session.id.is_some() {
            return Failure::SessionGone;
        }
        let body =
            read_body(response.into_body(), MAX_REFUSAL, self.deadline).await.unwrap_or_default();
        let own_words = json::parse(&body)
            .ok()
            .and_then(|mut message| message.get_mut("error").map(Value::take));
        let error = match own_words {
            Some(error) if error.is_object() && !is_about_access(status) => wire::failure(error),
            Some(_) | None => refused(status),
        };
        Failure::Rejected { status, error }
    }
}

fn is_about_access(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn refused(status: StatusCode) -> SourceError {
    let code = status.as_u16();
    if is_about_access(status) {
        return SourceError::unreachable(format!(
            "the server does not accept the gateway's credentials (HTTP {code}); check its `headers`"
        ));
    }
    if status.is_redirection() {
        return SourceError::Protocol(format!(
            "the server answered with a redirect (HTTP {code}), which is not followed; configure its final address"
        ));
    }
    if status.is_server_error() {
        return SourceError::lost(format!("the server failed (HTTP {code})"));
    }
    SourceError::unreachable(format!("the server refused the request (HTTP {code})"))
}

/// A stream of events.
pub(super) struct Stream {
    chunks: Chunks,
    parser: Parser,
    ready: std::collections::VecDeque<Event>,
}

impl Stream {
    pub(super) fn new(body: ResponseBody) -> Self {
        Self {
            chunks: Chunks::new(body),
            parser: Parser::new(MAX_MESSAGE),
            ready: std::collections::VecDeque::new(),
        }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, SourceError> {
        while self.ready.is_empty() {
            let Some(chunk) = self.chunks.next().await.map_err(|error| source_error(&error))?
            else {
                return Ok(None);
            };
            let Self { parser, ready, .. } = self;
            parser.feed(&chunk, |event| ready.push_back(event)).map_err(|_| {
                SourceError::Protocol(format!(
                    "the server sent a message of more than {MAX_MESSAGE} bytes"
                ))
            })?;
        }
        Ok(self.ready.pop_front())
    }

    /// Reads what is left, so that the connection can be used again.
    fn drain(mut self) {
        tokio::spawn(timeout(DRAIN_TIMEOUT, async move {
            while let Ok(Some(_)) = self.chunks.next().await {}
        }));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Events,
    Other,
}

pub(super) fn media_type(headers: &HeaderMap) -> Media {
    let value =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        Media::Json
    } else if essence.eq_ignore_ascii_case("text/event-stream") {
        Media::Events
    } else {
        Media::Other
    }
}
