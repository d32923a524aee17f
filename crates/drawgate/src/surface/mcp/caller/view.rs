//! The part of the registry that one caller may use.

use std::collections::BTreeSet;
use std::sync::Arc;

use drawgate_core::model::{Caller, Operation, SourceId};
use drawgate_core::pipeline::View;
use drawgate_core::registry::Snapshot;

use crate::surface::mcp::Mcp;

/// What a caller may use of one snapshot of the registry.
pub(crate) struct CallerView<'a> {
    mcp: &'a Mcp,
    view: View,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl<'a> CallerView<'a> {
    pub(crate) fn of(mcp: &'a Mcp, caller: &Caller) -> Self {
        let gateway = &mcp.inner.gateway;
        Self { mcp, view: gateway.view(caller), snapshot: gateway.registry() }
    }

    /// The sources that offer this operation to the caller.
    pub(crate) fn open(&self, operation: Operation) -> BTreeSet<SourceId> {
        self.mcp.inner.gateway.open_sources(&self.view, &self.snapshot, operation)
    }
}
