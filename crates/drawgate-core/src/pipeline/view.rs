//! What a caller may see of the registry: the one filter of every list.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Capability, Lineage, ToolPatterns};
use crate::registry::Entry;

/// What a caller holds at a moment and, of a run, which tools it is held to.
///
/// Two views are equal if they show the same of every revision of the registry, whoever has them.
#[derive(Debug, Clone)]
pub struct View {
    held: BTreeSet<Capability>,
    lineage: Option<Arc<Lineage>>,
}

impl View {
    pub(super) const fn new(held: BTreeSet<Capability>, lineage: Option<Arc<Lineage>>) -> Self {
        Self { held, lineage }
    }

    /// The capabilities that the caller holds.
    #[must_use]
    pub const fn held(&self) -> &BTreeSet<Capability> {
        &self.held
    }

    /// The run that calls, if it is one.
    pub(super) fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_deref()
    }

    /// What decides about the tools that a run is shown, beside what it holds.
    fn run(&self) -> Option<(&str, &ToolPatterns)> {
        self.lineage.as_ref().map(|run| (&*run.profile, &run.bounds.tools))
    }

    /// Whether the caller may see and call a tool, or use what an operation beside tools gives.
    #[must_use]
    pub fn admits(&self, entry: &Entry) -> bool {
        entry.is_for(self.lineage.as_deref())
            && entry
                .requires
                .iter()
                .all(|required| self.held.iter().any(|capability| capability.covers(required)))
    }
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.held == other.held && self.run() == other.run()
    }
}

impl Eq for View {}
