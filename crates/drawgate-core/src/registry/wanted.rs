//! What a registration comes to, and what stands in its way.

use std::collections::BTreeSet;

use super::contents::Gone;
use super::offered::Offered;
use super::{
    BadTool, Entry, NameConflict, Origin, Registration, RegistrationError, Snapshot, entry,
};
use crate::model::SourceId;

/// What a registration comes to, before anybody else's tools are looked at.
pub(super) struct Wanted {
    pub(super) source: SourceId,
    origin: Origin,
    pub(super) entries: Vec<Entry>,
    pub(super) offered: Offered,
    pub(super) bad: Vec<BadTool>,
}

impl Wanted {
    pub(super) fn of(registration: Registration) -> Result<Self, RegistrationError> {
        let source = registration.source.id().clone();
        if registration.manifest.server_id != source {
            let claimed = registration.manifest.server_id;
            return Err(RegistrationError::ForeignManifest { source_id: source, claimed });
        }
        let origin = registration.origin;
        let (entries, offered, bad) = entry::build(registration);
        Ok(Self { source, origin, entries, offered, bad })
    }

    /// The sources that make way because they are gone; refused if another holds a wanted name, or by
    /// a fault of a declared manifest.
    pub(super) fn claims(
        &self,
        before: &Snapshot,
    ) -> Result<BTreeSet<SourceId>, RegistrationError> {
        let mut taken = Vec::new();
        let mut leaving = BTreeSet::new();
        let holders = self
            .entries
            .iter()
            .flat_map(|entry| before.holders_of(entry).map(move |holder| (entry, holder)));
        for (entry, holder) in holders.filter(|(_, holder)| *holder.source() != self.source) {
            if before.gone(holder.source()) == Some(Gone::ForGood) {
                leaving.insert(holder.source().clone());
            } else {
                taken.push(NameConflict {
                    tool: entry.id.to_string(),
                    name: entry.wire.clone(),
                    holder: holder.clone(),
                });
            }
        }
        let is_whole = self.origin != Origin::Discovered;
        if !taken.is_empty() || (is_whole && !self.bad.is_empty()) {
            let faults = if is_whole { self.bad.clone() } else { Vec::new() };
            return Err(RegistrationError::Refused { faults, taken });
        }
        Ok(leaving)
    }
}
