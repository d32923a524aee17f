//! Patience with a peer: long between requests, short within one.
//!
//! hyper has one timer for both, and starts it as soon as a request could come. The timer here ends
//! early once the first byte has come. The stream beneath tells it so, and gives up by itself on a
//! peer that does not take its answer. A peer whose request was refused before its end still sends:
//! closed under it, the connection would be reset and the refusal lost, so it is heard out for a while.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::{Sleep, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is read at once of what nobody wants.
const UNWANTED: usize = 16 * 1024;

/// How long a peer may take for its part.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// From one request to the next.
    pub idle: Duration,
    /// For the head of a request, from its first byte.
    pub head: Duration,
    /// To take any part of an answer that waits for it.
    pub taking: Duration,
    /// To end a request that is refused already.
    pub parting: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        // Idle connections outlast the minute for which common clients and proxies keep theirs, so
        // that it is seldom the gateway that closes one under a request.
        let seconds = Duration::from_secs;
        Self { idle: seconds(75), head: seconds(10), taking: seconds(30), parting: seconds(5) }
    }
}

impl Patience {
    /// A stream that keeps to these limits, and what watches over it.
    pub(super) fn watch<I>(self, stream: I) -> (Watched<I>, Watch) {
        let seen = Arc::new(Seen::default());
        let watched =
            Watched { stream, seen: Arc::clone(&seen), limits: self, stalled: None, parting: None };
        (watched, Watch { head: self.head, seen })
    }
}

/// What has happened on a connection.
#[derive(Default)]
struct Seen {
    /// Counts what was received.
    received: AtomicUsize,
    /// Whether a request was answered before its end.
    left_unread: AtomicBool,
}

/// The timer for the head of a request, and the eye on its body.
#[derive(Clone)]
pub(super) struct Watch {
    head: Duration,
    seen: Arc<Seen>,
}

impl Watch {
    /// A body that notes if it is not read to its end.
    pub(super) fn body(&self, body: Incoming) -> Received {
        // That another request came means that the one before was read to its end.
        self.seen.left_unread.store(false, Ordering::Relaxed);
        Received { body, is_read: false, seen: Arc::clone(&self.seen) }
    }
}

/// The body of a request.
pub(super) struct Received {
    body: Incoming,
    is_read: bool,
    seen: Arc<Seen>,
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.is_read |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if !self.is_read && !self.body.is_end_stream() {
            self.seen.left_unread.store(true, Ordering::Relaxed);
        }
    }
}

impl Timer for Watch {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait {
            sleep: Box::pin(tokio::time::sleep_until(deadline.into())),
            watch: self.clone(),
            idle_at: Some(self.seen.received.load(Ordering::Relaxed)),
        })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

struct Wait {
    sleep: Pin<Box<tokio::time::Sleep>>,
    watch: Watch,
    /// The count when the wait began, until something has been received since.
    idle_at: Option<usize>,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let wait = &mut *self;
        let received = wait.watch.seen.received.load(Ordering::Relaxed);
        if wait.idle_at.is_some_and(|before| before != received) {
            wait.idle_at = None;
            wait.sleep.as_mut().reset(tokio::time::Instant::now() + wait.watch.head);
        }
        wait.sleep.as_mut().poll(cx)
    }
}

impl Sleep for Wait {}

/// A stream that counts what it receives and does not wait for ever to send.
pub(super) struct Watched<I> {
    stream: I,
    seen: Arc<Seen>,
    limits: Patience,
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Set when our side is closed and the peer is heard out.
    parting: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<I> Watched<I> {
    /// Passes the outcome of a write on; one that keeps waiting for too long becomes an error.
    fn moved<T>(&mut self, done: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let limit = self.limits.taking;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> Watched<I> {
    /// Reads on until the peer has ended its side, for a limited time.
    fn hear_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let limit = self.limits.parting;
        let parting = self.parting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        let mut unwanted = [0; UNWANTED];
        while parting.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut unwanted);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
            if read.is_err() || buf.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.seen.received.fetch_add(1, Ordering::Relaxed);
        }
        done
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.moved(done, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.moved(done, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.moved(done, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.parting.is_none() {
            let done = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.moved(done, cx))?;
        }
        if self.seen.left_unread.load(Ordering::Relaxed) {
            self.hear_out(cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }
}
