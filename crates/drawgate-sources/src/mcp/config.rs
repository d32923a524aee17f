//! What a source of kind `mcp` is made from.

use std::time::Duration;

use drawgate_host::secrets::Secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::requests::ClientRequest;
use super::supervise::{Audience, Supervision};
use crate::backoff::Backoff;
use crate::kind::ConfigError;
use crate::server::{Endpoint, ServerConfig};

/// How long a server may take to start, by default.
const START_TIMEOUT_MS: u64 = 30_000;
/// How long calls are refused after too many in a row have failed, by default.
const BREAKER_PAUSE_MS: u64 = 30_000;

/// One MCP server.
#[derive(Debug, Clone, Deserialize)]
pub struct McpConfig {
    /// How it is reached.
    #[serde(flatten)]
    pub server: ServerConfig,
    /// How long the server may take to start and shake hands.
    #[serde(default = "start_timeout_ms")]
    pub start_timeout_ms: u64,
    /// How many calls it gets at once. Absent: as many as the gate lets through.
    #[serde(default)]
    pub concurrency: Option<usize>,
    /// For `stdio`: time without calls after which the program is ended, to be started again for the
    /// next call. Absent: it keeps running.
    #[serde(default)]
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
    /// Whether the operator is told what its program asked for in the sandbox and was not given: for
    /// programs whose permissions the operator writes.
    #[serde(default)]
    pub tells_refusals: bool,
}

/// Whether clients share a connection to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sessions {
    /// All clients share one.
    #[default]
    Shared,
    /// Each client has its own, for servers that keep state for their client; at most 32, each ended
    /// after ten minutes without calls.
    PerClient,
}

/// A configuration with its references followed.
pub(super) struct Settings {
    pub(super) endpoint: Endpoint,
    pub(super) start_timeout: Duration,
    pub(super) concurrency: Option<usize>,
    pub(super) supervision: Supervision,
    pub(super) sessions: Sessions,
    pub(super) breaker_pause: Duration,
    pub(super) client_requests: Vec<ClientRequest>,
    pub(super) tells_refusals: bool,
}

fn longest_pause_ms() -> u64 {
    u64::try_from(Backoff::CONNECTION.longest().as_millis()).unwrap_or(u64::MAX)
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

impl McpConfig {
    /// A server with everything as it is by default.
    #[must_use]
    pub fn new(server: ServerConfig) -> Self {
        Self {
            server,
            start_timeout_ms: START_TIMEOUT_MS,
            concurrency: None,
            idle_shutdown_ms: None,
            sessions: Sessions::default(),
            breaker_pause_ms: BREAKER_PAUSE_MS,
            longest_pause_ms: longest_pause_ms(),
            client_requests: client_requests(),
            tells_refusals: false,
        }
    }

    pub(super) fn validate(self, secrets: &Secrets) -> Result<Settings, ConfigError> {
        if self.concurrency == Some(0) || self.start_timeout_ms == 0 {
            return Err(ConfigError::value(
                "concurrency",
                "`concurrency` and `start_timeout_ms` must be at least 1",
            ));
        }
        if self.idle_shutdown_ms == Some(0) {
            return Err(ConfigError::value("idle_shutdown_ms", "must be at least 1"));
        }
        let endpoint = self.server.endpoint(secrets)?;
        if self.idle_shutdown_ms.is_some() && endpoint.profile().is_none() {
            let why = "it is for servers with transport `stdio`";
            return Err(ConfigError::Unused { field: "idle_shutdown_ms", why });
        }
        Ok(Settings {
            endpoint,
            start_timeout: Duration::from_millis(self.start_timeout_ms),
            concurrency: self.concurrency,
            supervision: Supervision {
                idle: self.idle_shutdown_ms.map(Duration::from_millis),
                longest_pause: Duration::from_millis(self.longest_pause_ms),
                audience: Audience::Gate,
            },
            sessions: self.sessions,
            breaker_pause: Duration::from_millis(self.breaker_pause_ms),
            client_requests: self.client_requests,
            tells_refusals: self.tells_refusals,
        })
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
