//! What an operator or a toolpack writes about an API.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_host::egress::address::{self, to_uri};
use drawgate_host::egress::{HostRule, Reach};
use drawgate_host::secrets::Secrets;
use http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::auth::{self, AuthConfig};
use super::document::usable;
use super::origins::Origins;
use super::select::Operations;
use crate::configure::{headers, resolve};
use crate::confine::rules;
use crate::kind::ConfigError;
use crate::reserved::is_of_gateway;

const MAX_RETRIES: u32 = 10;
const MAX_CONCURRENCY: usize = 256;
const MAX_TIMEOUT: u64 = 3600;

/// An API that an `OpenAPI` document describes. Strings of the form `env:NAME` are replaced by that
/// variable's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenApiConfig {
    /// The document as a file: `OpenAPI` 3.0 or 3.1, JSON or YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_path: Option<String>,
    /// The document's address, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_url: Option<String>,
    /// The folder that the file must lie in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Where requests go, instead of the document's servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Headers of every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Credentials by the name of their security scheme.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub auth: AuthConfig,
    /// How long one call may take.
    #[serde(default = "thirty", skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// How often a request that can be repeated is repeated when the server can't be reached or is
    /// overloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// How many requests may be under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Hosts that may be reached. Without them: those of the addresses written here, wherever they
    /// are, and the servers at public addresses that a document names which is a file. A document that
    /// is fetched leads to its own server only, unless `base_url` or this names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Whether the hosts were written by the operator, who may mean any address by a name.
    #[serde(default)]
    pub hosts_anywhere: bool,
    /// Which operations become tools; all of them by default.
    #[serde(default)]
    pub operations: Operations,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an optional field")]
const fn thirty() -> Option<u64> {
    Some(30)
}

/// Where the document comes from.
pub(super) enum Spec {
    File { path: PathBuf, folder: Option<PathBuf> },
    Address(Url),
}

/// A configuration with its references followed.
pub(super) struct Settings {
    pub(super) spec: Spec,
    pub(super) base: Option<Url>,
    pub(super) headers: HeaderMap,
    pub(super) auth: AuthConfig,
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    pub(super) concurrency: usize,
    /// What is written in the configuration; `None` leaves it to the addresses.
    pub(super) hosts: Option<Vec<HostRule>>,
    pub(super) operations: Operations,
}

impl OpenApiConfig {
    pub(super) fn understand(self, secrets: &Secrets) -> Result<Settings, ConfigError> {
        let spec = self.spec(secrets)?;
        let base = match &self.base_url {
            Some(text) => Some(base(text, secrets)?),
            None => None,
        };
        let hosts = match &self.hosts {
            Some(hosts) => Some(rules(hosts, self.hosts_anywhere)?),
            None => None,
        };
        let given = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let timeout =
            bounded("timeout_seconds", self.timeout_seconds.unwrap_or(30), 1, MAX_TIMEOUT)?;
        Ok(Settings {
            spec,
            base,
            headers: headers(given, is_of_gateway, secrets)?,
            auth: auth::resolve(&self.auth, secrets)?,
            timeout: Duration::from_secs(timeout),
            retries: bounded("retries", self.retries.unwrap_or(2), 0, MAX_RETRIES)?,
            concurrency: bounded("concurrency", self.concurrency.unwrap_or(8), 1, MAX_CONCURRENCY)?,
            hosts,
            operations: self.operations,
        })
    }

    fn spec(&self, secrets: &Secrets) -> Result<Spec, ConfigError> {
        match (&self.spec_path, &self.spec_url) {
            (Some(path), None) => {
                let path = PathBuf::from(resolve("spec_path", path, secrets)?.expose());
                if !path.is_absolute() {
                    return Err(ConfigError::value("spec_path", "must be an absolute path"));
                }
                Ok(Spec::File { path, folder: self.folder.clone() })
            }
            (None, Some(url)) => {
                let url = resolve("spec_url", url, secrets)?;
                let parsed = address::parse(url.expose());
                Ok(Spec::Address(
                    parsed.map_err(|error| ConfigError::value("spec_url", error.to_string()))?,
                ))
            }
            (Some(_), Some(_)) => Err(ConfigError::Unused {
                field: "spec_url",
                why: "`spec_path` names the document already",
            }),
            (None, None) => Err(ConfigError::Missing {
                field: "spec_path",
                why: "name the OpenAPI document by `spec_path` or `spec_url`",
            }),
        }
    }
}

impl Settings {
    /// Where the document may lead.
    pub(super) fn origins(&self) -> Origins<'_> {
        let fetched = match &self.spec {
            Spec::Address(url) => Some(url),
            Spec::File { .. } => None,
        };
        let hosts = self.hosts.as_ref().map(|hosts| Reach::only(hosts.iter().cloned()));
        Origins { fetched, base: self.base.as_ref(), hosts }
    }

    /// Whom requests may reach.
    pub(super) fn reach(&self, servers: &[Url]) -> Reach {
        if let Some(hosts) = &self.hosts {
            return Reach::only(hosts.iter().cloned());
        }
        let rule = |url: &Url| HostRule::of(&to_uri(url).ok()?);
        let tokens = self.auth.values().filter_map(|credential| match credential {
            auth::Credential::Client(client) => address::parse(client.token_url.as_deref()?).ok(),
            auth::Credential::Text(_) | auth::Credential::Password(_) => None,
        });
        let own = self.origins().fetched.into_iter().chain(&self.base).cloned().chain(tokens);
        let own = own.filter_map(|url| Some(rule(&url)?.anywhere()));
        // A server that only a document names is reached where its address is public: what a stranger
        // wrote opens nothing inside.
        let servers = servers.iter().filter_map(rule);
        Reach::only(own.chain(servers).collect::<Vec<_>>())
    }
}

/// Refuses a document that only seems to lie in its folder.
pub(super) fn check_folder(path: &Path, folder: &Path) -> Result<(), String> {
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| format!("`{}` can't be read: {error}", path.display()))
    };
    let (file, folder) = (real(path)?, real(folder)?);
    if file.starts_with(&folder) {
        return Ok(());
    }
    Err(format!("`{}` lies outside of `{}`", path.display(), folder.display()))
}

fn base(text: &str, secrets: &Secrets) -> Result<Url, ConfigError> {
    let resolved = resolve("base_url", text, secrets)?;
    if resolved.expose().contains(['{', '}']) {
        let message = "must be a whole address; what stands in braces is not filled in";
        return Err(ConfigError::value("base_url", message));
    }
    usable(address::parse(resolved.expose()))
        .map_err(|error| ConfigError::value("base_url", error.to_string()))
}

fn bounded<T: Copy + PartialOrd + std::fmt::Display>(
    field: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, ConfigError> {
    if value < least || value > most {
        return Err(ConfigError::value(field, format!("must be from {least} to {most}")));
    }
    Ok(value)
}
