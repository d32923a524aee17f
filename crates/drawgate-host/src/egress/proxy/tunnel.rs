//! `CONNECT`: bytes in both directions, until both ends are done or nothing has moved for long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::{Answer, IDLE_TIME, Proxy, Seat};
use crate::egress::address::{AddressError, bare_host};
use crate::egress::error::EgressError;
use crate::egress::internal::Upstream;

impl Proxy {
    pub(super) async fn tunnel(
        &self,
        request: Request<Incoming>,
        seat: Seat,
    ) -> Result<Answer, EgressError> {
        let target = bare_host(request.uri()).zip(request.uri().port_u16());
        let (host, port) = target.ok_or(AddressError::Malformed("it has no host and port"))?;
        if request.uri().authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(AddressError::Userinfo.into());
        }
        let upstream = self.connect(host, port).await?;
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let work = async {
                if let Ok(upgraded) = hyper::upgrade::on(request).await {
                    relay(TokioIo::new(upgraded), upstream).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = work => {}
            }
            drop(seat);
        });
        Ok(Response::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed()))
    }
}

async fn relay(mut program: impl AsyncRead + AsyncWrite + Unpin, upstream: Upstream) {
    let (mut upstream, moved) = Counted::new(upstream);
    tokio::select! {
        // Either end may break off at any time.
        _ended = copy_bidirectional(&mut program, &mut upstream) => {}
        () = moved.idle() => {}
    }
}

/// How many times something has moved on a connection.
#[derive(Clone)]
pub(super) struct Moved {
    times: Arc<AtomicU64>,
    may_be_silent: bool,
}

impl Moved {
    /// Waits until nothing has moved for long.
    pub(super) async fn idle(&self) {
        if self.may_be_silent {
            return std::future::pending().await;
        }
        let mut seen = self.times.load(Ordering::Relaxed);
        loop {
            tokio::time::sleep(IDLE_TIME).await;
            let now = self.times.load(Ordering::Relaxed);
            if now == seen {
                return;
            }
            seen = now;
        }
    }

    fn note<T>(&self, outcome: &Poll<io::Result<T>>) {
        if matches!(outcome, Poll::Ready(Ok(_))) {
            self.times.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A connection that counts.
pub(super) struct Counted {
    stream: Upstream,
    moved: Moved,
}

impl Counted {
    pub(super) fn new(stream: Upstream) -> (Self, Moved) {
        let moved = Moved { times: Arc::default(), may_be_silent: stream.may_be_silent() };
        (Self { stream, moved: moved.clone() }, moved)
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.moved.note(&outcome);
        outcome
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.moved.note(&outcome);
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
