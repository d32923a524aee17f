//! A gateway that runs on a data folder, reached by its control socket.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::surface::control::{APPROVAL_SOCKET, SOCKET};
use drawgate_runtime::edits::InForce;
use drawgate_runtime::operations::Status;

/// How long a request that a gateway has not taken waits for the next gateway, and how often it is tried.
const SUCCESSION: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(25);

/// The way to a running gateway.
#[derive(Debug, Clone)]
pub(super) struct Running {
    socket: PathBuf,
    /// How long a request that it does not take any more waits for the next gateway.
    patience: Duration,
}

impl Running {
    /// The gateway of a data folder, if one answers there.
    pub(super) async fn find(data: &Path) -> Option<Self> {
        Self::at(data.join(SOCKET), SUCCESSION).await
    }

    /// The gateway that another command has for itself, if it may hold a call: approvals are all that it
    /// answers.
    pub(super) async fn find_own(data: &Path) -> Option<Self> {
        Self::at(data.join(APPROVAL_SOCKET), Duration::ZERO).await
    }

    async fn at(socket: PathBuf, patience: Duration) -> Option<Self> {
        UnixStream::connect(&socket).await.ok().map(|_| Self { socket, patience })
    }

    /// The same, about which it matters whether it is this one that answers.
    pub(super) fn impatient(self) -> Self {
        Self { patience: Duration::ZERO, ..self }
    }

    /// Sends one request on a connection of its own. Where a gateway ends just then, and has not taken the
    /// request, it goes to the next one.
    pub(super) async fn send(&self, request: Request<Body>) -> anyhow::Result<Response<Incoming>> {
        let lost = || format!("the gateway at `{}` does not answer", self.socket.display());
        let (mut head, body) = request.into_parts();
        head.headers.insert(http::header::HOST, http::HeaderValue::from_static("localhost"));
        let mut request = Request::from_parts(head, body);
        let until = Instant::now() + self.patience;
        loop {
            let stream = match UnixStream::connect(&self.socket).await {
                Err(_) if Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                connected => connected.with_context(lost)?,
            };
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.with_context(lost)?;
            tokio::spawn(connection);
            let mut failed = match sender.try_send_request(request).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            request = match failed.take_message() {
                Some(unsent) if Instant::now() < until => unsent,
                _ => return Err(failed.into_error()).with_context(lost),
            };
        }
    }

    /// The configuration that it runs with.
    pub(super) async fn configuration(&self) -> anyhow::Result<InForce> {
        Ok(self.status().await?.configuration.in_force)
    }

    /// What it is, and what it does.
    pub(super) async fn status(&self) -> anyhow::Result<Status> {
        let request = Request::builder().uri("/status").body(Body::empty())?;
        let answer = self.exchange(request).await?;
        serde_json::from_slice(answer.body()).context("the gateway's answer can't be read")
    }

    /// Asks it to end, which only a gateway that a client has started does.
    pub(super) async fn make_way(&self) -> anyhow::Result<()> {
        let request = Request::post("/make-way").body(Body::empty())?;
        self.exchange(request).await.map(drop)
    }

    /// Has it look now at the configuration and what counts with it, which it may find to be half saved.
    pub(super) async fn look(&self) -> anyhow::Result<()> {
        let request = Request::post("/configuration/look").body(Body::empty())?;
        self.exchange(request).await.map(drop)
    }

    /// Tells it that the file with this SHA-256 was written in one piece.
    pub(super) async fn written(&self, hash: &str) -> anyhow::Result<()> {
        let target = format!("/configuration/look?written={hash}");
        self.exchange(Request::post(target).body(Body::empty())?).await.map(drop)
    }

    /// Sends one request and reads the whole answer.
    pub(super) async fn exchange(&self, request: Request<Body>) -> anyhow::Result<Response<Bytes>> {
        use http_body_util::BodyExt;
        let (head, body) = self.send(request).await?.into_parts();
        let body = body.collect().await.context("the gateway's answer ended early")?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}
