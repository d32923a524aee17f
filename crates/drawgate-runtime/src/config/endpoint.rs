//! `[server]`: the gateway's own endpoint.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::formats::{HostName, WebOrigin};

/// The gateway's own endpoint: who may reach it, and how much at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Endpoint {
    /// Host names that requests may be addressed to, beside the loopback names with the listen
    /// port. Write `gateway.example` or `gateway.example:8443`.
    #[schemars(with = "Vec<HostName>")]
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call the gateway, beside loopback ones with the listen port.
    /// Write `https://console.example`.
    #[schemars(with = "Vec<WebOrigin>")]
    pub allowed_origins: Vec<String>,
    /// Scheme and host by which clients reach the gateway, such as `https://gateway.example`.
    /// Absent: the listen address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WebOrigin>")]
    pub public_url: Option<String>,
    /// Certificate and key. Needed to listen on an address that other machines can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Largest request body, in bytes.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub max_body_bytes: usize,
    /// Most MCP sessions at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_sessions: usize,
    /// Seconds after which an unused MCP session ends.
    #[schemars(range(min = 1, max = 604_800))]
    pub session_idle_seconds: u64,
    /// Seconds that a call goes on, and its answer is kept, for a client of a session whose connection
    /// broke and who has not come back. 0: the call is cancelled at once.
    #[schemars(range(min = 0, max = 3600))]
    pub resume_seconds: u64,
    /// Most connections at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: usize,
    /// Seconds that calls under way may take to finish when the gateway is asked to stop.
    #[schemars(range(min = 0, max = 3600))]
    pub drain_seconds: u64,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            public_url: None,
            tls: None,
            max_body_bytes: 4 * 1024 * 1024,
            max_sessions: 10_000,
            session_idle_seconds: 1800,
            resume_seconds: 60,
            max_connections: 4096,
            drain_seconds: 25,
        }
    }
}

/// A certificate and its key, as PEM files. Relative paths start at this file's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain.
    #[schemars(extend("format" = "trusted-path"))]
    pub cert: PathBuf,
    /// The private key.
    #[schemars(extend("format" = "secret-path"))]
    pub key: PathBuf,
}
