//! Panics of strangers' code, turned into errors.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;

/// The code panicked; what it said went to the panic hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs a future to its end or its panic. After a panic the future is not polled again.
pub(crate) async fn catch<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
    .await
}
