//! What every answer is held to before anybody looks at it: few words before the answer, a head of
//! bounded size, and one length.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use http::header::{self, HeaderMap};
use tokio::sync::Notify;

use super::MAX_HEAD;
use super::error::EgressError;

/// Answers before the answer that are put up with.
const MAX_INFORMATIONAL: usize = 16;

/// A server may say that it is at work, but not for ever. Comes back when it has said so too often.
pub(super) fn count_informational<B>(
    request: &mut Request<B>,
) -> impl Future<Output = EgressError> + use<B> {
    let (seen, chatter) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let heard = Arc::clone(&chatter);
    hyper::ext::on_informational(request, move |_| {
        if seen.fetch_add(1, Ordering::Relaxed) >= MAX_INFORMATIONAL {
            chatter.notify_one();
        }
    });
    async move {
        heard.notified().await;
        EgressError::Protocol("it never comes to the point".to_owned())
    }
}

/// What is wrong with the head of an answer, though it can be read.
pub(super) fn check_head(headers: &HeaderMap) -> Result<(), EgressError> {
    let size: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if size > MAX_HEAD {
        return Err(EgressError::Protocol(format!("its head is larger than {MAX_HEAD} bytes")));
    }
    // Two readers of such an answer may see two different ends of it.
    if headers.contains_key(header::CONTENT_LENGTH)
        && headers.contains_key(header::TRANSFER_ENCODING)
    {
        return Err(EgressError::Protocol("it says its length in two ways".to_owned()));
    }
    Ok(())
}
