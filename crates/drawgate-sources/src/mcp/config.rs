//! What an operator writes about an MCP server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drawgate_host::egress::Reach;
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::Profile;
use drawgate_host::secrets::Secrets;
use http::{HeaderMap, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backoff::LONGEST;
use super::requests::ClientRequest;
use super::supervise::{Audience, Care};
use crate::configure::{headers, held_to, reach, spawn, unused, uri, websocket_uri};
use crate::confine::{SandboxConfig, profile};
use crate::kind::ConfigError;

/// How long a server may take to start, by default.
const START_TIMEOUT_MS: u64 = 30_000;
/// How long calls are refused after too many in a row have failed, by default.
const BREAKER_PAUSE_MS: u64 = 30_000;
/// How many calls a server gets at once, by default.
const CONCURRENCY: usize = 64;

/// One MCP server. Strings of the form `env:NAME` are replaced by that variable's value.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// How to reach it; it may be left out where `command` (`stdio`) or `url` (`streamable_http`) says
    /// it.
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
    /// For `stdio`: what the program is held to. Absent: nothing but the gateway's own rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxConfig>,
    /// For all but `stdio`: the address; for `websocket` with `ws://` or `wss://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For all but `stdio`: further headers, such as `Authorization`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// For all but `stdio`: hosts that it may be at, if somebody else than the operator wrote the
    /// address. A name is then meant where its address is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// How long the server may take to start and shake hands.
    #[serde(default = "start_timeout_ms")]
    pub start_timeout_ms: u64,
    /// How many calls it gets at once.
    #[serde(default = "concurrency")]
    pub concurrency: usize,
    /// For `stdio`: how long nobody may need the server before it is ended, to be started again for
    /// the next call. Absent: it keeps running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_shutdown_ms: Option<u64>,
    /// Whether clients share a connection.
    #[serde(default)]
    pub sessions: Sessions,
    /// How long calls are refused after too many in a row have failed.
    #[serde(default = "breaker_pause_ms")]
    pub breaker_pause_ms: u64,
    /// The longest pause before a server that was lost is tried again.
    #[serde(default = "longest_pause_ms")]
    pub longest_pause_ms: u64,
    /// What the server may ask of those who call it.
    #[serde(default = "client_requests")]
    pub client_requests: Vec<ClientRequest>,
}

/// Whether clients share a connection to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sessions {
    /// All clients share one.
    #[default]
    Shared,
    /// Each client has its own, for servers that keep state for their client.
    PerClient,
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
    /// HTTP with server-sent events, as in revision 2024-11-05.
    Sse,
    /// WebSocket with the subprotocol `mcp`.
    Websocket,
}

/// A configuration that has been understood.
pub(super) struct Settings {
    pub(super) endpoint: Endpoint,
    pub(super) start_timeout: Duration,
    pub(super) concurrency: usize,
    pub(super) care: Care,
    pub(super) sessions: Sessions,
    pub(super) breaker_pause: Duration,
    pub(super) client_requests: Vec<ClientRequest>,
}

pub(super) enum Endpoint {
    Stdio(Spawn),
    Http(Address),
    Sse(Address),
    Websocket(Address),
}

impl Endpoint {
    /// The sandbox profile of a server that is a program.
    pub(super) fn profile(&self) -> Option<Profile> {
        match self {
            Self::Stdio(spawn) => Some(profile(spawn)),
            Self::Http(_) | Self::Sse(_) | Self::Websocket(_) => None,
        }
    }
}

/// A server on the network.
pub(super) struct Address {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) reach: Reach,
}

fn longest_pause_ms() -> u64 {
    u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX)
}

const fn breaker_pause_ms() -> u64 {
    BREAKER_PAUSE_MS
}

const fn start_timeout_ms() -> u64 {
    START_TIMEOUT_MS
}

fn client_requests() -> Vec<ClientRequest> {
    ClientRequest::USUAL.to_vec()
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
        if self.idle_shutdown_ms == Some(0) {
            return Err(ConfigError::value("idle_shutdown_ms", "must be at least 1"));
        }
        let care = Care {
            idle: self.idle_shutdown_ms.map(Duration::from_millis),
            longest_pause: Duration::from_millis(self.longest_pause_ms),
            audience: Audience::Gate,
        };
        let start_timeout = Duration::from_millis(self.start_timeout_ms);
        let breaker_pause = Duration::from_millis(self.breaker_pause_ms);
        let (concurrency, sessions) = (self.concurrency, self.sessions);
        let client_requests = self.client_requests.clone();
        let endpoint = match self.transport()? {
            Transport::Stdio => self.stdio(secrets)?,
            Transport::StreamableHttp => Endpoint::Http(self.address(secrets, uri)?),
            Transport::Sse => Endpoint::Sse(self.address(secrets, uri)?),
            Transport::Websocket => Endpoint::Websocket(self.address(secrets, websocket_uri)?),
        };
        Ok(Settings {
            endpoint,
            start_timeout,
            concurrency,
            care,
            sessions,
            breaker_pause,
            client_requests,
        })
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
        unused("hosts", self.hosts.is_some(), WHY)?;
        let command = self.command.ok_or(ConfigError::Missing { field: "command", why: WHY })?;
        let spawn = spawn(&command, &self.args, &self.env, self.working_dir, secrets)?;
        Ok(Endpoint::Stdio(held_to(spawn, self.sandbox.as_ref())?))
    }

    fn address(
        self,
        secrets: &Secrets,
        read: fn(&str, &Secrets) -> Result<Uri, ConfigError>,
    ) -> Result<Address, ConfigError> {
        const WHY: &str = "a server with another transport than `stdio` is reached by its `url`";
        unused("command", self.command.is_some(), WHY)?;
        unused("args", !self.args.is_empty(), WHY)?;
        unused("env", !self.env.is_empty(), WHY)?;
        unused("working_dir", self.working_dir.is_some(), WHY)?;
        unused("sandbox", self.sandbox.is_some(), WHY)?;
        unused("idle_shutdown_ms", self.idle_shutdown_ms.is_some(), WHY)?;
        let url = self.url.ok_or(ConfigError::Missing { field: "url", why: WHY })?;
        let uri = read(&url, secrets)?;
        let reach = reach(&uri, self.hosts.as_deref())?;
        Ok(Address { uri, headers: headers(&self.headers, secrets)?, reach })
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
