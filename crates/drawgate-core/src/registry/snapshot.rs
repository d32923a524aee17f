//! All tools at one moment, and how they are found.

mod beside;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::catalog::SourceCatalog;
use super::contents::{Contents, Gone};
use super::offered::Offered;
use super::{Audience, Entry, UI_RESOURCES, names, search};
use crate::model::{Caller, Lineage, SourceId, ToolId};
use crate::source::ToolSource;

/// An immutable view of all tools.
#[derive(Default)]
pub struct Snapshot {
    revision: u64,
    contents: Contents,
    /// Tools that are not for one profile alone.
    by_wire: HashMap<String, Arc<Entry>>,
    /// Tools for one profile, by its name.
    by_profile: HashMap<Arc<str>, HashMap<String, Arc<Entry>>>,
    by_bare: HashMap<String, Vec<Arc<Entry>>>,
    by_skeleton: HashMap<String, Vec<Arc<Entry>>>,
    catalog: SourceCatalog,
    /// Made when somebody searches for the first time.
    index: OnceLock<search::Index>,
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
    pub(super) fn build(revision: u64, contents: Contents) -> Self {
        let catalog = catalog(&contents);
        let mut snapshot = Self { revision, catalog, ..Self::default() };
        for (id, entry) in &contents.entries {
            let wires = match &entry.audience {
                Audience::Everyone | Audience::Runs => &mut snapshot.by_wire,
                Audience::Profile(name) => snapshot.by_profile.entry(Arc::clone(name)).or_default(),
            };
            wires.insert(entry.wire.to_string(), Arc::clone(entry));
            let skeleton = names::skeleton(entry.wire.as_str());
            snapshot.by_skeleton.entry(skeleton).or_default().push(Arc::clone(entry));
            snapshot.by_bare.entry(id.tool().to_owned()).or_default().push(Arc::clone(entry));
        }
        snapshot.contents = contents;
        snapshot
    }

    /// Grows with every change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// All tools, ordered by source, then name; those of sources that are down too.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.contents.entries.values()
    }

    /// The tools whose sources are there.
    pub fn available(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.contents.available()
    }

    /// One source.
    #[must_use]
    pub fn source(&self, id: &SourceId) -> Option<&Arc<dyn ToolSource>> {
        self.contents.offered.get(id).map(|offered| &offered.source)
    }

    /// The ids of all sources that are there.
    pub fn sources(&self) -> impl Iterator<Item = &SourceId> {
        self.contents.offered.keys().filter(|id| self.contents.is_up(id))
    }

    /// One tool by its id.
    #[must_use]
    pub fn get(&self, id: &ToolId) -> Option<&Arc<Entry>> {
        self.contents.entries.get(id)
    }

    /// The tools that fit some words best, among those that `visible` admits, best first.
    pub fn search(
        &self,
        query: &str,
        visible: impl Fn(&Entry) -> bool,
        limit: usize,
    ) -> Vec<Arc<Entry>> {
        let index = self.index.get_or_init(|| search::Index::of(self.available()));
        index.search(query, visible, limit)
    }

    /// Looks a name up: wire name, id, or a bare name that only one visible tool has. Tools that are
    /// for others than the caller are not there.
    pub fn resolve(
        &self,
        name: &str,
        caller: &Caller,
        visible: impl Fn(&Entry) -> bool,
    ) -> Resolution {
        let lineage = caller.lineage.as_deref();
        let is_for = |entry: &&Arc<Entry>| entry.audience.includes(lineage);
        let by_wire = self.by_wire.get(name).or_else(|| self.of_profile(name, lineage?));
        if let Some(entry) = by_wire.or_else(|| self.by_id(name)).filter(is_for) {
            return Resolution::Found(Arc::clone(entry));
        }
        let bare = self.by_bare.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut seen = bare.iter().filter(|entry| is_for(entry) && visible(entry));
        match (seen.next(), seen.next()) {
            (None, _) => Resolution::Unknown,
            (Some(entry), None) => Resolution::Found(Arc::clone(entry)),
            (Some(one), Some(other)) => {
                let all = [one, other].into_iter().chain(seen);
                Resolution::Ambiguous(all.map(|entry| entry.id.clone()).collect())
            }
        }
    }

    /// The tool that runs of one profile know by this name.
    fn of_profile(&self, name: &str, run: &Lineage) -> Option<&Arc<Entry>> {
        self.by_profile.get(&run.profile)?.get(name)
    }

    fn by_id(&self, name: &str) -> Option<&Arc<Entry>> {
        self.get(&ToolId::written(name)?)
    }

    /// Some tool of a source.
    pub(super) fn any_of(&self, source: &SourceId) -> Option<&Arc<Entry>> {
        self.entries().find(|entry| entry.id.source() == source)
    }

    /// The tools that have the wire name of this one, or one that could be taken for it, and that a
    /// caller could be shown beside it.
    pub(super) fn holders_of<'a>(&'a self, wanted: &'a Entry) -> impl Iterator<Item = &'a ToolId> {
        let holders = self.by_skeleton.get(&names::skeleton(wanted.wire.as_str()));
        let holders = holders.map(Vec::as_slice).unwrap_or_default().iter();
        holders.filter(|holder| holder.audience.overlaps(&wanted.audience)).map(|holder| &holder.id)
    }

    /// How a source is gone, if it is.
    pub(super) fn gone(&self, source: &SourceId) -> Option<Gone> {
        self.contents.down.get(source).copied()
    }

    fn offered(&self) -> &BTreeMap<SourceId, Arc<Offered>> {
        &self.contents.offered
    }
}

/// What sources offer beside tools, in one list.
fn catalog(contents: &Contents) -> SourceCatalog {
    let offers = contents.offered.iter().map(|(id, offered)| (id, &offered.offer, offered.naming));
    let mut catalog = SourceCatalog::of(offers);
    // They keep their names while they are gone: nobody else's may come to mean theirs.
    catalog.hide(|source| !contents.is_up(source));
    for entry in contents.available() {
        for place in UI_RESOURCES {
            let uri = entry.listing.pointer(place).and_then(serde_json::Value::as_str);
            if let Some(uri) = uri {
                catalog.refer(entry.id.source(), uri);
            }
        }
    }
    catalog
}
