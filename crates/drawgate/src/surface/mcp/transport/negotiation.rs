//! The types of bodies: which one a request must have, and which ones its client takes.

use axum::response::Response;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use super::response::plain;

/// A browser can send a form across sites without asking; it can't send JSON.
pub(crate) fn check_types(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let parameters = parameters.to_ascii_lowercase();
    let plain_charset = !parameters.contains("charset=") || parameters.contains("utf-8");
    if !essence.trim().eq_ignore_ascii_case("application/json") || !plain_charset {
        return Err(Box::new(plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send `Content-Type: application/json`",
        )));
    }
    if headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return Err(Box::new(plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the body without `Content-Encoding`",
        )));
    }
    if headers.contains_key(ACCEPT)
        && !accepts(headers, "application/json")
        && !accepts(headers, "text/event-stream")
    {
        return Err(Box::new(plain(
            StatusCode::NOT_ACCEPTABLE,
            "accept `application/json` and `text/event-stream`",
        )));
    }
    Ok(())
}

/// Whether a client takes this type.
pub(crate) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let family = kind.split('/').next();
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|part| {
            let range = part.split(';').next().unwrap_or_default().trim();
            let any_of = range.strip_suffix("/*");
            range.eq_ignore_ascii_case(kind)
                || any_of == Some("*")
                || any_of.is_some() && any_of == family
        })
    })
}
