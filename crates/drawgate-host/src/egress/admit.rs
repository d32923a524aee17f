//! Whether a request may be made, from its address alone. What its name turns out to mean is checked
//! when it is resolved.

use std::borrow::Cow;
use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;
use parking_lot::RwLock;

use super::address::{AddressError, bare_host, is_host, port};
use super::error::{EgressError, Refusal};
use super::network::Scope;
use super::ranges::is_public;
use super::reach::{Admission, HostRule, Reach};

/// What names of this machine end in, or are.
const THIS_MACHINE: &[&str] =
    &["localhost", "localdomain", "localhost6", "localdomain6", "ip6-localhost", "ip6-loopback"];
/// What names inside private networks end in, and names of no network at all: nobody owns them on the
/// internet. (`test` is one, too; what it means is left to the resolver, which is where tests are.)
const INSIDE: &[&str] = &[
    "corp",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localnet",
    "onion",
    "private",
    "svc",
];
/// Names at and below which clouds tell secrets to whoever asks from inside.
const METADATA: &[&str] = &["metadata.goog", "metadata.tencentyun.com", "metadata.packet.net"];

/// What the operator allows everybody.
#[derive(Default)]
pub(super) struct Allowed(RwLock<Vec<HostRule>>);

impl Allowed {
    pub(super) fn replace(&self, rules: Vec<HostRule>) {
        *self.0.write() = rules.into_iter().map(HostRule::anywhere).collect();
    }

    /// The operator's word lifts the check of addresses; it adds hosts only to who may reach all of
    /// the internet, not to who named the hosts that it needs.
    fn widen(&self, reach: &Reach, host: &str, port: u16) -> Admission {
        match reach.admits(host, port) {
            Admission::Anywhere => Admission::Anywhere,
            Admission::Refused if !reach.is_public() => Admission::Refused,
            own @ (Admission::Refused | Admission::Public) => {
                let rules = self.0.read();
                rules.iter().map(|rule| rule.admits(host, port)).max().map_or(own, |it| it.max(own))
            }
        }
    }

    /// Which addresses a request may go to, if it may be made at all.
    pub(super) fn admit(&self, uri: &Uri, reach: &Reach) -> Result<Scope, EgressError> {
        if uri.scheme() != Some(&Scheme::HTTP) && uri.scheme() != Some(&Scheme::HTTPS) {
            let scheme = uri.scheme_str().unwrap_or_default().chars().take(20).collect();
            return Err(AddressError::Scheme(scheme).into());
        }
        if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
            return Err(AddressError::Userinfo.into());
        }
        let host = bare_host(uri).unwrap_or_default();
        self.admit_host(&lower(host), port(uri), reach)
    }

    pub(super) fn admit_host(
        &self,
        host: &str,
        port: u16,
        reach: &Reach,
    ) -> Result<Scope, EgressError> {
        let host = host.strip_suffix('.').unwrap_or(host);
        if port == 0 {
            return Err(AddressError::Port.into());
        }
        let admission = self.widen(reach, host, port);
        if admission == Admission::Anywhere {
            return Ok(Scope::Anywhere);
        }
        if !is_host(host) {
            return Err(
                AddressError::Malformed("its host is not a name that can be looked up").into()
            );
        }
        let refused = |reason| {
            let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            let host = format!("{shown}:{port}");
            Err(EgressError::Refused { host, reason })
        };
        if let Some(reason) = inner(host) {
            return refused(reason);
        }
        match admission {
            Admission::Public | Admission::Anywhere => Ok(Scope::Public),
            Admission::Refused => {
                let elsewhere = reach.admits(host, 443).max(reach.admits(host, 80));
                let otherwise = elsewhere != Admission::Refused;
                refused(if otherwise { Refusal::Port } else { Refusal::Host })
            }
        }
    }
}

/// Why a host can't be one of the internet.
fn inner(host: &str) -> Option<Refusal> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return (!is_public(address)).then_some(Refusal::Private);
    }
    let ends_in = |list: &[&str]| {
        let below = |name: &&str| {
            host.strip_suffix(*name).is_some_and(|head| head.is_empty() || head.ends_with('.'))
        };
        list.iter().any(below)
    };
    if ends_in(THIS_MACHINE) {
        return Some(Refusal::Private);
    }
    // A name without a dot is looked up in the local network's own domain.
    (ends_in(INSIDE) || ends_in(METADATA) || !host.contains('.')).then_some(Refusal::Inside)
}

fn lower(host: &str) -> Cow<'_, str> {
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}
