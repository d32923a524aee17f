//! The gateway's address, read once.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

/// Why a text is not the address of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is no URL.
    #[error("`{0}` is no URL; write it like `http://127.0.0.1:7700`")]
    Url(String),
    /// It begins with something else.
    #[error("the URL of the gateway begins with `http://` or `https://`, not like `{0}`")]
    Scheme(String),
    /// There is more than scheme, host and port.
    #[error("the URL of the gateway is scheme, host and port alone; `{0}` has more")]
    Extra(String),
}

/// Scheme, host and port.
#[derive(Debug, Clone)]
pub(super) struct Address {
    origin: Uri,
    authority: String,
    host: String,
    port: u16,
    secure: bool,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, AddressError> {
        let bad = || AddressError::Url(url.to_owned());
        let origin: Uri = url.trim().parse().map_err(|_| bad())?;
        let secure = match origin.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) => return Err(AddressError::Scheme(url.to_owned())),
            None => return Err(bad()),
        };
        let authority = origin.authority().ok_or_else(bad)?;
        if authority.as_str().contains('@')
            || !matches!(origin.path(), "" | "/")
            || origin.query().is_some()
        {
            return Err(AddressError::Extra(url.to_owned()));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(bad());
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") if secure => 443,
            Some("") => 80,
            Some(port) => port.trim_start_matches(':').parse().map_err(|_| bad())?,
            None => return Err(bad()),
        };
        Ok(Self { authority: authority.as_str().to_owned(), host, port, secure, origin })
    }

    pub(super) const fn origin(&self) -> &Uri {
        &self.origin
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) const fn secure(&self) -> bool {
        self.secure
    }

    /// Whether the host is this machine by its very name.
    pub(super) fn on_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_scheme_host_and_port() {
        let cases = [
            ("http://127.0.0.1:7700", "127.0.0.1:7700", "127.0.0.1", 7700, false, true),
            ("http://localhost:7700/", "localhost:7700", "localhost", 7700, false, true),
            ("http://[::1]:7700", "[::1]:7700", "::1", 7700, false, true),
            (
                "https://tools.example.com",
                "tools.example.com",
                "tools.example.com",
                443,
                true,
                false,
            ),
            ("http://10.0.0.7", "10.0.0.7", "10.0.0.7", 80, false, false),
            (
                "http://localhost.example.com:1",
                "localhost.example.com:1",
                "localhost.example.com",
                1,
                false,
                false,
            ),
        ];
        for (url, authority, host, port, secure, loopback) in cases {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.authority(), authority, "{url}");
            assert_eq!(address.host(), host, "{url}");
            assert_eq!(address.port(), port, "{url}");
            assert_eq!(address.secure(), secure, "{url}");
            assert_eq!(address.on_loopback(), loopback, "{url}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for url in ["", "127.0.0.1:7700", "localhost", "/", "http://", "http://host:99999"] {
            assert!(matches!(Address::parse(url), Err(AddressError::Url(_))), "{url}");
        }
        for url in ["ftp://host", "grpc://host:1"] {
            assert!(matches!(Address::parse(url), Err(AddressError::Scheme(_))), "{url}");
        }
        for url in ["http://me:secret@host", "http://host/mcp", "http://host/?a=1"] {
            assert!(matches!(Address::parse(url), Err(AddressError::Extra(_))), "{url}");
        }
    }
}
