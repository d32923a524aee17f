//! What a revision is made of: the tools of all sources, what else they offer, and which are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Entry;
use super::offered::Offered;
use crate::model::{SourceId, ToolId};

/// How a source is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// It is starting: its tools are listed as they are known from before, and calls of them wait for it.
    NotYet,
    /// It is expected back: nobody else's tools may take its names.
    ForNow,
    /// It may come back, and whoever wants its names before that gets them.
    ForGood,
}

/// All sources, as they are registered.
#[derive(Clone, Default)]
pub(super) struct Contents {
    pub(super) entries: BTreeMap<ToolId, Arc<Entry>>,
    pub(super) down: BTreeMap<SourceId, Gone>,
    pub(super) offered: BTreeMap<SourceId, Arc<Offered>>,
}

impl Contents {
    /// Takes a source in that has no place yet.
    pub(super) fn insert(&mut self, source: SourceId, entries: Vec<Entry>, offered: Offered) {
        self.entries.extend(entries.into_iter().map(|entry| (entry.id.clone(), Arc::new(entry))));
        self.offered.insert(source, Arc::new(offered));
    }

    /// Leaves nothing of the sources that `leaves` tells.
    pub(super) fn remove(&mut self, leaves: impl Fn(&SourceId) -> bool) {
        self.entries.retain(|id, _| !leaves(id.source()));
        self.down.retain(|id, _| !leaves(id));
        self.offered.retain(|id, _| !leaves(id));
    }

    /// Whether what a source offers is listed.
    pub(super) fn is_up(&self, source: &SourceId) -> bool {
        matches!(self.down.get(source), None | Some(Gone::NotYet))
    }

    /// The sources whose tools callers do not see.
    fn hidden(&self) -> impl Iterator<Item = (&SourceId, &Gone)> {
        self.down.iter().filter(|(_, gone)| **gone != Gone::NotYet)
    }

    /// The tools whose sources are there.
    pub(super) fn available(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values().filter(|entry| self.is_up(entry.id.source()))
    }

    /// Whether a source offers anything to callers.
    pub(super) fn has_any_of(&self, source: &SourceId) -> bool {
        self.entries.keys().any(|id| id.source() == source)
            || self.offered.get(source).is_some_and(|offered| offered.is_anything())
    }

    /// Whether callers would see no difference.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.hidden().eq(other.hidden())
            && self.same_offers(other)
            && self.entries.len() == other.entries.len()
            && self.entries.values().zip(other.entries.values()).all(|(own, its)| own.same_as(its))
    }

    fn same_offers(&self, other: &Self) -> bool {
        // A source that offers nothing beside its tools makes no difference.
        let mut own = self.offered.iter().filter(|(_, offered)| offered.is_anything());
        let mut its = other.offered.iter().filter(|(_, offered)| offered.is_anything());
        loop {
            match (own.next(), its.next()) {
                (None, None) => return true,
                (Some(own), Some(its)) if own.0 == its.0 && own.1.same_as(its.1) => {}
                _ => return false,
            }
        }
    }
}
