//! Reading answers, never more than the caller allows.

use std::io;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::timeout_at;

use super::error::causes;
use super::{AnswerBody, EgressError};

/// Reads a whole body of at most `cap` bytes. A body that ends early is an error.
pub async fn read_body(
    body: AnswerBody,
    cap: usize,
    deadline: Instant,
) -> Result<Bytes, EgressError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > cap {
        return Err(EgressError::TooLarge(cap));
    }
    timeout_at(deadline.into(), collect(Chunks::new(body), cap, announced))
        .await
        .map_err(|_| EgressError::Deadline)?
}

/// A body of one chunk, the usual case, is not copied.
async fn collect(mut chunks: Chunks, cap: usize, announced: usize) -> Result<Bytes, EgressError> {
    let Some(first) = chunks.next().await? else { return Ok(Bytes::new()) };
    let Some(second) = chunks.next().await? else { return bounded(first, cap) };
    let mut all = BytesMut::with_capacity(announced.max(first.len() + second.len()));
    all.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if all.len() + chunk.len() > cap {
            return Err(EgressError::TooLarge(cap));
        }
        all.extend_from_slice(&chunk);
        next = chunks.next().await?;
    }
    Ok(all.freeze())
}

fn bounded(bytes: Bytes, cap: usize) -> Result<Bytes, EgressError> {
    if bytes.len() > cap { Err(EgressError::TooLarge(cap)) } else { Ok(bytes) }
}

/// A body piece by piece, for answers that are streams.
#[derive(Debug)]
pub struct Chunks(AnswerBody);

impl Chunks {
    /// Reads from the beginning.
    #[must_use]
    pub const fn new(body: AnswerBody) -> Self {
        Self(body)
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EgressError> {
        while !self.0.is_end_stream() {
            match self.0.frame().await {
                None => break,
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(broken(&error)),
            }
        }
        Ok(None)
    }
}

fn broken(error: &hyper::Error) -> EgressError {
    let ended = causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::UnexpectedEof);
    if ended || error.is_incomplete_message() {
        EgressError::Truncated
    } else {
        EgressError::Lost(error.to_string())
    }
}
