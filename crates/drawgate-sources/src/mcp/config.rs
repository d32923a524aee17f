//! What an operator writes about an MCP server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drawgate_host::process::Spawn;
use drawgate_host::secrets::Secrets;
use http::{HeaderMap, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::configure::{headers, spawn, unused, uri};
use crate::kind::ConfigError;

/// How long a server may take to start, by default.
const START_TIMEOUT_MS: u64 = 30_000;
/// How many calls a server gets at once, by default.
const CONCURRENCY: usize = 64;

/// One MCP server. Strings of the form `env:NAME` are replaced by that variable's value.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// `stdio` or `streamable_http`; it may be left out where `command` or `url` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// For `stdio`: the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// For `stdio`: its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// For `stdio`: its environment, beside `PATH`, `HOME`, `LANG`, `TMPDIR` and `USER`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// For `stdio`: the folder to start in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<PathBuf>,
    /// For `streamable_http`: the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For `streamable_http`: further headers, such as `Authorization`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How long the server may take to start and shake hands.
    #[serde(default = "start_timeout_ms")]
    pub start_timeout_ms: u64,
    /// How many calls it gets at once.
    #[serde(default = "concurrency")]
    pub concurrency: usize,
}

/// How to reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A child process, line by line.
    Stdio,
    /// HTTP, with answers as JSON or as event streams.
    #[serde(alias = "streamableHttp", alias = "http")]
    StreamableHttp,
}

/// A configuration that has been understood.
pub(super) struct Settings {
    pub(super) endpoint: Endpoint,
    pub(super) start_timeout: Duration,
    pub(super) concurrency: usize,
}

pub(super) enum Endpoint {
    Stdio(Spawn),
    Http { uri: Uri, headers: HeaderMap },
}

const fn start_timeout_ms() -> u64 {
    START_TIMEOUT_MS
}

const fn concurrency() -> usize {
    CONCURRENCY
}

impl McpConfig {
    pub(super) fn understand(self, secrets: &Secrets) -> Result<Settings, ConfigError> {
        if self.concurrency == 0 || self.start_timeout_ms == 0 {
            return Err(ConfigError::value(
                "concurrency",
                "`concurrency` and `start_timeout_ms` must be at least 1",
            ));
        }
        let (start_timeout, concurrency) =
            (Duration::from_millis(self.start_timeout_ms), self.concurrency);
        let endpoint = match self.transport()? {
            Transport::Stdio => self.stdio(secrets)?,
            Transport::StreamableHttp => self.http(secrets)?,
        };
        Ok(Settings { endpoint, start_timeout, concurrency })
    }

    fn transport(&self) -> Result<Transport, ConfigError> {
        match (self.transport, &self.command, &self.url) {
            (Some(transport), _, _) => Ok(transport),
            (None, Some(_), None) => Ok(Transport::Stdio),
            (None, None, Some(_)) => Ok(Transport::StreamableHttp),
            (None, _, _) => Err(ConfigError::Missing {
                field: "transport",
                why: "give `command` for a server that is a program, or `url` for one on the network",
            }),
        }
    }

    fn stdio(self, secrets: &Secrets) -> Result<Endpoint, ConfigError> {
        const WHY: &str = "a server with transport `stdio` is a program";
        unused("url", self.url.is_some(), WHY)?;
        unused("headers", !self.headers.is_empty(), WHY)?;
        let command = self.command.ok_or(ConfigError::Missing { field: "command", why: WHY })?;
        spawn(&command, &self.args, &self.env, self.working_dir, secrets).map(Endpoint::Stdio)
    }

    fn http(self, secrets: &Secrets) -> Result<Endpoint, ConfigError> {
        const WHY: &str = "a server with transport `streamable_http` is reached by its `url`";
        unused("command", self.command.is_some(), WHY)?;
        unused("args", !self.args.is_empty(), WHY)?;
        unused("env", !self.env.is_empty(), WHY)?;
        unused("working_dir", self.working_dir.is_some(), WHY)?;
        let url = self.url.ok_or(ConfigError::Missing { field: "url", why: WHY })?;
        Ok(Endpoint::Http { uri: uri(&url, secrets)?, headers: headers(&self.headers, secrets)? })
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
