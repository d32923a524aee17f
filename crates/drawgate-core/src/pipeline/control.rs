//! The operator's handle on a gate, apart from what surfaces get.

use std::sync::Arc;

use super::gateway::{Gateway, GatewayParts};
use crate::model::ToolGatewaySnapshot;

/// The handle by which rights, rules, settings and the audit log of a gate are changed.
///
/// It makes the gate, and is held by assembly and operations alone. Surfaces get the [`Gateway`], from
/// which neither this handle nor the parts can be reached. Cheap to clone.
#[derive(Clone)]
pub struct GatewayControl {
    gateway: Gateway,
}

impl GatewayControl {
    /// Makes a gate.
    #[must_use]
    pub fn new(parts: GatewayParts) -> Self {
        Self { gateway: Gateway::new(parts) }
    }

    /// The gate, for surfaces.
    #[must_use]
    pub const fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// What the gate is made of.
    #[must_use]
    pub fn parts(&self) -> &GatewayParts {
        &self.gateway.parts
    }

    /// The exact arguments that an approval is about, as canonical JSON: for the person who decides,
    /// after they have shown who they are. `None` after a restart, until the same call comes again.
    #[must_use]
    pub fn exact_arguments(&self, approval: &str) -> Option<Arc<str>> {
        self.gateway.held_calls.arguments(approval)
    }

    /// Forgets the exact arguments of a call that has been decided.
    pub fn forget_arguments(&self, approval: &str) {
        self.gateway.held_calls.decided(approval);
    }

    /// The state of the gate.
    #[must_use]
    pub fn snapshot(&self) -> ToolGatewaySnapshot {
        let parts = self.parts();
        let registry = parts.registry.snapshot();
        ToolGatewaySnapshot {
            tools: registry.entries().map(|entry| entry.describe()).collect(),
            grants: parts.grants.live(parts.clock.now_ms()),
            audit_cursor: parts.audit.head(),
        }
    }
}
