//! What a source of kind `openapi` is made from.

use std::path::PathBuf;
use std::time::Duration;

use drawgate_host::egress::address::{self, to_uri};
use drawgate_host::egress::{HostRule, Reach};
use drawgate_host::secrets::Secrets;
use http::HeaderMap;
use serde::Deserialize;
use url::Url;

use super::auth::{self, AuthConfig};
use super::connector::OpenapiConnector;
use super::document::usable;
use super::origins::Origins;
use super::select::Operations;
use crate::configure::{headers, resolve};
use crate::confine::rules;
use crate::kind::ConfigError;
use crate::reserved::is_of_gateway;

/// How often a request is repeated, by default and at most.
const RETRIES: u32 = 2;
const MAX_RETRIES: u32 = 10;
/// How many requests are under way at once, by default and at most.
const CONCURRENCY: usize = 8;
const MAX_CONCURRENCY: usize = 256;
/// Seconds that a call may take, by default and at most.
const TIMEOUT: u64 = 30;
const MAX_TIMEOUT: u64 = 3600;

/// An API as a source is made for it.
#[derive(Debug, Clone, Deserialize)]
pub struct OpenApiConfig {
    /// What is written about the API; `spec_path` is absolute.
    #[serde(flatten)]
    pub api: OpenapiConnector,
    /// Hosts that may be reached. Without them: those of the addresses written here, wherever they
    /// are, and the servers at public addresses that a document names which is a file. A document that
    /// is fetched leads to its own server only, unless `base_url` or this names another.
    pub hosts: Option<Vec<String>>,
    /// Which operations become tools; all of them by default.
    #[serde(default)]
    pub operations: Operations,
}

/// Where the document comes from.
pub(super) enum Spec {
    File(PathBuf),
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
    pub(super) fn validate(self, secrets: &Secrets) -> Result<Settings, ConfigError> {
        let api = &self.api;
        let given = api.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let seconds = api.timeout_seconds.unwrap_or(TIMEOUT);
        let timeout = bounded("timeout_seconds", seconds, 1, MAX_TIMEOUT)?;
        let concurrency = api.concurrency.unwrap_or(CONCURRENCY);
        Ok(Settings {
            spec: self.spec(secrets)?,
            base: api.base_url.as_deref().map(|text| base(text, secrets)).transpose()?,
            headers: headers(given, is_of_gateway, secrets)?,
            auth: auth::resolve(&api.auth, secrets)?,
            timeout: Duration::from_secs(timeout),
            retries: bounded("retries", api.retries.unwrap_or(RETRIES), 0, MAX_RETRIES)?,
            concurrency: bounded("concurrency", concurrency, 1, MAX_CONCURRENCY)?,
            hosts: self.hosts.as_deref().map(|hosts| rules(hosts, false)).transpose()?,
            operations: self.operations,
        })
    }

    fn spec(&self, secrets: &Secrets) -> Result<Spec, ConfigError> {
        match (&self.api.spec_path, &self.api.spec_url) {
            (Some(path), None) => {
                let path = PathBuf::from(resolve("spec_path", path, secrets)?.expose());
                if !path.is_absolute() {
                    return Err(ConfigError::value("spec_path", "must be an absolute path"));
                }
                Ok(Spec::File(path))
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
            Spec::File(_) => None,
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
