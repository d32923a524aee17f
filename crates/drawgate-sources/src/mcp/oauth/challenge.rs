//! `WWW-Authenticate`: what a protected server says about the login that it wants.

use http::{HeaderMap, header};

use super::scopes;

/// More challenges than this are not looked at.
const MAX_ITEMS: usize = 64;

/// The parameters of a `Bearer` challenge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where the server's metadata is.
    pub(super) resource_metadata: Option<String>,
    /// What a token needs.
    pub(super) scopes: Vec<String>,
    /// Why the request was refused.
    pub(super) error: Option<String>,
}

impl Challenge {
    /// The first `Bearer` challenge of an answer.
    pub(super) fn find(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::WWW_AUTHENTICATE);
        values.iter().filter_map(|value| value.to_str().ok()).find_map(bearer)
    }

    /// Whether the token is valid but does not reach.
    pub(super) fn wants_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

fn bearer(text: &str) -> Option<Challenge> {
    let mut found: Option<Challenge> = None;
    for item in items(text) {
        let (scheme, parameter) = part(item);
        match (scheme, &mut found) {
            (Some(_), Some(_)) => break,
            (Some(scheme), None) if scheme.eq_ignore_ascii_case("bearer") => {
                found = Some(Challenge::default());
            }
            (Some(_), None) | (None, _) => {}
        }
        if let (Some(challenge), Some((name, value))) = (&mut found, parameter) {
            set(challenge, name, value);
        }
    }
    found
}

fn set(challenge: &mut Challenge, name: &str, value: String) {
    if name.eq_ignore_ascii_case("resource_metadata") {
        challenge.resource_metadata.get_or_insert(value);
    } else if name.eq_ignore_ascii_case("scope") && challenge.scopes.is_empty() {
        challenge.scopes = scopes::split(&value);
    } else if name.eq_ignore_ascii_case("error") {
        challenge.error.get_or_insert(value);
    }
}

/// Splits at commas outside of quotes.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    let at_comma = move |c: char| {
        let splits = c == ',' && !quoted;
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
        splits
    };
    text.split(at_comma).map(str::trim).filter(|item| !item.is_empty()).take(MAX_ITEMS)
}

/// A scheme, a parameter, or a scheme with its first parameter.
fn part(item: &str) -> (Option<&str>, Option<(&str, String)>) {
    let Some((word, rest)) = item.split_once(char::is_whitespace) else {
        return if item.contains('=') { (None, parameter(item)) } else { (Some(item), None) };
    };
    let rest = rest.trim_start();
    if word.contains('=') || rest.starts_with('=') {
        (None, parameter(item))
    } else {
        (Some(word), parameter(rest))
    }
}

fn parameter(text: &str) -> Option<(&str, String)> {
    let (name, value) = text.split_once('=')?;
    let value = value.trim();
    let value = match value.strip_prefix('"') {
        None => value.to_owned(),
        Some(quoted) => unquote(quoted.strip_suffix('"')?),
    };
    Some((name.trim(), value))
}

fn unquote(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        out.extend(if c == '\\' { characters.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn challenges_are_read() {
        let of = |metadata: Option<&str>, scopes: &str, error: Option<&str>| {
            Some(Challenge {
                resource_metadata: metadata.map(str::to_owned),
                scopes: scopes::split(scopes),
                error: error.map(str::to_owned),
            })
        };
        for (text, expected) in [
            ("Bearer", of(None, "", None)),
            ("bearer scope=\"a b\"", of(None, "a b", None)),
            (
                "Bearer error=\"insufficient_scope\", scope=\"a\", resource_metadata=\"https://x/y?a,b\", error_description=\"no, \\\"really\\\"\"",
                of(Some("https://x/y?a,b"), "a", Some("insufficient_scope")),
            ),
            ("Basic realm=\"x\", Bearer scope=a", of(None, "a", None)),
            ("Bearer scope = \"a\" , error=e, Basic scope=\"b\"", of(None, "a", Some("e"))),
            ("Bearer scope=\"a\", scope=\"b\"", of(None, "a", None)),
            ("Basic realm=\"Bearer scope=a\"", None),
            ("Negotiate abc==", None),
            ("", None),
            (",,,", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_str(text).unwrap());
            assert_eq!(Challenge::find(&headers), expected, "{text}");
        }
    }

    #[test]
    fn a_second_header_is_seen() {
        let mut headers = HeaderMap::new();
        for text in ["Basic realm=x", "Bearer error=insufficient_scope"] {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(text));
        }
        assert!(Challenge::find(&headers).unwrap().wants_more_scope());
    }
}
