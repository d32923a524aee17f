//! `application/x-www-form-urlencoded`, both ways.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Pairs as the body of a request or the query of an address.
pub(super) fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pair = |(name, value)| format!("{}={}", escaped(name), escaped(value));
    pairs.into_iter().map(pair).collect::<Vec<_>>().join("&")
}

/// One value, escaped.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The one value of this name; `None` also if there are several, which could mean anything.
pub(super) fn one(query: &str, name: &str) -> Option<String> {
    let mut found = query.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key)? == name).then(|| decode(value))
    });
    let value = found.next()??;
    found.next().is_none().then_some(value)
}

/// Whether there is any value of this name.
pub(super) fn has(query: &str, name: &str) -> bool {
    let key = |pair: &str| decode(pair.split('=').next().unwrap_or_default());
    query.split('&').any(|pair| key(pair).as_deref() == Some(name))
}

/// The bytes that are percent-encoded in a text; `None` for a percent sign without two digits.
pub(super) fn encoded_bytes(text: &str) -> impl Iterator<Item = Option<u8>> {
    text.split('%').skip(1).map(|part| {
        let digits = part.get(..2).filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
        u8::from_str_radix(digits?, 16).ok()
    })
}

fn decode(text: &str) -> Option<String> {
    if encoded_bytes(text).any(|byte| byte.is_none()) {
        return None;
    }
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let text = encode([("a b", "c&d=e"), ("ü", "~x/"), ("empty", "")]);
        assert_eq!(text, "a%20b=c%26d%3De&%C3%BC=~x%2F&empty=");
        assert_eq!(one(&text, "a b").unwrap(), "c&d=e");
        assert_eq!(one(&text, "ü").unwrap(), "~x/");
        assert_eq!(one("a=1+2", "a").unwrap(), "1 2");
        assert_eq!(one(&text, "absent"), None);
    }

    #[test]
    fn what_is_given_twice_or_is_broken_is_not_there() {
        assert_eq!(one("code=a&code=b", "code"), None);
        assert_eq!(one("code=a&c%6fde=b", "code"), None);
        for broken in ["code=%", "code=%4", "code=%zz", "code=%ff"] {
            assert_eq!(one(broken, "code"), None, "{broken}");
        }
        assert!(has("iss=%zz&x=1", "iss") && has("iss", "iss") && !has("issuer=1", "iss"));
    }
}
