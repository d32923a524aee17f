//! One request through the gateway's only way out.

use std::time::Instant;

use bytes::Bytes;
use drawgate_host::Host;
use drawgate_host::egress::address::is_same_origin;
use drawgate_host::egress::{EgressError, Fetch, Fetched, Follow, Reach, location};
use http::{HeaderMap, Method};
use url::Url;

/// The largest answer that is read.
const MAX_ANSWER: usize = 32 * 1024 * 1024;
/// Redirects that are followed, on the same server and only to read.
const MAX_REDIRECTS: usize = 5;

/// A request, complete.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Sends it and reads the whole answer.
pub(super) async fn send(
    host: &Host,
    ready: Ready,
    reach: &Reach,
    deadline: Instant,
) -> Result<Fetched, EgressError> {
    let mut url = ready.url;
    for _ in 0..=MAX_REDIRECTS {
        let fetch = Fetch {
            method: ready.method.clone(),
            url: url.clone(),
            headers: ready.headers.clone(),
            body: ready.body.clone(),
            reach: reach.clone(),
            deadline,
            max_bytes: MAX_ANSWER,
            follow: Follow::Nothing,
        };
        let answer = host.egress.fetch(fetch).await?;
        match next(&ready.method, &url, &answer)? {
            Some(to) => url = to,
            None => return Ok(answer),
        }
    }
    Err(EgressError::Protocol(format!("it redirects more than {MAX_REDIRECTS} times")))
}

/// Where a reading request goes on. Elsewhere than to the same server it would take its credentials
/// with it, or lose them: that is for the caller to decide.
fn next(method: &Method, from: &Url, answer: &Fetched) -> Result<Option<Url>, EgressError> {
    let reads = *method == Method::GET || *method == Method::HEAD;
    if !reads {
        return Ok(None);
    }
    let to = location(from, answer.status, &answer.headers).transpose()?;
    Ok(to.filter(|to| is_same_origin(from, to)))
}
