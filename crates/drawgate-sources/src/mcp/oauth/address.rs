//! Addresses that a login may use: `https`, and `http` on this machine if the protected server is on
//! it too. The text is kept as it was published, because identifiers are compared as text.

use std::net::{IpAddr, Ipv6Addr};

use http::Uri;
use http::uri::Scheme;

/// The longest address that is accepted.
const MAX_LENGTH: usize = 2048;

/// An absolute `http` or `https` address without user name, password or fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    uri: Uri,
}

/// What can't be used as an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` can't be used; {fault}")]
pub struct AddressError {
    text: String,
    fault: Fault,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("it must begin with `https://`, or with `http://` on this machine")]
    Scheme,
    #[error("it holds a character that an address must not hold")]
    Character,
    #[error("it hides a control character")]
    Control,
    #[error("it names a user")]
    User,
    #[error("its host is neither a name nor a number")]
    Host,
    #[error("it is longer than {MAX_LENGTH} characters")]
    Length,
}

/// Which addresses a login may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// `https` only.
    Network,
    /// Also `http` on this machine, since the protected server is there.
    Machine,
}

impl AddressError {
    pub(super) fn new(text: &str, fault: Fault) -> Self {
        Self { text: shown(text), fault }
    }
}

impl Address {
    /// Parses an address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.len() > MAX_LENGTH {
            return Err(AddressError::new(text, Fault::Length));
        }
        Self::long(text)
    }

    /// Parses an address that we made ourselves, of parts that are bounded each.
    pub(super) fn long(text: &str) -> Result<Self, AddressError> {
        let bad = |fault| AddressError::new(text, fault);
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"#\\\"<>".contains(&byte);
        if !text.bytes().all(plain) {
            return Err(bad(Fault::Character));
        }
        let written = |scheme: &str| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if !written("https://") && !written("http://") {
            return Err(bad(Fault::Scheme));
        }
        let uri: Uri = text.parse().map_err(|_| bad(Fault::Character))?;
        let authority = uri.authority().ok_or_else(|| bad(Fault::Host))?;
        if authority.as_str().contains('@') {
            return Err(bad(Fault::User));
        }
        if !is_host(authority.host()) {
            return Err(bad(Fault::Host));
        }
        Ok(Self { text: text.to_owned(), uri })
    }

    /// Parses an address that others have published.
    pub(super) fn published(text: &str, reach: Reach) -> Result<Self, AddressError> {
        let address = Self::parse(text)?;
        let usable = address.is_secure() || (reach == Reach::Machine && address.is_loopback());
        if usable { Ok(address) } else { Err(AddressError::new(text, Fault::Scheme)) }
    }

    /// The text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The path; `/` where none is written.
    pub(super) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Scheme, host and port, as they are written.
    pub(super) fn origin(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        format!("{scheme}://{authority}")
    }

    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        self.site() == other.site()
    }

    pub(super) fn is_secure(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    pub(super) fn is_loopback(&self) -> bool {
        let host = self.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    fn site(&self) -> (bool, String, u16) {
        let port = self.uri.port_u16().unwrap_or(if self.is_secure() { 443 } else { 80 });
        (self.is_secure(), self.uri.host().unwrap_or_default().to_ascii_lowercase(), port)
    }
}

/// Whether this is a name or a number. The characters in which others write commands are in neither,
/// though the grammar of addresses has room for them.
fn is_host(host: &str) -> bool {
    if let Some(number) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return number.parse::<Ipv6Addr>().is_ok();
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !host.is_empty() && host.bytes().all(legal)
}

/// Foreign text in a message: no control characters, and not too much of it.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(200).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_and_only_where_it_may_be() {
        let may = |text: &str, reach| Address::published(text, reach).is_ok();
        for (text, network, machine) in [
            ("https://as.example/authorize?x=1", true, true),
            ("HTTPS://as.example", true, true),
            ("http://as.example/authorize", false, false),
            ("http://127.0.0.1:8080/a", false, true),
            ("http://127.9.9.9/a", false, true),
            ("http://[::1]:8080/a", false, true),
            ("http://LocalHost:8080/a", false, true),
            ("http://localhost.evil.example/a", false, false),
            ("http://169.254.169.254/latest", false, false),
            ("javascript:alert(1)", false, false),
            ("file:///etc/passwd", false, false),
            ("https:///path", false, false),
            ("https://[::1", false, false),
            ("https://[::g]/", false, false),
            ("https://[2001:db8::1]:8443/a", true, true),
            ("https://a_b-c.example./", true, true),
            ("https://$(id).example/", false, false),
            ("https://a;b.example/", false, false),
            ("https://a%2eb.example/", false, false),
            ("//as.example/x", false, false),
            ("/x", false, false),
            ("https://user:pw@as.example/", false, false),
            ("https://as.example/#x", false, false),
            ("https://as.example/a b", false, false),
            ("https://as.example/\u{1b}[2J", false, false),
            ("https://as.example/$(id)\"", false, false),
            ("", false, false),
        ] {
            assert_eq!(may(text, Reach::Network), network, "{text}");
            assert_eq!(may(text, Reach::Machine), machine, "{text}");
        }
        assert!(!may(&format!("https://as.example/{}", "x".repeat(3000)), Reach::Network));
    }

    #[test]
    fn origins_are_compared_by_meaning() {
        let same = |a, b| Address::parse(a).unwrap().is_same_origin(&Address::parse(b).unwrap());
        assert!(same("https://A.example/x", "https://a.example:443"));
        assert!(!same("https://a.example", "http://a.example"));
        assert!(!same("https://a.example", "https://a.example:8443"));
        assert!(!same("https://a.example", "https://b.a.example"));
    }
}
