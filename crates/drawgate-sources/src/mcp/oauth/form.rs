//! `application/x-www-form-urlencoded`, both ways.

use std::fmt::Write as _;

/// Pairs as the body of a request or the query of an address.
pub(super) fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        escape(name, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

/// One value, escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out
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

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            percent(byte, out);
        }
    }
}

/// One byte, percent-encoded.
pub(super) fn percent(byte: u8, out: &mut String) {
    // Writing to a `String` can't fail.
    let _ = write!(out, "%{byte:02X}");
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
                u8::try_from(value).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
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
