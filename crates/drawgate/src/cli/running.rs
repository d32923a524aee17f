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

use super::exit::Exit;
use crate::surface::control::SOCKET;
use drawgate_runtime::edits::InForce;
use drawgate_runtime::operations::Status;

/// A gateway that holds the folder but does not answer yet is given this long.
const STARTING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(25);

/// The way to a running gateway.
#[derive(Debug, Clone)]
pub(super) struct Running {
    socket: PathBuf,
}

/// Whether a gateway ends for another one.
pub(super) enum MakesWay {
    /// A client has started it, and it ends.
    Yes {
        /// Its process.
        pid: u32,
    },
    /// It goes on.
    No {
        /// Its process.
        pid: u32,
        /// Where it serves.
        address: String,
    },
}

impl Running {
    /// The gateway of a data folder, if one answers there.
    pub(super) async fn find(data: &Path) -> Option<Self> {
        let socket = data.join(SOCKET);
        UnixStream::connect(&socket).await.ok().map(|_| Self { socket })
    }

    /// The same, for a folder that is known to be in use: waits while it starts.
    pub(super) async fn wait(data: &Path) -> anyhow::Result<Self> {
        let until = Instant::now() + STARTING;
        loop {
            if let Some(found) = Self::find(data).await {
                return Ok(found);
            }
            if Instant::now() > until {
                return Err(Exit::Unavailable.error(format!(
                    "a gateway uses `{}` but does not answer on its control socket",
                    data.display()
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends one request on a connection of its own.
    pub(super) async fn send(&self, request: Request<Body>) -> anyhow::Result<Response<Incoming>> {
        let lost = || format!("the gateway at `{}` does not answer", self.socket.display());
        let stream = UnixStream::connect(&self.socket).await.with_context(lost)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.with_context(lost)?;
        tokio::spawn(connection);
        let (mut head, body) = request.into_parts();
        head.headers.insert(http::header::HOST, http::HeaderValue::from_static("localhost"));
        sender.send_request(Request::from_parts(head, body)).await.with_context(lost)
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
    pub(super) async fn make_way(&self) -> anyhow::Result<MakesWay> {
        let status = self.status().await?;
        let request = Request::post("/make-way").body(Body::empty())?;
        Ok(if self.exchange(request).await?.status().is_success() {
            MakesWay::Yes { pid: status.pid }
        } else {
            let address = status.endpoint.unwrap_or_else(|| "no address".to_owned());
            MakesWay::No { pid: status.pid, address }
        })
    }

    /// Tells it that an edit of the configuration is whole.
    pub(super) async fn look(&self) -> anyhow::Result<()> {
        let request = Request::post("/configuration/look").body(Body::empty())?;
        self.exchange(request).await.map(drop)
    }

    /// Sends one request and reads the whole answer.
    pub(super) async fn exchange(&self, request: Request<Body>) -> anyhow::Result<Response<Bytes>> {
        use http_body_util::BodyExt;
        let (head, body) = self.send(request).await?.into_parts();
        let body = body.collect().await.context("the gateway's answer ended early")?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}
