//! Whole answers: redirects followed and checked again, packing undone, size and pace bounded.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tokio::time::timeout_at;
use url::Url;

use super::address::to_uri;
use super::decode::{Packing, Room, Unpacker};
use super::error::{Detour, EgressError};
use super::reach::Reach;
use super::redirect::{Step, location};
use super::{AnswerBody, Body, Chunks, Egress, MAX_REDIRECTS};

/// How long a body may take to get going, and how many bytes a second it must bring after that.
const GRACE: Duration = Duration::from_secs(5);
const SLOWEST: u64 = 1024;

/// Whether redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Up to five, each checked like the first request.
    Redirects,
    /// They are answers like any other.
    Nothing,
}

/// A request for a whole answer.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// The method.
    pub method: Method,
    /// The address, from [`address::parse`](super::address::parse).
    pub url: Url,
    /// Headers. On the way to another origin, all but those that say what is accepted are dropped.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Whom it may reach, redirects included.
    pub reach: Reach,
    /// When the whole answer must be there.
    pub deadline: Instant,
    /// The most bytes of the answer's body, unpacked.
    pub max_bytes: usize,
    /// Whether redirects are followed.
    pub follow: Follow,
}

impl Fetch {
    /// Asks for a document.
    #[must_use]
    pub fn get(url: Url, reach: Reach, deadline: Instant, max_bytes: usize) -> Self {
        let (headers, body, follow) = (HeaderMap::new(), Bytes::new(), Follow::Redirects);
        Self { method: Method::GET, url, headers, body, reach, deadline, max_bytes, follow }
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Where it came from in the end.
    pub url: Url,
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, unpacked.
    pub body: Bytes,
}

/// An answer of which the end may be missing.
#[derive(Debug, Clone)]
pub struct Excerpt {
    /// What there is of it.
    pub fetched: Fetched,
    /// Whether the limit cut it off, or the deadline a stream that has no end.
    pub is_cut: bool,
}

impl Egress {
    /// Fetches a whole answer; one that is too large is an error.
    pub async fn fetch(&self, fetch: Fetch) -> Result<Fetched, EgressError> {
        let cap = fetch.max_bytes;
        let excerpt = self.excerpt(fetch).await?;
        if excerpt.is_cut { Err(EgressError::TooLarge(cap)) } else { Ok(excerpt.fetched) }
    }

    /// Fetches an answer, or the beginning of one that is too large.
    pub async fn excerpt(&self, fetch: Fetch) -> Result<Excerpt, EgressError> {
        let Fetch { method, url, headers, body, reach, deadline, max_bytes, follow } = fetch;
        let mut step = Step { method, url, headers: asking(headers), body };
        for hop in 0..=MAX_REDIRECTS {
            let sent = self.send(&step, &reach, deadline).await;
            let response = match sent {
                Err(error @ EgressError::Redirected(_)) => return Err(error),
                Err(error) if hop > 0 => return Err(EgressError::Redirected(Box::new(error))),
                sent => sent?,
            };
            let status = response.status();
            let next = match follow {
                Follow::Redirects => location(&step.url, status, response.headers()),
                Follow::Nothing => None,
            };
            match next {
                Some(to) => step = step.follow(status, to?)?,
                None => return read(step.url, response, max_bytes, deadline).await,
            }
        }
        Err(Detour::Endless.into())
    }

    async fn send(
        &self,
        step: &Step,
        reach: &Reach,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, EgressError> {
        let mut request = Request::new(Body::new(step.body.clone()));
        *request.method_mut() = step.method.clone();
        *request.uri_mut() = to_uri(&step.url)?;
        *request.headers_mut() = step.headers.clone();
        self.request(request, reach, deadline).await
    }
}

fn asking(mut headers: HeaderMap) -> HeaderMap {
    let usual = [
        (header::ACCEPT, "*/*"),
        (header::USER_AGENT, concat!("drawgate/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate"));
    headers
}

async fn read(
    url: Url,
    response: Response<AnswerBody>,
    cap: usize,
    deadline: Instant,
) -> Result<Excerpt, EgressError> {
    let (head, body) = response.into_parts();
    let is_stream = head
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let mut unpacker = Unpacker::new(Packing::of(&head.headers)?, cap);
    let mut chunks = Chunks::new(body);
    let (start, mut received) = (tokio::time::Instant::now().into_std(), 0_u64);
    let is_cut = loop {
        // A stream of events has pauses by its nature; only the deadline ends it.
        let due = if is_stream { deadline } else { due(start, received).min(deadline) };
        match timeout_at(due.into(), chunks.next()).await {
            Err(_) if is_stream => break true,
            Err(_) => return Err(EgressError::Deadline),
            Ok(piece) => match piece? {
                None => break unpacker.finish()? == Room::Full,
                Some(piece) => {
                    received = received.saturating_add(piece.len() as u64);
                    if unpacker.feed(&piece)? == Room::Full {
                        break true;
                    }
                }
            },
        }
    };
    let (status, headers) = (head.status, head.headers);
    Ok(Excerpt { fetched: Fetched { url, status, headers, body: unpacker.take() }, is_cut })
}

/// When the next piece must be there for a body to keep the pace.
fn due(start: Instant, received: u64) -> Instant {
    start + GRACE + Duration::from_millis(received.saturating_mul(1000) / SLOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_earns_its_time() {
        let start = Instant::now();
        assert_eq!(due(start, 0), start + GRACE);
        assert_eq!(due(start, 10 * SLOWEST), start + GRACE + Duration::from_secs(10));
        assert!(due(start, 1) < start + GRACE + Duration::from_millis(1));
    }
}
