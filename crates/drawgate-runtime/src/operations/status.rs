//! The gateway as a whole.

use drawgate_core::model::ToolGatewaySnapshot;
use serde::{Deserialize, Serialize};

use super::Operations;
use crate::edits::ConfigStatus;

/// What a running gateway is, and what it does.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The address of its endpoint, if there is one.
    pub endpoint: Option<String>,
    /// How many tools can be called.
    pub tools: usize,
    /// How many calls are under way.
    pub calls_under_way: usize,
    /// The sequence of the newest audit event.
    pub audit_head: u64,
    /// The configuration in force, and the edit that is not.
    pub configuration: ConfigStatus,
}

impl Operations {
    /// Every tool, every live grant, and the sequence of the newest audit event.
    #[must_use]
    pub fn snapshot(&self) -> ToolGatewaySnapshot {
        self.control.snapshot()
    }

    /// What the gateway is, and what it does.
    #[must_use]
    pub fn status(&self, endpoint: Option<String>, configuration: ConfigStatus) -> Status {
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            endpoint,
            tools: self.gateway.registry().available().count(),
            calls_under_way: self.gateway.under_way(),
            audit_head: self.gateway.audit_head(),
            configuration,
        }
    }
}
