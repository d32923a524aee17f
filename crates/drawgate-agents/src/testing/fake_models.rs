//! A server on the loopback interface that speaks the APIs of all four providers.
//!
//! It answers by rules that look at the request alone, so that conversations may come in any order and
//! at the same time. `GET /requests` lists what it received, and `GET /served` the tokens that it served,
//! for programs that can't call [`FakeModels`].

mod asked;
mod cache;
mod events;
mod rules;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use asked::Asked;
use bytes::Bytes;
use cache::{Cache, Cached};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
pub use rules::{Answer, Call, Page, Rule, When};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::model::Api;

/// A running server. It ends when it is dropped.
pub struct FakeModels {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

/// A request that was received.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Received {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The headers, in order, by their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `null` if there was none.
    pub body: Value,
}

impl Received {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Tokens that were served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Read, by the estimate of [`crate::model::estimate`].
    pub input: u64,
    /// Written.
    pub output: u64,
}

/// What requests share.
struct Shared {
    rules: Vec<Rule>,
    key: Option<String>,
    received: watch::Sender<Vec<Received>>,
    served: Mutex<Served>,
    cache: Cache,
    /// The names by which held answers were released.
    released: watch::Sender<BTreeSet<String>>,
}

impl FakeModels {
    /// Starts a server that takes any key, or none.
    pub async fn start(rules: Vec<Rule>) -> io::Result<Self> {
        Self::serve(rules, None).await
    }

    /// Starts a server that takes one key.
    pub async fn start_with_key(rules: Vec<Rule>, key: &str) -> io::Result<Self> {
        Self::serve(rules, Some(key.to_owned())).await
    }

    async fn serve(rules: Vec<Rule>, key: Option<String>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (received, released) = (watch::Sender::default(), watch::Sender::default());
        let served = Mutex::default();
        let shared =
            Arc::new(Shared { rules, key, received, served, cache: Cache::default(), released });
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _serving: serving })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to configure for a provider of this API.
    #[must_use]
    pub fn url(&self, api: Api) -> String {
        match api {
            Api::Anthropic | Api::Gemini => format!("http://{}", self.address),
            Api::Openai | Api::OpenaiChat => format!("http://{}/v1", self.address),
        }
    }

    /// All requests so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.shared.received.borrow().clone()
    }

    /// Waits until a request that fits has come; its answer may not have been sent yet.
    pub async fn asked(&self, fits: impl Fn(&Received) -> bool) -> Received {
        let mut received = self.shared.received.subscribe();
        // The sender lives as long as `self`, so that the channel can't close before.
        loop {
            let found = received.borrow_and_update().iter().find(|one| fits(one)).cloned();
            match found {
                Some(found) => return found,
                None => drop(received.changed().await),
            }
        }
    }

    /// Sends the answers that are held until this, and those to come.
    pub fn release(&self, held: &str) {
        self.shared.released.send_modify(|released| {
            released.insert(held.to_owned());
        });
    }

    /// The tokens of all answers so far.
    #[must_use]
    pub fn served(&self) -> Served {
        *self.shared.served.lock()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    // A connection that a rule breaks off ends with an error.
    let served = hyper::server::conn::http1::Builder::new();
    let _ = served.serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Pieces> {
        let (head, body) = request.into_parts();
        let body =
            body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/requests") => return Pieces::json(&json!(*self.received.borrow())),
            (&Method::GET, "/served") => return Pieces::json(&json!(*self.served.lock())),
            _ => {}
        }
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let received = Received {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: head.headers.iter().map(shown_header).collect(),
            body,
        };
        self.received.send_modify(|all| all.push(received.clone()));
        let asked = Asked::read(head.uri.path(), &received.body);
        if let Some(Answer::Held { until, .. }) = asked.as_ref().and_then(|asked| self.rule(asked))
        {
            // The sender is in `self`, so that the channel can't close.
            let _ = self.released.subscribe().wait_for(|released| released.contains(until)).await;
        }
        match self.reply(&head.method, head.uri.path(), &received, asked.as_ref()) {
            Reply::Now(response) => response,
            Reply::Never => std::future::pending().await,
        }
    }

    /// The answer of the first rule that fits.
    fn rule(&self, asked: &Asked) -> Option<&Answer> {
        self.rules.iter().find(|rule| asked.fits(rule)).map(|rule| &rule.reply)
    }

    fn reply(
        &self,
        method: &Method,
        path: &str,
        received: &Received,
        asked: Option<&Asked>,
    ) -> Reply {
        if !self.is_welcome(received) {
            let error = json!({"error": {
                "type": "authentication_error",
                "code": "invalid_api_key",
                "message": "the key is wrong",
            }});
            return Reply::Now(Pieces::status(StatusCode::UNAUTHORIZED, error.to_string()));
        }
        if method == Method::GET && path.ends_with("/models") {
            let models = json!([{"id": "fake", "name": "models/fake"}]);
            return Reply::Now(Pieces::json(&json!({"data": models, "models": models})));
        }
        let rule = asked.and_then(|asked| Some((asked, self.rule(asked)?)));
        let Some((asked, answer)) = rule else {
            let error = json!({"error": {"message": "no rule of the fake server fits"}});
            return Reply::Now(Pieces::status(StatusCode::NOT_FOUND, error.to_string()));
        };
        self.follow(asked, answer, &received.body)
    }

    fn is_welcome(&self, received: &Received) -> bool {
        let Some(key) = &self.key else { return true };
        let bearer = received.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
        let others = ["x-api-key", "x-goog-api-key"].map(|name| received.header(name));
        others.into_iter().chain([bearer]).flatten().any(|given| given == key)
    }

    fn follow(&self, asked: &Asked, answer: &Answer, body: &Value) -> Reply {
        match answer {
            Answer::Hang => return Reply::Never,
            Answer::Held { reply, .. } => return self.follow(asked, reply, body),
            Answer::Status { code, headers, body } => {
                let status = StatusCode::from_u16(*code).unwrap_or(StatusCode::BAD_REQUEST);
                let mut response = Pieces::status(status, body.to_string());
                for (name, value) in headers {
                    if let (Ok(name), Ok(value)) = (name.parse(), value.parse()) {
                        let name: http::HeaderName = name;
                        response.headers_mut().insert(name, value);
                    }
                }
                return Reply::Now(response);
            }
            Answer::Text(_)
            | Answer::Calls(_)
            | Answer::Search(_)
            | Answer::Raw(_)
            | Answer::DropAfter { .. } => {}
        }
        let cached = match asked.api {
            Api::Anthropic => self.cache.take(body),
            Api::Openai | Api::OpenaiChat | Api::Gemini => Cached::default(),
        };
        let written = events::write(asked, answer, cached);
        {
            let mut served = self.served.lock();
            served.input = served.input.saturating_add(written.usage.read());
            served.output = served.output.saturating_add(written.usage.output);
        }
        Reply::Now(Pieces::events(written))
    }
}

enum Reply {
    Now(Response<Pieces>),
    Never,
}

fn shown_header((name, value): (&http::HeaderName, &http::HeaderValue)) -> (String, String) {
    (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A body in pieces, which may end before it is whole.
struct Pieces {
    left: std::vec::IntoIter<Bytes>,
    is_cut: bool,
}

impl Pieces {
    fn events(written: events::Written) -> Response<Self> {
        let kind = if written.is_stream { "text/event-stream" } else { "application/json" };
        let left = written.pieces.into_iter().map(Bytes::from).collect::<Vec<_>>().into_iter();
        let mut response = Response::new(Self { left, is_cut: written.is_cut });
        let kind = http::HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    fn json(value: &Value) -> Response<Self> {
        Self::status(StatusCode::OK, value.to_string())
    }

    fn status(status: StatusCode, body: String) -> Response<Self> {
        let left = vec![Bytes::from(body)].into_iter();
        let mut response = Response::new(Self { left, is_cut: false });
        *response.status_mut() = status;
        let kind = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match self.left.next() {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if std::mem::take(&mut self.is_cut) => {
                Some(Err(io::Error::other("a rule ends the answer here")))
            }
            None => None,
        })
    }
}

#[cfg(test)]
#[path = "fake_models/fake_models_tests.rs"]
mod tests;
