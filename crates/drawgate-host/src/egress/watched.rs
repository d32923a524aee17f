//! Connections that remember the head of a redirect as it came, in case it can't be read.
//!
//! The HTTP client says that a head is broken, but not where. Of other answers nothing is kept, and
//! of no answer more than its head.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Extensions;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::MAX_HEAD;
use super::fault::is_in_location;

/// Where the first digit of the status is, as in `HTTP/1.1 302`.
const CLASS_AT: usize = 9;

/// The last redirect's head on a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct LastHead(Arc<Mutex<Vec<u8>>>);

impl LastHead {
    /// That of a connection which was [watched](Watched).
    pub(super) fn of(connection: &Connected) -> Option<Self> {
        let mut extras = Extensions::new();
        connection.get_extras(&mut extras);
        extras.remove()
    }

    /// Whether it can't be read for what it says about where it leads.
    pub(super) fn is_broken_in_location(&self) -> bool {
        is_in_location(&self.0.lock())
    }

    /// Takes what was read, and says whether more is wanted.
    fn keep(&self, piece: &[u8]) -> Stage {
        let mut kept = self.0.lock();
        let is_other = |class: &u8| !matches!(class, b'1' | b'3');
        // The usual case: nothing is copied.
        if kept.is_empty() && piece.starts_with(b"H") && piece.get(CLASS_AT).is_some_and(is_other) {
            return Stage::Done;
        }
        let room = MAX_HEAD.saturating_sub(kept.len());
        let seen = kept.len().saturating_sub(2);
        kept.extend_from_slice(piece.get(..room).unwrap_or(piece));
        settle(&mut kept, seen)
    }
}

/// Drops what is no redirect's head. An answer may come after others that only say that it will.
/// Up to `seen`, no head has ended.
fn settle(kept: &mut Vec<u8>, seen: usize) -> Stage {
    let mut start = 0;
    let stage = loop {
        let rest = kept.get(start..).unwrap_or_default();
        start += rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        match (kept.get(start + CLASS_AT), end(kept, start.max(seen))) {
            (Some(b'1'), Some(end)) => start = end,
            (None | Some(b'1' | b'3'), None) => break Stage::Listening,
            (Some(b'3'), Some(end)) => {
                kept.truncate(end);
                break Stage::Done;
            }
            (Some(_) | None, _) => {
                kept.clear();
                return Stage::Done;
            }
        }
    };
    kept.drain(..start);
    if kept.len() < MAX_HEAD { stage } else { Stage::Done }
}

/// Where the next head ends, its empty line included.
fn end(bytes: &[u8], from: usize) -> Option<usize> {
    (from..bytes.len()).find_map(|at| match bytes.get(at..)? {
        [b'\n', b'\n', ..] => Some(at + 2),
        [b'\n', b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A head may come, or the rest of one.
    Listening,
    /// It has come.
    Done,
}

/// A connection whose heads are watched.
pub(super) struct Watched<S> {
    stream: S,
    stage: Stage,
    last: LastHead,
}

/// Watches a connection, which may be one inside of TLS.
pub(super) fn watched<S>(stream: S) -> TokioIo<Watched<TokioIo<S>>> {
    let (stage, last) = (Stage::Listening, LastHead::default());
    TokioIo::new(Watched { stream: TokioIo::new(stream), stage, last })
}

impl<S> Watched<S> {
    /// Something is asked for: an answer will come.
    fn listen(&mut self) {
        if self.stage == Stage::Done {
            self.stage = Stage::Listening;
            self.last.0.lock().clear();
        }
    }
}

impl<S> Connection for Watched<S> {
    /// Nothing but the head: whoever needs more of a connection's properties adds it here.
    fn connected(&self) -> Connected {
        Connected::new().extra(self.last.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.stage == Stage::Listening
            && let Some(piece) = buffer.filled().get(before..).filter(|piece| !piece.is_empty())
        {
            self.stage = self.last.keep(piece);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.listen();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.listen();
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
