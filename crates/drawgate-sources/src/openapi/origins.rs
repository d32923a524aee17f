//! Where a document that came over the network may send requests, and credentials with them.
//!
//! A file is its owner's word. Who serves a document may change it any day: it leads to its own
//! server, and elsewhere only as far as the configuration says.

use drawgate_host::egress::address::is_same_origin;
use drawgate_host::egress::{Admission, Reach};
use url::Url;

use super::document::shown;

/// Those that a host in `hosts` means by itself.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// What the configuration says about addresses.
pub(super) struct Origins<'a> {
    /// Where the document was fetched.
    pub(super) fetched: Option<&'a Url>,
    /// Where requests go, instead of the document's servers.
    pub(super) base: Option<&'a Url>,
    /// The hosts that may be reached, where they are named.
    pub(super) hosts: Option<Reach>,
}

/// Why a document may not lead to an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stray {
    /// Only the document names it.
    #[error(
        "the OpenAPI document of `{from}` leads to another server, `{}`, which the configuration does not name",
        shown(.to)
    )]
    Unnamed {
        /// Who serves the document.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// Without TLS, from a document that came with it.
    #[error("the OpenAPI document came over `https` and leads to `{}`, where all can be read on the way", shown(.0))]
    Plain(String),
}

impl Stray {
    /// What to do where requests shall go there.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Unnamed { from, to } if !is_downgrade(from, to) => format!(
                "if it is meant, set `base_url` to it, or add {} to `hosts` (of a pack: `permissions.hosts`)",
                host_rule(to)
            ),
            // To name the host would not be enough.
            Self::Unnamed { .. } | Self::Plain(_) => {
                "set `base_url` to it if it is meant".to_owned()
            }
        }
    }
}

fn is_downgrade(from: &str, to: &str) -> bool {
    from.starts_with("https:") && to.starts_with("http:")
}

/// What to write into `hosts`: without a port, a host means the usual ones only.
fn host_rule(to: &str) -> String {
    let url = Url::parse(to).ok();
    let parts = url.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
    match parts {
        Some((host, port)) if !USUAL_PORTS.contains(&port) => {
            format!("`{}`", shown(&format!("{host}:{port}")))
        }
        Some(_) | None => "its host".to_owned(),
    }
}

impl Origins<'_> {
    /// Refuses an address that only a fetched document names.
    pub(super) fn check(&self, to: &Url) -> Result<(), Stray> {
        let Some(fetched) = self.fetched else { return Ok(()) };
        if is_same_origin(fetched, to) || self.base.is_some_and(|base| is_same_origin(base, to)) {
            return Ok(());
        }
        if !self.is_named(to) {
            let from = fetched.origin().ascii_serialization();
            return Err(Stray::Unnamed { from, to: to.to_string() });
        }
        if is_downgrade(fetched.as_str(), to.as_str()) {
            return Err(Stray::Plain(to.to_string()));
        }
        Ok(())
    }

    fn is_named(&self, to: &Url) -> bool {
        let host = to.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = to.port_or_known_default().unwrap_or_default();
        self.hosts.as_ref().is_some_and(|hosts| hosts.admits(bare, port) != Admission::Refused)
    }
}

#[cfg(test)]
#[path = "origins_tests.rs"]
mod tests;
