//! HTTP clients. Connections that may go anywhere and those that may not belong to clients of their
//! own, so that none made for one serves the other.
//!
//! Whoever sends a request drives the connection itself until the answer is read; no task stands in
//! between. After that the connection is kept for the next one.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{Request, Response, Uri};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::Service;

use super::address::{bare_host, port};
use super::kept::{Kept, Usable};
use super::network::{DialError, Network, Scope, dial};
use super::{Body, MAX_HEAD, MAX_HEADERS};
use crate::repoll::Repoll;

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type BoxError = Box<dyn StdError + Send + Sync>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// Nothing was sent, since there is no connection.
    #[error("no connection")]
    Connect(#[source] BoxError),
    #[error("no answer")]
    Exchange(#[from] hyper::Error),
}

/// The connections of one kind. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(super) struct Client {
    way: Way,
    kept: Arc<Kept<Box<Line>>>,
}

#[derive(Clone)]
enum Way {
    Plain(Connector),
    Secure(HttpsConnector<Connector>),
}

impl Client {
    /// A client for `http`.
    pub(super) fn plain(network: Arc<dyn Network>, scope: Scope) -> Self {
        Self { way: Way::Plain(Connector { network, scope }), kept: Arc::default() }
    }

    /// One for `https` that makes its connections in the same way.
    pub(super) fn secure(network: Arc<dyn Network>, scope: Scope, config: ClientConfig) -> Self {
        let tls = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .wrap_connector(Connector { network, scope });
        Self { way: Way::Secure(tls), kept: Arc::default() }
    }

    /// Sends a request and waits for the head of the answer. A kept connection that was closed before
    /// anything was sent on it is as if it had not been there.
    pub(super) async fn request(
        &self,
        request: Request<Body>,
    ) -> Result<Response<AnswerBody>, ClientError> {
        let (uri, authority, mut request) = prepared(request)?;
        while let Some(mut line) = self.kept.take(&authority) {
            match line.exchange(request).await {
                Ok(answer) => return Ok(self.answered(answer, authority, line)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failed.into_error().into()),
                },
            }
        }
        let mut line = Box::pin(self.line(uri)).await?;
        let answer = line.exchange(request).await.map_err(TrySendError::into_error)?;
        Ok(self.answered(answer, authority, line))
    }

    /// Sends a request for another protocol, on a connection of its own, which a task drives.
    pub(super) async fn upgrade(
        &self,
        request: Request<Body>,
    ) -> Result<Response<AnswerBody>, ClientError> {
        let (uri, _, request) = prepared(request)?;
        let (mut sender, connection) = self.connect(uri).await?;
        drop(tokio::spawn(connection.with_upgrades()));
        let answer = sender.send_request(request).await?;
        Ok(answer.map(|body| AnswerBody { body: Some(body), line: None }))
    }

    /// A line of its own on the heap: it is large, and goes from hand to hand.
    async fn line(&self, uri: Uri) -> Result<Box<Line>, ClientError> {
        let (sender, connection) = self.connect(uri).await?;
        let (connection, repoll) = (Some(connection), Repoll::default());
        Ok(Box::new(Line { sender, connection, repoll }))
    }

    async fn connect(&self, uri: Uri) -> Result<(SendRequest<Body>, LineConnection), ClientError> {
        let stream = match self.way.clone() {
            Way::Plain(mut connector) => {
                let stream = connector.call(uri).await;
                stream.map(MaybeHttpsStream::Http).map_err(BoxError::from)
            }
            Way::Secure(mut connector) => connector.call(uri).await,
        };
        let (sender, connection) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD)
            .handshake(stream.map_err(ClientError::Connect)?)
            .await?;
        Ok((sender, connection))
    }

    fn answered(
        &self,
        answer: Response<Incoming>,
        authority: Authority,
        line: Box<Line>,
    ) -> Response<AnswerBody> {
        let used = UsedLine { line, authority, kept: Arc::clone(&self.kept) };
        answer.map(|body| AnswerBody { body: Some(body), line: Some(used) })
    }
}

/// Where a request goes, and the request as a server takes it: with the path alone, and the host as a
/// header.
fn prepared(mut request: Request<Body>) -> Result<(Uri, Authority, Request<Body>), ClientError> {
    let uri = request.uri().clone();
    let nowhere = || ClientError::Connect(Box::new(DialError::Unknown));
    let authority = uri.authority().cloned().ok_or_else(nowhere)?;
    let host = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, host)| host);
    let host = HeaderValue::from_str(host).map_err(|_| nowhere())?;
    request.headers_mut().entry(HOST).or_insert(host);
    let path = uri.path_and_query().cloned();
    *request.uri_mut() = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
    Ok((uri, authority, request))
}

type LineConnection = Connection<Stream, Body>;

/// One connection.
struct Line {
    sender: SendRequest<Body>,
    /// None when it has ended.
    connection: Option<LineConnection>,
    repoll: Repoll,
}

type Unsent = TrySendError<Request<Body>>;

impl Line {
    async fn exchange(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Unsent> {
        let Self { sender, connection, repoll } = self;
        let mut answer = pin!(sender.try_send_request(request));
        poll_fn(|context| {
            repoll.poll(context, |context| {
                drive(connection, context);
                answer.as_mut().poll(context)
            })
        })
        .await
    }
}

impl Usable for Box<Line> {
    fn is_usable(&mut self) -> bool {
        drive(&mut self.connection, &mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// Lets a connection read and write. Whoever waits for it learns of its end by that it is gone.
fn drive(connection: &mut Option<LineConnection>, context: &mut Context<'_>) {
    if let Some(running) = connection
        && Pin::new(running).poll(context).is_ready()
    {
        *connection = None;
    }
}

/// The body of an answer. Reading it drives its connection.
pub struct AnswerBody {
    body: Option<Incoming>,
    /// None if a task drives the connection.
    line: Option<UsedLine>,
}

/// A connection, and where it goes after use.
struct UsedLine {
    line: Box<Line>,
    authority: Authority,
    kept: Arc<Kept<Box<Line>>>,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body, line } = &mut *self;
        let Some(body) = body else { return Poll::Ready(None) };
        let Some(line) = line else { return Pin::new(body).poll_frame(context) };
        let Line { connection, repoll, .. } = &mut *line.line;
        repoll.poll(context, |context| {
            drive(connection, context);
            Pin::new(&mut *body).poll_frame(context)
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(hyper::body::Body::size_hint).unwrap_or_default()
    }
}

impl Drop for AnswerBody {
    /// What is left of the answer and at hand is passed over. A connection with more of it is closed.
    fn drop(&mut self) {
        drop(self.body.take());
        if let Some(used) = self.line.take() {
            used.kept.put(used.authority, used.line);
        }
    }
}

impl std::fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerBody").field("body", &self.body).finish_non_exhaustive()
    }
}

/// Makes connections whose addresses have been checked.
#[derive(Clone)]
struct Connector {
    network: Arc<dyn Network>,
    scope: Scope,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { network, scope } = self.clone();
        Box::pin(async move {
            let host = bare_host(&uri).ok_or(DialError::Unknown)?;
            Ok(TokioIo::new(dial(&network, host, port(&uri), scope).await?))
        })
    }
}
