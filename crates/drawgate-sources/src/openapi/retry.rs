//! Which requests are made once more, and when.

use std::time::Duration;

use drawgate_host::egress::{EgressError, Fetched};
use http::{Method, StatusCode, header};

use crate::backoff::{Backoff, stretched};

/// The waits between requests.
const WAITS: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(8));
/// A server that wants more patience gets its answer passed on instead.
const MOST_PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait before the request is repeated; `None` if it must not be. `jitter`, any number,
/// stretches the wait by up to a quarter.
pub(super) fn pause(
    method: &Method,
    result: &Result<Fetched, EgressError>,
    attempt: u32,
    jitter: u32,
) -> Option<Duration> {
    if !method.is_idempotent() {
        return None;
    }
    let wait = match result {
        Err(EgressError::Connect { .. } | EgressError::Slow(_)) => WAITS.wait(attempt),
        Err(_) => return None,
        Ok(answer) => match answer.status {
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS => match asked(answer) {
                Some(asked) if asked > MOST_PATIENCE => return None,
                Some(asked) => asked.max(WAITS.wait(attempt)),
                None => WAITS.wait(attempt),
            },
            _ => return None,
        },
    };
    Some(stretched(wait, jitter))
}

/// `Retry-After` in seconds; its other form, a date, is rare and needs a clock that both share.
fn asked(answer: &Fetched) -> Option<Duration> {
    let text = answer.headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;
    use url::Url;

    use super::*;

    fn answered(status: u16, after: Option<&str>) -> Fetched {
        let mut headers = HeaderMap::new();
        if let Some(after) = after {
            headers.insert(header::RETRY_AFTER, after.parse().unwrap());
        }
        let url = Url::parse("http://a.example/").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        Fetched { url, status, headers, body: Bytes::new() }
    }

    #[test]
    fn only_what_can_be_repeated_is() {
        let refused = || EgressError::Connect { authority: String::new(), reason: String::new() };
        for (method, result, expected) in [
            (Method::GET, Ok(answered(503, None)), Some(250)),
            (Method::PUT, Ok(answered(502, None)), Some(250)),
            (Method::DELETE, Ok(answered(504, None)), Some(250)),
            (Method::POST, Ok(answered(503, None)), None),
            (Method::PATCH, Ok(answered(503, None)), None),
            (Method::GET, Ok(answered(500, None)), None),
            (Method::GET, Ok(answered(200, None)), None),
            (Method::GET, Ok(answered(404, None)), None),
            (Method::GET, Ok(answered(429, Some("2"))), Some(2_000)),
            (Method::GET, Ok(answered(429, Some("0"))), Some(250)),
            (Method::GET, Ok(answered(429, Some("31"))), None),
            (Method::GET, Ok(answered(503, Some("tomorrow"))), Some(250)),
            (Method::GET, Err(refused()), Some(250)),
            (Method::POST, Err(refused()), None),
            (Method::GET, Err(EgressError::Lost(String::new())), None),
            (Method::GET, Err(EgressError::Deadline), None),
        ] {
            let wait = pause(&method, &result, 0, 0).map(|wait| wait.as_millis());
            assert_eq!(wait, expected, "{method} {result:?}");
        }
    }

    #[test]
    fn waits_grow_and_differ() {
        let wait = |attempt, jitter| pause(&Method::GET, &Ok(answered(503, None)), attempt, jitter);
        assert_eq!(wait(2, 0), Some(Duration::from_secs(1)));
        assert_eq!(wait(40, 0), Some(WAITS.longest()));
        assert!(wait(0, 255) > wait(0, 0));
    }
}
