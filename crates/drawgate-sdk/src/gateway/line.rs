//! One HTTP/2 connection, as the generated clients want it.
//!
//! It never reconnects by itself: the login would not hold for another connection.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codegen::Service;

use super::{ConnectionError, Gateway, Plaintext, tls};
use crate::statement::SESSION_METADATA;

/// How long the way to the gateway may take: name, TCP, TLS.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// A gateway that is gone without a word is noticed after two of these.
const PING: Duration = Duration::from_secs(10);
/// How long the farewell may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// Room for a large message on the way, so that one call does not wait for window updates.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// What requests are sent on.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    sender: SendRequest<Body>,
    session: Option<HeaderValue>,
}

/// A connection; it is cut when this is dropped.
pub(crate) struct Connection {
    pub(super) line: Line,
    pub(super) server: String,
    tasks: Tasks,
    _cut: DropGuard,
}

/// What runs for one connection. HTTP/2 has tasks of its own, which would otherwise keep it open as
/// long as anybody holds a stream.
#[derive(Clone)]
struct Tasks {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.tracker.spawn(self.cut.clone().run_until_cancelled_owned(task));
    }
}

impl Connection {
    /// Dials. Nobody is logged in yet.
    pub(super) async fn open(gateway: &Gateway) -> Result<Self, ConnectionError> {
        let authority = gateway.authority().to_owned();
        timeout(DIAL_LIMIT, dial(gateway))
            .await
            .map_err(|_| ConnectionError::Timeout { authority })?
    }

    pub(crate) fn line(&self) -> Line {
        self.line.clone()
    }

    /// The gateway's identity.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Says farewell properly. All streams and other lines must have been dropped before.
    pub(crate) async fn close(self) {
        let Self { line, server: _, tasks, _cut } = self;
        drop(line);
        tasks.tracker.close();
        // Whether it ended by itself or is cut now makes no difference to us.
        let _ = timeout(CLOSE_LIMIT, tasks.tracker.wait()).await;
    }
}

impl Line {
    /// From now on every request carries the session.
    pub(super) fn set_session(&mut self, session: HeaderValue) {
        self.session = Some(session);
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(session) = &self.session {
            request
                .headers_mut()
                .insert(HeaderName::from_static(SESSION_METADATA), session.clone());
        }
        Box::pin(self.sender.send_request(request))
    }
}

async fn dial(gateway: &Gateway) -> Result<Connection, ConnectionError> {
    let address = &gateway.address;
    if !address.secure() && gateway.plaintext == Plaintext::Loopback && !address.on_loopback() {
        return Err(ConnectionError::Plaintext { authority: address.authority().to_owned() });
    }
    let stream = tcp(gateway).await.map_err(|error| ConnectionError::Dial {
        authority: address.authority().to_owned(),
        reason: error.to_string(),
    })?;
    if address.secure() {
        http2(gateway, tls::handshake(gateway, stream).await?).await
    } else {
        http2(gateway, stream).await
    }
}

async fn tcp(gateway: &Gateway) -> std::io::Result<TcpStream> {
    let address = &gateway.address;
    let found = tokio::net::lookup_host((address.host(), address.port())).await?;
    // A resolver that gives `localhost` away must not lead plaintext off this machine.
    let anywhere = address.secure() || gateway.plaintext == Plaintext::Anywhere;
    let mut allowed: Vec<SocketAddr> =
        found.filter(|address| anywhere || address.ip().is_loopback()).collect();
    if address.on_loopback() {
        // Where the gateway listens by default; the same port of the other family may be anybody's.
        allowed.sort_by_key(|address| !address.is_ipv4());
    }
    let stream = TcpStream::connect(allowed.as_slice()).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn http2<S>(gateway: &Gateway, stream: S) -> Result<Connection, ConnectionError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let tasks = Tasks { tracker: TaskTracker::new(), cut: CancellationToken::new() };
    let (sender, driver) = http2::Builder::new(tasks.clone())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| ConnectionError::Protocol {
            authority: gateway.authority().to_owned(),
            reason: error.to_string(),
        })?;
    tasks.execute(async move {
        if let Err(error) = driver.await {
            tracing::debug!(%error, "the connection to the gateway ended");
        }
    });
    let line = Line { sender, session: None };
    Ok(Connection { line, server: String::new(), _cut: tasks.cut.clone().drop_guard(), tasks })
}
