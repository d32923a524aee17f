//! The part of the registry that one caller may use.

use std::collections::BTreeSet;
use std::sync::Arc;

use drawgate_core::model::{Caller, Operation, SourceId};
use drawgate_core::pipeline::{Gateway, View};
use drawgate_core::registry::Snapshot;

/// What a caller may use of one snapshot of the registry.
pub(crate) struct CallerView<'a> {
    gateway: &'a Gateway,
    view: View,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl<'a> CallerView<'a> {
    pub(crate) fn of(gateway: &'a Gateway, caller: &Caller) -> Self {
        Self { gateway, view: gateway.view(caller), snapshot: gateway.registry() }
    }

    /// The sources that offer this operation to the caller.
    pub(crate) fn open(&self, operation: Operation) -> BTreeSet<SourceId> {
        self.gateway.open_sources(&self.view, &self.snapshot, operation)
    }
}
