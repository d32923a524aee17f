//! Whom a request may reach.
//!
//! Addresses of this machine and of private networks are open only to who was allowed the host by
//! name; everybody else reaches the public internet, at its usual ports.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;

use super::address::{bare_host, is_name, port};
use super::ranges::is_within;

/// The ports of HTTP, where a rule names none.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// A set of hosts. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Whether every public host is in it.
    public: bool,
    named: Arc<[HostRule]>,
}

/// What a reach says about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admission {
    /// It may not be reached.
    Refused,
    /// It may be reached where its address is a public one.
    Public,
    /// It may be reached wherever it is.
    Anywhere,
}

impl Reach {
    /// Nobody.
    #[must_use]
    pub fn nobody() -> Self {
        Self { public: false, named: Arc::default() }
    }

    /// Every public host, at the ports of HTTP.
    #[must_use]
    pub fn public() -> Self {
        Self { public: true, named: Arc::default() }
    }

    /// The host and port of one address, wherever it is: for an address that an operator wrote.
    #[must_use]
    pub fn own(uri: &Uri) -> Self {
        Self::only(HostRule::of(uri).map(HostRule::anywhere))
    }

    /// Only what these rules admit.
    #[must_use]
    pub fn only(rules: impl IntoIterator<Item = HostRule>) -> Self {
        Self { public: false, named: rules.into_iter().collect() }
    }

    /// What these rules admit, too.
    #[must_use]
    pub fn and(self, rules: impl IntoIterator<Item = HostRule>) -> Self {
        let named = self.named.iter().cloned().chain(rules).collect();
        Self { named, ..self }
    }

    /// The rules that it was made of.
    pub fn rules(&self) -> impl Iterator<Item = &HostRule> {
        self.named.iter()
    }

    /// Whether every public host is in it.
    pub(super) const fn is_public(&self) -> bool {
        self.public
    }

    /// What it says about a host, which is a name in lower case (without a final dot) or an address.
    #[must_use]
    pub fn admits(&self, host: &str, port: u16) -> Admission {
        let open = if self.public && USUAL_PORTS.contains(&port) {
            Admission::Public
        } else {
            Admission::Refused
        };
        self.named
            .iter()
            .map(|rule| rule.admits(host, port))
            .max()
            .map_or(open, |best| best.max(open))
    }
}

/// One host, or a family of them: `api.example.com`, `*.example.com`, `10.1.2.3:8080`,
/// `10.0.0.0/8`, `[::1]:3000`, `*`. Without a port it means 80 and 443; `:*` means every port.
///
/// An address or `localhost` is meant wherever it is. A name is meant where its address is public,
/// since whoever owns the name decides where it points, unless the operator wrote it
/// ([`anywhere`](Self::anywhere)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    host: Hosts,
    ports: Ports,
    anywhere: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Any,
    Name(String),
    Below(String),
    Net(IpAddr, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ports {
    Usual,
    Every,
    One(u16),
}

impl HostRule {
    /// The host and port of an address; `None` if it has none that could be looked up.
    #[must_use]
    pub fn of(uri: &Uri) -> Option<Self> {
        let host = parse_host(bare_host(uri)?)?;
        let single = match host {
            Hosts::Name(_) | Hosts::Net(..) => Some(host),
            Hosts::Any | Hosts::Below(_) => None,
        };
        Some(Self { host: single?, ports: Ports::One(port(uri)), anywhere: false })
    }

    /// The same host wherever its name points: for what an operator wrote.
    #[must_use]
    pub fn anywhere(self) -> Self {
        Self { anywhere: !matches!(self.host, Hosts::Any), ..self }
    }

    /// Whether it opens addresses of this machine or of private networks.
    #[must_use]
    pub const fn is_inner(&self) -> bool {
        self.anywhere
    }

    pub(super) fn admits(&self, host: &str, port: u16) -> Admission {
        let port_fits = match self.ports {
            Ports::Usual => USUAL_PORTS.contains(&port),
            Ports::Every => true,
            Ports::One(one) => one == port,
        };
        let host_fits = match &self.host {
            Hosts::Any => true,
            Hosts::Name(name) => name == host,
            Hosts::Below(domain) => {
                host.strip_suffix(domain.as_str()).is_some_and(|head| head.ends_with('.'))
            }
            Hosts::Net(net, prefix) => {
                host.parse().is_ok_and(|address: IpAddr| is_within(address, *net, *prefix))
            }
        };
        match (port_fits && host_fits, self.anywhere) {
            (false, _) => Admission::Refused,
            (true, false) => Admission::Public,
            (true, true) => Admission::Anywhere,
        }
    }
}

/// Not a rule about hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` does not name a host; write one such as `api.example.com`, `*.example.com`, `127.0.0.1:8080` or `10.0.0.0/8`",
    .0.escape_debug()
)]
pub struct HostRuleError(String);

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, HostRuleError> {
        let bad = || HostRuleError(text.to_owned());
        let (host, port) = split_port(text).ok_or_else(bad)?;
        let ports = match port {
            None => Ports::Usual,
            Some("*") => Ports::Every,
            Some(port) => Ports::One(port.parse().ok().filter(|port| *port != 0).ok_or_else(bad)?),
        };
        let host = parse_host(host).ok_or_else(bad)?;
        let anywhere = match &host {
            Hosts::Net(..) => true,
            Hosts::Name(name) => name == "localhost",
            Hosts::Any | Hosts::Below(_) => false,
        };
        Ok(Self { host, ports, anywhere })
    }
}

/// `host:port`, `[address]:port`, or either without a port.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((address, Some(port))),
            None if rest.is_empty() => Some((address, None)),
            None => None,
        };
    }
    match text.split_once(':') {
        // More than one colon: an address of version 6 without brackets.
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

fn parse_host(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::Any);
    }
    if let Some((net, prefix)) = text.split_once('/') {
        let net: IpAddr = net.parse().ok()?;
        let most = if net.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| (8..=most).contains(prefix))?;
        return Some(Hosts::Net(net, prefix));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Hosts::Net(address, if address.is_ipv4() { 32 } else { 128 }));
    }
    let (name, below) = match text.strip_prefix("*.") {
        Some(domain) => (domain, true),
        None => (text, false),
    };
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    if !is_name(name) {
        return None;
    }
    let name = name.to_owned();
    Some(if below { Hosts::Below(name) } else { Hosts::Name(name) })
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Hosts::Any => f.write_str("*")?,
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Below(domain) => write!(f, "*.{domain}")?,
            Hosts::Net(IpAddr::V4(net), 32) => write!(f, "{net}")?,
            Hosts::Net(IpAddr::V6(net), 128) => write!(f, "[{net}]")?,
            Hosts::Net(net, prefix) => write!(f, "{net}/{prefix}")?,
        }
        match self.ports {
            Ports::Usual => Ok(()),
            Ports::Every => f.write_str(":*"),
            Ports::One(port) => write!(f, ":{port}"),
        }
    }
}
