//! The one parser of addresses that people and tools write.
//!
//! What parsers read differently is refused before it is parsed, so that no other reader of the same
//! text can mean another host. Whether a host may be reached is not decided here.

use std::net::IpAddr;

use http::Uri;
use url::{Host, Url};

/// Longer ones are nobody's honest address.
const MAX_LENGTH: usize = 8192;
/// How much of a scheme is repeated in an error.
const MAX_SHOWN: usize = 20;

/// Why a text is not an address. Never repeats more of it than its scheme: the rest may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another scheme.
    #[error("addresses begin with `http://` or `https://`, not with `{0}:`")]
    Scheme(String),
    /// It can be read in more than one way, or in none.
    #[error("not an address: {0}; use one such as `https://example.com/page`")]
    Malformed(&'static str),
    /// It holds a user name or password.
    #[error("the address holds a user name or password; leave it out")]
    Userinfo,
    /// A port that nothing can be at.
    #[error("the address names port 0; use another")]
    Port,
}

use AddressError::{Malformed, Port, Scheme, Userinfo};

/// Reads an address. Its host comes out in one spelling: in lower case, as punycode, without a final
/// dot, numbers as an IP address; its fragment is dropped.
pub fn parse(text: &str) -> Result<Url, AddressError> {
    check_text(text)?;
    let (scheme, rest) = text.split_once(':').ok_or(Malformed("it has no scheme"))?;
    let first = scheme.bytes().next().unwrap_or_default();
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !first.is_ascii_alphabetic() || !scheme.bytes().all(legal) {
        return Err(Malformed("it has no scheme"));
    }
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(Scheme(scheme.chars().take(MAX_SHOWN).collect()));
    }
    let rest = rest.strip_prefix("//").ok_or(Malformed("`//` is missing after the scheme"))?;
    check_authority(rest.split(['/', '?', '#']).next().unwrap_or_default())?;
    normal(Url::parse(text).map_err(|_| Malformed("its host or port can't be read"))?)
}

/// Reads an address that an answer names, which may be relative to where the answer came from.
pub fn join(base: &Url, text: &str) -> Result<Url, AddressError> {
    check_text(text)?;
    if text.starts_with("//") {
        return parse(&format!("{}:{text}", base.scheme()));
    }
    let head = text.split(['/', '?', '#']).next().unwrap_or_default();
    if head.contains(':') {
        return parse(text);
    }
    normal(base.join(text).map_err(|_| Malformed("it can't be read"))?)
}

/// The same address, as requests are made of.
pub fn to_uri(url: &Url) -> Result<Uri, AddressError> {
    url.as_str().parse().map_err(|_| Malformed("it can't stand in a request"))
}

/// Scheme, host and port: who is asked.
#[must_use]
pub fn is_same_origin(left: &Url, right: &Url) -> bool {
    left.scheme() == right.scheme()
        && left.host() == right.host()
        && left.port_or_known_default() == right.port_or_known_default()
}

fn check_text(text: &str) -> Result<(), AddressError> {
    if text.len() > MAX_LENGTH {
        return Err(Malformed("it is too long"));
    }
    if text.chars().any(char::is_control) {
        return Err(Malformed("it holds a control character"));
    }
    if text.trim() != text {
        return Err(Malformed("it begins or ends with a space"));
    }
    // Browsers read it as `/`, others as a part of the name.
    if text.split(['?', '#']).next().is_some_and(|head| head.contains('\\')) {
        return Err(Malformed("it holds a backslash"));
    }
    Ok(())
}

fn check_authority(authority: &str) -> Result<(), AddressError> {
    if authority.contains('@') {
        return Err(Userinfo);
    }
    if authority.is_empty() {
        return Err(Malformed("it has no host"));
    }
    // Some readers decode a host before they look at it, others don't.
    if authority.contains('%') {
        return Err(Malformed("its host is percent-encoded"));
    }
    Ok(())
}

fn normal(mut url: Url) -> Result<Url, AddressError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Scheme(url.scheme().chars().take(MAX_SHOWN).collect()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Userinfo);
    }
    if url.port() == Some(0) {
        return Err(Port);
    }
    url.set_fragment(None);
    let bare = match url.host() {
        None => return Err(Malformed("it has no host")),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => return Ok(url),
        Some(Host::Domain(name)) => {
            let bare = name.strip_suffix('.').unwrap_or(name);
            if !is_name(bare) {
                return Err(Malformed("its host is not a name that can be looked up"));
            }
            (bare != name).then(|| bare.to_owned())
        }
    };
    if let Some(bare) = bare {
        url.set_host(Some(&bare)).map_err(|_| Malformed("its host can't be read"))?;
    }
    Ok(url)
}

/// Whether a text in lower case is a name of a host, and no number in disguise: the system's resolver
/// takes `0x7f.1` for an address.
pub(super) fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    !numeric && text.len() <= 253 && text.split('.').all(label)
}

/// The host of a request's address, without brackets.
pub(super) fn bare_host(uri: &Uri) -> Option<&str> {
    let host = uri.host()?;
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    Some(inner.unwrap_or(host))
}

/// Its port, which the scheme says where it does not.
pub(super) fn port(uri: &Uri) -> u16 {
    let usual = if uri.scheme() == Some(&http::uri::Scheme::HTTPS) { 443 } else { 80 };
    uri.port_u16().unwrap_or(usual)
}

/// An address or a name.
pub(super) fn is_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || is_name(text)
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
