//! Host and Origin: a web page must not reach the gateway through somebody's browser, neither by a
//! forged origin nor by a name that was made to point here.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};

/// Which hosts and origins are ours.
#[derive(Debug, Clone)]
pub struct Guard {
    port: u16,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// The loopback names with the listening port are always ours; the operator may add more.
    #[must_use]
    pub fn new(listen: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        let lower = |list: &[String]| list.iter().map(|text| text.to_ascii_lowercase()).collect();
        Self { port: listen.port(), hosts: lower(hosts), origins: lower(origins) }
    }

    /// Checks a request that came in at `local`.
    pub fn check(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        local: IpAddr,
    ) -> Result<(), (StatusCode, &'static str)> {
        let mut all = headers.get_all(HOST).iter();
        let host = match (all.next(), all.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default().to_ascii_lowercase(),
            _ => return Err((StatusCode::BAD_REQUEST, "exactly one `Host` is needed")),
        };
        let named = uri.authority().map(|authority| authority.as_str().to_ascii_lowercase());
        if !self.is_ours(&host, local) || named.is_some_and(|named| !self.is_ours(&named, local)) {
            return Err((
                StatusCode::FORBIDDEN,
                "this `Host` is not served; see `server.allowed_hosts`",
            ));
        }
        match headers.get(ORIGIN) {
            None => Ok(()),
            Some(origin) if self.is_own_origin(origin.to_str().unwrap_or_default(), local) => {
                Ok(())
            }
            Some(_) => Err((
                StatusCode::FORBIDDEN,
                "this `Origin` is not allowed; see `server.allowed_origins`",
            )),
        }
    }

    /// Checks a request of HTTP/2 that came in at `local`, and returns the host and port that it is
    /// addressed to.
    pub fn authority<'a>(
        &self,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        local: IpAddr,
    ) -> Result<&'a str, &'static str> {
        let mut all = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
        let named = uri.authority().map(http::uri::Authority::as_str);
        let authority = match (named, all.next(), all.next()) {
            (Some(named), None, _) => named,
            (Some(named), Some(host), None) if named.eq_ignore_ascii_case(host) => named,
            (None, Some(host), None) => host,
            _ => return Err("exactly one authority is needed"),
        };
        if !self.is_ours(&authority.to_ascii_lowercase(), local) {
            return Err("this authority is not served; see `server.allowed_hosts`");
        }
        match headers.get(ORIGIN) {
            Some(origin) if !self.is_own_origin(origin.to_str().unwrap_or_default(), local) => {
                Err("this `Origin` is not allowed; see `server.allowed_origins`")
            }
            Some(_) | None => Ok(authority),
        }
    }

    fn is_ours(&self, host: &str, local: IpAddr) -> bool {
        if self.hosts.iter().any(|known| known == host) {
            return true;
        }
        let (name, port) = split_port(host);
        if port.is_some_and(|port| port != self.port) {
            return false;
        }
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let address: Option<IpAddr> = bare.parse().ok();
        let loopback = name == "localhost" || address.is_some_and(|address| address.is_loopback());
        let own = address.is_some_and(|address| address == local && !address.is_unspecified());
        loopback || own || self.hosts.iter().any(|known| known == name)
    }

    fn is_own_origin(&self, origin: &str, local: IpAddr) -> bool {
        let origin = origin.to_ascii_lowercase();
        if self.origins.contains(&origin) {
            return true;
        }
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| {
            let (_, port) = split_port(host);
            port == Some(self.port)
                && !host.contains(['@', '/', '?', '#'])
                && self.is_ours(host, local)
        })
    }
}

/// Splits `name:port`, where the name may be an address in brackets.
fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => match port.parse() {
            Ok(port) => (name, Some(port)),
            // Not a port: then it is no name of ours either.
            Err(_) => ("", None),
        },
        _ => (host, None),
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
