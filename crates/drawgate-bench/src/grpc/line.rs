//! One HTTP/2 connection, as the generated clients want it, and nothing else.

use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tonic::body::Body;

/// A connection; it ends when this and all streams on it are dropped.
#[derive(Clone)]
pub(super) struct Line(SendRequest<Body>);

impl Line {
    /// Dials `HOST:PORT`.
    pub(super) async fn open(address: &str) -> Result<(Self, Uri)> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok((Self(sender), format!("http://{address}").parse()?))
    }
}

impl tower::Service<Request<Body>> for Line {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
