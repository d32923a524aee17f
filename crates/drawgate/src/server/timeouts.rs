//! Timeouts of a connection: long between requests, short within one.
//!
//! hyper has one timer for both, and starts it as soon as a request could come. The timer here is
//! shortened once the first byte has come, which it learns from the stream below it. That stream also
//! fails if a peer does not read its answer. A peer whose request was refused before its end still
//! sends: closing the connection would reset it and lose the refusal, so what it sends is read and
//! discarded for a while.

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

/// How many bytes are read at once while draining.
const DRAIN_BUFFER: usize = 16 * 1024;

/// How long a peer may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From one request to the next.
    pub idle: Duration,
    /// For the head of a request, from its first byte.
    pub head: Duration,
    /// To read any part of an answer that waits for it.
    pub write: Duration,
    /// To end a request that is already refused.
    pub linger: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        // Idle connections outlast the minute for which common clients and proxies keep theirs, so
        // that it is seldom the gateway that closes one under a request.
        let seconds = Duration::from_secs;
        Self { idle: seconds(75), head: seconds(10), write: seconds(30), linger: seconds(5) }
    }
}

impl Timeouts {
    /// Wraps a stream in these timeouts, and returns the timer for its requests.
    pub(super) fn watch<I>(self, stream: I) -> (TimedStream<I>, ConnectionTimer) {
        let activity = Arc::new(Activity::default());
        let watched = TimedStream {
            stream,
            activity: Arc::clone(&activity),
            limits: self,
            stalled: None,
            linger: None,
        };
        (watched, ConnectionTimer { head: self.head, activity })
    }
}

/// What has been received on a connection.
#[derive(Default)]
struct Activity {
    /// Counts what was received.
    received: AtomicUsize,
    /// Whether a request was answered before its end.
    left_unread: AtomicBool,
}

/// The timer for the head of a request; also tracks whether the body was read.
#[derive(Clone)]
pub(super) struct ConnectionTimer {
    head: Duration,
    activity: Arc<Activity>,
}

impl ConnectionTimer {
    /// A body that notes if it is not read to its end.
    pub(super) fn body(&self, body: Incoming) -> RequestBody {
        // That another request came means that the one before was read to its end.
        self.activity.left_unread.store(false, Ordering::Relaxed);
        RequestBody { body, is_read: false, activity: Arc::clone(&self.activity) }
    }
}

/// The body of a request.
pub(super) struct RequestBody {
    body: Incoming,
    is_read: bool,
    activity: Arc<Activity>,
}

impl Body for RequestBody {
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

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_read && !self.body.is_end_stream() {
            self.activity.left_unread.store(true, Ordering::Relaxed);
        }
    }
}

impl Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadTimer {
            sleep: Box::pin(tokio::time::sleep_until(deadline.into())),
            watch: self.clone(),
            idle_at: Some(self.activity.received.load(Ordering::Relaxed)),
        })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

struct HeadTimer {
    sleep: Pin<Box<tokio::time::Sleep>>,
    watch: ConnectionTimer,
    /// The count when the wait began, until something has been received since.
    idle_at: Option<usize>,
}

impl Future for HeadTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let wait = &mut *self;
        let received = wait.watch.activity.received.load(Ordering::Relaxed);
        if wait.idle_at.is_some_and(|before| before != received) {
            wait.idle_at = None;
            wait.sleep.as_mut().reset(tokio::time::Instant::now() + wait.watch.head);
        }
        wait.sleep.as_mut().poll(cx)
    }
}

impl Sleep for HeadTimer {}

/// A stream that counts what it receives and does not wait for ever to send.
pub(super) struct TimedStream<I> {
    stream: I,
    activity: Arc<Activity>,
    limits: Timeouts,
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Set when our side is closed and the rest is drained.
    linger: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<I> TimedStream<I> {
    /// Passes the outcome of a write on; one that keeps waiting for too long becomes an error.
    fn check_stalled<T>(
        &mut self,
        done: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let limit = self.limits.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> TimedStream<I> {
    /// Reads on until the peer has ended its side, for a limited time.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let limit = self.limits.linger;
        let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        let mut discarded = [0; DRAIN_BUFFER];
        while linger.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut discarded);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
            if read.is_err() || buf.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for TimedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.received.fetch_add(1, Ordering::Relaxed);
        }
        done
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check_stalled(done, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.check_stalled(done, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_stalled(done, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            let done = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.check_stalled(done, cx))?;
        }
        if self.activity.left_unread.load(Ordering::Relaxed) {
            self.drain(cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }
}
