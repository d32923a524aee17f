//! What a redirect makes of a request.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};
use url::Url;

use super::address::{self, AddressError};
use super::error::{Detour, EgressError};

/// Headers that say nothing about who asks; all others stay with the server that they were meant for.
const HARMLESS: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::USER_AGENT];
/// Headers that describe a body.
const OF_BODY: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
];

/// One request of several.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Where an answer leads, if it is a redirect; an error if that can't be said for certain.
pub fn location(
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Result<Url, EgressError>> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let mut values = headers.get_all(header::LOCATION).iter();
    let value = values.next()?;
    // Which of two is meant, every reader decides for itself.
    let joined = match values.next() {
        Some(_) => Err(AddressError::Malformed("there is more than one `Location`")),
        None => join(from, value.as_bytes()),
    };
    Some(joined.map_err(|error| EgressError::Redirected(Box::new(error.into()))))
}

fn join(from: &Url, value: &[u8]) -> Result<Url, AddressError> {
    let no_text = |_| AddressError::Malformed("the `Location` is no text");
    let text = std::str::from_utf8(value).map_err(no_text)?;
    // It would lead to itself again and again.
    if text.is_empty() {
        return Err(AddressError::Malformed("the `Location` is empty"));
    }
    if hides_control(text) {
        return Err(AddressError::Malformed("the `Location` holds an encoded control character"));
    }
    address::join(from, text)
}

/// Whether there is a control character once the text is decoded: who decodes it may find a new line.
/// In a query it is data that forms really send, new lines among it.
fn hides_control(text: &str) -> bool {
    let text = text.split('?').next().unwrap_or_default().to_ascii_lowercase();
    let control = |code: &[u8]| {
        matches!(code, [b'%', b'0' | b'1', low] if low.is_ascii_hexdigit()) || code == b"%7f"
    };
    // U+0080 to U+009F.
    let later = |code: &[u8]| code == b"%c2%8" || code == b"%c2%9";
    text.as_bytes().windows(3).any(control) || text.as_bytes().windows(5).any(later)
}

impl Step {
    /// The request that follows.
    pub(super) fn follow(mut self, status: StatusCode, to: Url) -> Result<Self, Detour> {
        if self.url.scheme() == "https" && to.scheme() == "http" {
            return Err(Detour::Downgrade);
        }
        let plain = self.method == Method::GET || self.method == Method::HEAD;
        let becomes_get = match status.as_u16() {
            303 => !plain,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = Bytes::new();
            for name in &OF_BODY {
                self.headers.remove(name);
            }
        }
        if !address::is_same_origin(&self.url, &to) {
            let plain = self.method == Method::GET || self.method == Method::HEAD;
            if !plain || !self.body.is_empty() {
                return Err(Detour::Body);
            }
            self.headers = HARMLESS
                .iter()
                .filter_map(|name| Some((name.clone(), self.headers.get(name)?.clone())))
                .collect();
        }
        self.url = to;
        Ok(self)
    }
}

#[cfg(test)]
#[path = "redirect_tests.rs"]
mod tests;
