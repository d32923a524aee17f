//! HTTP answers: refusals, and streams of events.

use std::time::{Duration, Instant};

use ::http::{HeaderMap, Response, StatusCode, header};
use drawgate_core::json;
use drawgate_core::source::SourceError;
use drawgate_host::egress::events::{Event, Parser};
use drawgate_host::egress::{AnswerBody as ResponseBody, Chunks, read_body};
use serde_json::Value;
use tokio::time::timeout;

use crate::failed_request::source_error;
use crate::mcp::wire::{self, MAX_MESSAGE};
use crate::pace::Pace;

/// How much of a refusal is read.
const MAX_REFUSAL: usize = 64 * 1024;
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

/// What a server means by refusing a request.
pub(super) async fn refusal(
    status: StatusCode,
    response: Response<ResponseBody>,
    deadline: Instant,
) -> Failure {
    let body = read_body(response.into_body(), MAX_REFUSAL, deadline).await.unwrap_or_default();
    let own_words = json::parse_lossy(&body)
        .ok()
        .and_then(|mut message| message.get_mut("error").map(Value::take));
    let error = match own_words {
        Some(error) if error.is_object() && !is_about_access(status) => wire::failure(error),
        Some(_) | None => refused(status),
    };
    Failure::Rejected { status, error }
}

fn is_about_access(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// What a status that is not success means.
pub(in crate::mcp) fn refused(status: StatusCode) -> SourceError {
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
pub(in crate::mcp) struct Stream {
    chunks: Chunks,
    parser: Parser,
    ready: std::collections::VecDeque<Event>,
    pace: Pace,
}

impl Stream {
    pub(in crate::mcp) fn new(body: ResponseBody) -> Self {
        Self {
            chunks: Chunks::new(body),
            parser: Parser::new(MAX_MESSAGE),
            ready: std::collections::VecDeque::new(),
            pace: Pace::default(),
        }
    }

    /// The next event; `None` at the end.
    pub(in crate::mcp) async fn next(&mut self) -> Result<Option<Event>, SourceError> {
        while self.ready.is_empty() {
            let Some(chunk) = self.chunks.next().await.map_err(|error| source_error(&error))?
            else {
                return Ok(None);
            };
            let Self { parser, ready, pace, .. } = self;
            parser.feed(&chunk, |event| ready.push_back(event)).map_err(|_| {
                SourceError::Protocol(format!(
                    "the server sent a message of more than {MAX_MESSAGE} bytes"
                ))
            })?;
            if ready.is_empty() {
                // Comments and fields without an event: a message that is large has few lines.
                pace.lines(chunk.split(|byte| *byte == b'\n').count(), 0).await;
            }
        }
        // Before it is taken: a reader that gives up meanwhile loses nothing.
        let size = self.ready.front().map_or(0, |event| event.data.len());
        self.pace.message(size).await;
        Ok(self.ready.pop_front())
    }

    /// The pause before a reconnection that the server asked for.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.parser.retry()
    }

    /// Reads what is left, so that the connection can be used again.
    pub(super) fn drain(mut self) {
        tokio::spawn(timeout(DRAIN_TIMEOUT, async move {
            while let Ok(Some(_)) = self.chunks.next().await {}
        }));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Media {
    Json,
    Events,
    Other,
}

pub(in crate::mcp) fn media_type(headers: &HeaderMap) -> Media {
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
