//! Which tools there are: names, schemas, revisions.
//!
//! A registration replaces all tools of one source in one new revision, or changes nothing and says
//! why. Readers take an immutable [`Snapshot`] and never wait.

mod definitions;
mod entry;
mod keeper;
mod names;
mod schema;
mod survey;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use definitions::Provider;
pub use entry::{
    BadTool, Entry, Limits, Naming, Origin, Registration, SourceTerms, ToolTerms, definition_hash,
};
pub use keeper::{Keeper, SourceState, SourceStatus};
pub use names::visible_text;
pub use schema::{CompiledSchema, SchemaError};

use crate::model::{SourceId, ToolId, WireName};

/// Why a registration was refused. Nothing of it took effect.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistrationError {
    /// Wire names that other sources hold.
    #[error("{}", conflicts(.0))]
    NameTaken(Vec<NameConflict>),
    /// Faults in a declared manifest.
    #[error("{}", faults(.0))]
    BadManifest(Vec<BadTool>),
    /// Another source has this id.
    #[error("source id `{0}` is taken")]
    SourceTaken(SourceId),
    /// A manifest that speaks for another source.
    #[error("the manifest of `{source_id}` names `{claimed}` as its server")]
    ForeignManifest {
        /// The source that gave it.
        source_id: SourceId,
        /// The source that it names.
        claimed: SourceId,
    },
}

/// A wanted name and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameConflict {
    /// The tool that wanted the name.
    pub tool: String,
    /// The name.
    pub name: WireName,
    /// The tool that has it.
    pub holder: ToolId,
}

fn conflicts(list: &[NameConflict]) -> String {
    let each = list
        .iter()
        .map(|c| format!("`{}` wants the name `{}`, which `{}` holds", c.tool, c.name, c.holder));
    format!("{}; set `names = \"qualified\"` or rename", each.collect::<Vec<_>>().join("; "))
}

fn faults(list: &[BadTool]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// An immutable view of all tools.
#[derive(Default)]
pub struct Snapshot {
    revision: u64,
    entries: BTreeMap<ToolId, Arc<Entry>>,
    by_wire: HashMap<String, Arc<Entry>>,
    by_bare: HashMap<String, Vec<Arc<Entry>>>,
    skeletons: HashMap<String, ToolId>,
    down: BTreeSet<SourceId>,
}

/// What a name stands for.
pub enum Resolution {
    /// One tool, which the caller may or may not be entitled to.
    Found(Arc<Entry>),
    /// Several.
    Ambiguous(Vec<ToolId>),
    /// None that the caller can see.
    Unknown,
}

impl Snapshot {
    /// Grows with every change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// All tools, ordered by source, then name; those of sources that are down too.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// The tools whose sources are there.
    pub fn available(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values().filter(|entry| !self.down.contains(entry.id.source()))
    }

    /// One tool by its id.
    #[must_use]
    pub fn get(&self, id: &ToolId) -> Option<&Arc<Entry>> {
        self.entries.get(id)
    }

    /// Looks a name up: wire name, id, or a bare name that only one visible tool has.
    pub fn resolve(&self, name: &str, visible: impl Fn(&Entry) -> bool) -> Resolution {
        if let Some(entry) = self.by_wire.get(name).or_else(|| self.by_id(name)) {
            return Resolution::Found(Arc::clone(entry));
        }
        let bare = self.by_bare.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut seen = bare.iter().filter(|entry| visible(entry));
        match (seen.next(), seen.next()) {
            (None, _) => Resolution::Unknown,
            (Some(entry), None) => Resolution::Found(Arc::clone(entry)),
            (Some(_), Some(_)) => {
                let all = bare.iter().filter(|entry| visible(entry));
                Resolution::Ambiguous(all.map(|entry| entry.id.clone()).collect())
            }
        }
    }

    fn by_id(&self, name: &str) -> Option<&Arc<Entry>> {
        let (source, tool) = name.split_once(':')?;
        let id = ToolId::new(&SourceId::new(source).ok()?, tool).ok()?;
        self.entries.get(&id)
    }

    fn any_of(&self, source: &SourceId) -> Option<&Arc<Entry>> {
        self.entries.values().find(|entry| entry.id.source() == source)
    }

    fn build(
        revision: u64,
        entries: BTreeMap<ToolId, Arc<Entry>>,
        down: BTreeSet<SourceId>,
    ) -> Self {
        let mut snapshot = Self { revision, down, ..Self::default() };
        for (id, entry) in &entries {
            snapshot.by_wire.insert(entry.wire.to_string(), Arc::clone(entry));
            snapshot.skeletons.insert(names::skeleton(entry.wire.as_str()), id.clone());
            snapshot.by_bare.entry(id.tool().to_owned()).or_default().push(Arc::clone(entry));
        }
        snapshot.entries = entries;
        snapshot
    }
}

/// All tools of the gateway, in revisions.
pub struct Registry {
    current: ArcSwap<Snapshot>,
    revision: watch::Sender<u64>,
    changing: Mutex<()>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            current: ArcSwap::from_pointee(Snapshot::default()),
            revision: watch::Sender::new(0),
            changing: Mutex::new(()),
        }
    }
}

impl Registry {
    /// The tools as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Reads without keeping: cheaper than [`snapshot`](Self::snapshot) on the way of a call.
    pub(crate) fn peek(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// The revision, for subscribers.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Registers a source, replacing all it had. Returns the tools that were left out.
    pub fn replace(&self, registration: Registration) -> Result<Vec<BadTool>, RegistrationError> {
        let source = registration.source.id().clone();
        if registration.manifest.server_id != source {
            let claimed = registration.manifest.server_id;
            return Err(RegistrationError::ForeignManifest { source_id: source, claimed });
        }
        let (mut entries, bad) = entry::build(registration)?;
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        for entry in &mut entries {
            entry.inherit(&before, &source);
        }
        refuse_taken(&before, &source, &entries)?;
        let mut all = before.entries.clone();
        all.retain(|id, _| *id.source() != source);
        all.extend(entries.into_iter().map(|entry| (entry.id.clone(), Arc::new(entry))));
        let mut down = before.down.clone();
        down.remove(&source);
        self.publish(&before, all, down);
        Ok(bad)
    }

    /// Forgets a source.
    pub fn remove(&self, source: &SourceId) {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        let mut all = before.entries.clone();
        all.retain(|id, _| id.source() != source);
        let mut down = before.down.clone();
        down.remove(source);
        self.publish(&before, all, down);
    }

    /// Marks a source as gone for now: its tools are not listed, and calls of them are refused as
    /// unavailable by the source itself.
    pub fn set_down(&self, source: &SourceId) {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        let mut down = before.down.clone();
        let offers = before.entries.keys().any(|id| id.source() == source);
        if offers && down.insert(source.clone()) {
            self.publish(&before, before.entries.clone(), down);
        }
    }

    fn publish(
        &self,
        before: &Snapshot,
        entries: BTreeMap<ToolId, Arc<Entry>>,
        down: BTreeSet<SourceId>,
    ) {
        let same = down == before.down
            && entries.len() == before.entries.len()
            && entries.iter().zip(&before.entries).all(|((_, new), (_, old))| new.same_as(old));
        // The same tools again, from a source that reconnected, are the same revision to callers.
        let revision = if same { before.revision } else { before.revision + 1 };
        self.current.store(Arc::new(Snapshot::build(revision, entries, down)));
        if !same {
            self.revision.send_replace(revision);
        }
    }
}

fn refuse_taken(
    before: &Snapshot,
    source: &SourceId,
    entries: &[Entry],
) -> Result<(), RegistrationError> {
    let taken: Vec<NameConflict> = entries
        .iter()
        .filter_map(|entry| {
            let holder = before.skeletons.get(&names::skeleton(entry.wire.as_str()))?;
            (holder.source() != source).then(|| NameConflict {
                tool: entry.id.to_string(),
                name: entry.wire.clone(),
                holder: holder.clone(),
            })
        })
        .collect();
    if taken.is_empty() { Ok(()) } else { Err(RegistrationError::NameTaken(taken)) }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
