//! Patience with a peer: long between requests, short within one.
//!
//! hyper has one timer for both, and starts it as soon as a request could come. The timer here ends
//! early once the first byte has come. The stream beneath tells it so, and gives up by itself on a
//! peer that does not take its answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a peer may take for its part.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// From one request to the next.
    pub idle: Duration,
    /// For the head of a request, from its first byte.
    pub head: Duration,
    /// To take any part of an answer that waits for it.
    pub taking: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        // Idle connections outlast the minute for which common clients and proxies keep theirs, so
        // that it is seldom the gateway that closes one under a request.
        let seconds = Duration::from_secs;
        Self { idle: seconds(75), head: seconds(10), taking: seconds(30) }
    }
}

impl Patience {
    /// A stream that keeps to these limits, and the timer that belongs to it.
    pub(super) fn watch<I>(self, stream: I) -> (Watched<I>, Watch) {
        let received = Arc::new(AtomicUsize::new(0));
        let watched =
            Watched { stream, received: Arc::clone(&received), limit: self.taking, stalled: None };
        (watched, Watch { head: self.head, received })
    }
}

/// The timer for the head of a request.
#[derive(Clone)]
pub(super) struct Watch {
    head: Duration,
    /// Counts what was received.
    received: Arc<AtomicUsize>,
}

impl Timer for Watch {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait {
            sleep: Box::pin(tokio::time::sleep_until(deadline.into())),
            watch: self.clone(),
            idle_at: Some(self.received.load(Ordering::Relaxed)),
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
        if wait.idle_at.is_some_and(|before| before != wait.watch.received.load(Ordering::Relaxed))
        {
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
    received: Arc<AtomicUsize>,
    limit: Duration,
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<I> Watched<I> {
    /// Passes the outcome of a write on; one that keeps waiting for too long becomes an error.
    fn moved<T>(&mut self, done: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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
            self.received.fetch_add(1, Ordering::Relaxed);
        }
        done
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
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
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.moved(done, cx)
    }
}
