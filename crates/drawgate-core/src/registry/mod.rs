//! Which tools there are: names, schemas, revisions.
//!
//! A registration replaces all tools of one source in one new revision, or changes nothing and says
//! why. Readers take an immutable [`Snapshot`] and never wait.

mod definitions;
mod entry;
mod keeper;
mod names;
mod offered;
mod pin_record;
mod pins;
mod schema;
mod search;
mod shelf;
mod survey;
mod trust;
mod visible;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use definitions::Provider;
pub use entry::{
    BadTool, Entry, Limits, Naming, Origin, Registration, SourceTerms, ToolTerms, definition_hash,
};
pub use keeper::{Keeper, SourceState, SourceStatus};
pub use names::visible_text;
use offered::Offered;
pub use schema::{CompiledSchema, SchemaError};
pub use shelf::{Item, Place};
pub use trust::{Acceptance, Held, HeldReason, ItemKind, Pins, Quarantined, ReviewError, Trust};

use crate::model::{Capability, Operation, SourceId, ToolId, WireName};
use crate::source::ToolSource;

/// Where a tool's definition names the resource that shows its results.
const UI_RESOURCES: [&str; 2] = ["/_meta/ui/resourceUri", "/_meta/ui~1resourceUri"];

/// Why a registration was refused. Nothing of it took effect.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistrationError {
    /// Tools that can't be registered: each of them is named.
    #[error("{}", refusal(.faults, .taken))]
    Refused {
        /// Faults in a declared manifest.
        faults: Vec<BadTool>,
        /// Wire names that other sources hold.
        taken: Vec<NameConflict>,
    },
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

fn refusal(faults: &[BadTool], taken: &[NameConflict]) -> String {
    let wanted = taken
        .iter()
        .map(|c| format!("`{}` wants the name `{}`, which `{}` holds", c.tool, c.name, c.holder));
    let hint = (!taken.is_empty()).then(|| "set `names = \"qualified\"` or rename".to_owned());
    let all = faults.iter().map(ToString::to_string).chain(wanted).chain(hint);
    all.collect::<Vec<_>>().join("; ")
}

/// How a source is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// It is expected back: nobody else's tools may take its names.
    ForNow,
    /// It may come back, and whoever wants its names before that gets them.
    ForGood,
}

/// An immutable view of all tools.
#[derive(Default)]
pub struct Snapshot {
    revision: u64,
    entries: BTreeMap<ToolId, Arc<Entry>>,
    by_wire: HashMap<String, Arc<Entry>>,
    by_bare: HashMap<String, Vec<Arc<Entry>>>,
    skeletons: HashMap<String, ToolId>,
    down: BTreeMap<SourceId, Gone>,
    offered: BTreeMap<SourceId, Arc<Offered>>,
    shelf: shelf::Shelf,
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
        self.entries.values().filter(|entry| !self.down.contains_key(entry.id.source()))
    }

    /// A tool or an operation beside tools, by its id.
    pub(crate) fn entry(&self, id: &ToolId) -> Option<&Arc<Entry>> {
        self.get(id).or_else(|| {
            let offered = self.offered.get(id.source())?;
            offered.operations.values().find(|entry| entry.id == *id)
        })
    }

    /// What stands for an operation beside tools.
    pub(crate) fn operation(&self, source: &str, operation: Operation) -> Resolution {
        let offered = self.offered.get(source);
        match offered.and_then(|offered| offered.operations.get(&operation)) {
            Some(entry) => Resolution::Found(Arc::clone(entry)),
            None => Resolution::Unknown,
        }
    }

    /// Whether a source can be asked to do this.
    #[must_use]
    pub fn can(&self, source: &SourceId, operation: Operation) -> bool {
        let offered = self.offered.get(source).filter(|_| !self.down.contains_key(source));
        offered.is_some_and(|offered| offered.operations.contains_key(&operation))
    }

    /// One source.
    #[must_use]
    pub fn source(&self, id: &SourceId) -> Option<&Arc<dyn ToolSource>> {
        self.offered.get(id).map(|offered| &offered.source)
    }

    /// The ids of all sources that are there.
    pub fn sources(&self) -> impl Iterator<Item = &SourceId> {
        self.offered.keys().filter(|id| !self.down.contains_key(*id))
    }

    /// The sources that are there and do this for whom `covers` admits.
    pub(crate) fn open_sources(
        &self,
        operation: Operation,
        covers: impl Fn(&[Capability]) -> bool,
    ) -> BTreeSet<SourceId> {
        let open = self.offered.iter().filter(|(id, offered)| {
            let entry = offered.operations.get(&operation);
            !self.down.contains_key(*id) && entry.is_some_and(|entry| covers(&entry.requires))
        });
        open.map(|(id, _)| id.clone()).collect()
    }

    /// Resources of all sources, ordered by source.
    #[must_use]
    pub fn resources(&self) -> &[Item] {
        &self.shelf.resources
    }

    /// Families of resources.
    #[must_use]
    pub fn templates(&self) -> &[Item] {
        &self.shelf.templates
    }

    /// Prompts.
    #[must_use]
    pub fn prompts(&self) -> &[Item] {
        &self.shelf.prompts
    }

    /// Finds a resource by its URI, among those of the sources that are open to the caller.
    #[must_use]
    pub fn find_resource(&self, uri: &str, open: &BTreeSet<SourceId>) -> Place {
        self.shelf.resource(uri, &self.able(open, Operation::ReadResource))
    }

    /// Finds a prompt by its name.
    #[must_use]
    pub fn find_prompt(&self, name: &str, open: &BTreeSet<SourceId>) -> Place {
        self.shelf.prompt(name, open)
    }

    /// Finds a family of resources by its template.
    #[must_use]
    pub fn find_template(&self, template: &str, open: &BTreeSet<SourceId>) -> Place {
        self.shelf.template(template, &self.able(open, Operation::Complete))
    }

    fn able(&self, open: &BTreeSet<SourceId>, operation: Operation) -> BTreeSet<SourceId> {
        open.iter().filter(|id| self.can(id, operation)).cloned().collect()
    }

    /// How a source's own URI is called towards callers.
    #[must_use]
    pub fn shown_uri(&self, source: &SourceId, own: &str) -> String {
        self.shelf.shown_uri(source, own).unwrap_or_else(|| own.to_owned())
    }

    /// Brings the URIs that a tool's definition refers to in line with how they are listed.
    pub(crate) fn show_uris(&self, source: &SourceId, listing: &mut serde_json::Value) {
        if !self.shelf.has_twins() {
            return;
        }
        for place in UI_RESOURCES {
            if let Some(uri) = listing.pointer_mut(place) {
                self.show(source, uri);
            }
        }
    }

    /// The same for links in a tool's output.
    pub(crate) fn show_links(&self, source: &SourceId, content: &mut [serde_json::Value]) {
        if !self.shelf.has_twins() {
            return;
        }
        for block in content {
            let place = match block["type"].as_str() {
                Some("resource_link") => "/uri",
                Some("resource") => "/resource/uri",
                _ => continue,
            };
            if let Some(uri) = block.pointer_mut(place) {
                self.show(source, uri);
            }
        }
    }

    fn show(&self, source: &SourceId, uri: &mut serde_json::Value) {
        if let serde_json::Value::String(uri) = uri
            && let Some(shown) = self.shelf.shown_uri(source, uri)
        {
            *uri = shown;
        }
    }

    /// One tool by its id.
    #[must_use]
    pub fn get(&self, id: &ToolId) -> Option<&Arc<Entry>> {
        self.entries.get(id)
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
        down: BTreeMap<SourceId, Gone>,
        offered: BTreeMap<SourceId, Arc<Offered>>,
    ) -> Self {
        let offers = offered.iter().map(|(id, offered)| (id, &offered.offer, offered.naming));
        let mut shelf = shelf::Shelf::of(offers);
        // They keep their names while they are gone: nobody else's may come to mean theirs.
        shelf.hide(|source| down.contains_key(source));
        for entry in entries.values().filter(|entry| !down.contains_key(entry.id.source())) {
            for place in UI_RESOURCES {
                let uri = entry.listing.pointer(place).and_then(serde_json::Value::as_str);
                if let Some(uri) = uri {
                    shelf.refer(entry.id.source(), uri);
                }
            }
        }
        let mut snapshot = Self { revision, down, offered, shelf, ..Self::default() };
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
        self.commit(Wanted::of(registration)?)
    }

    /// The second half of it. The first takes the time, and needs no lock.
    fn commit(&self, mut wanted: Wanted) -> Result<Vec<BadTool>, RegistrationError> {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        for entry in &mut wanted.entries {
            entry.inherit(&before, &wanted.source);
        }
        let mut leaving = wanted.claims(&before)?;
        let Wanted { source, entries, offered, bad, .. } = wanted;
        leaving.insert(source.clone());
        let mut all = before.entries.clone();
        all.retain(|id, _| !leaving.contains(id.source()));
        all.extend(entries.into_iter().map(|entry| (entry.id.clone(), Arc::new(entry))));
        let mut down = before.down.clone();
        down.retain(|id, _| !leaving.contains(id));
        let mut all_offered = before.offered.clone();
        all_offered.retain(|id, _| !leaving.contains(id));
        all_offered.insert(source, Arc::new(offered));
        self.publish(&before, all, down, all_offered);
        Ok(bad)
    }

    /// What [`replace`](Self::replace) would say now, without doing it.
    pub fn examine(&self, registration: Registration) -> Result<(), RegistrationError> {
        Wanted::of(registration)?.claims(&self.current.load()).map(drop)
    }

    /// Forgets a source.
    pub fn remove(&self, source: &SourceId) {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        let mut all = before.entries.clone();
        all.retain(|id, _| id.source() != source);
        let mut down = before.down.clone();
        down.remove(source);
        let mut offered = before.offered.clone();
        offered.remove(source);
        self.publish(&before, all, down, offered);
    }

    /// Marks a source as gone for now: its tools are not listed, and calls of them are refused as
    /// unavailable by the source itself.
    pub fn set_down(&self, source: &SourceId) {
        self.set_gone(source, Gone::ForNow);
    }

    /// The same for a source that nobody waits for: whoever registers a tool of the same name next
    /// takes its place.
    pub fn retire(&self, source: &SourceId) {
        self.set_gone(source, Gone::ForGood);
    }

    fn set_gone(&self, source: &SourceId, gone: Gone) {
        let _changing = self.changing.lock();
        let before = self.current.load_full();
        let offers = before.entries.keys().any(|id| id.source() == source)
            || before.offered.get(source).is_some_and(|offered| offered.is_anything());
        if offers && before.down.get(source) != Some(&gone) {
            let mut down = before.down.clone();
            down.insert(source.clone(), gone);
            self.publish(&before, before.entries.clone(), down, before.offered.clone());
        }
    }

    fn publish(
        &self,
        before: &Snapshot,
        entries: BTreeMap<ToolId, Arc<Entry>>,
        down: BTreeMap<SourceId, Gone>,
        offered: BTreeMap<SourceId, Arc<Offered>>,
    ) {
        let same = down == before.down
            && same_offers(&offered, &before.offered)
            && entries.len() == before.entries.len()
            && entries.iter().zip(&before.entries).all(|((_, new), (_, old))| new.same_as(old));
        // The same tools again, from a source that reconnected, are the same revision to callers.
        let revision = if same { before.revision } else { before.revision + 1 };
        self.current.store(Arc::new(Snapshot::build(revision, entries, down, offered)));
        if !same {
            self.revision.send_replace(revision);
        }
    }
}

fn same_offers(
    new: &BTreeMap<SourceId, Arc<Offered>>,
    old: &BTreeMap<SourceId, Arc<Offered>>,
) -> bool {
    // A source that offers nothing beside its tools makes no difference.
    let mut new = new.iter().filter(|(_, offered)| offered.is_anything());
    let mut old = old.iter().filter(|(_, offered)| offered.is_anything());
    loop {
        match (new.next(), old.next()) {
            (None, None) => return true,
            (Some(new), Some(old)) if new.0 == old.0 && new.1.same_as(old.1) => {}
            _ => return false,
        }
    }
}

/// What a registration comes to, before anybody else's tools are looked at.
struct Wanted {
    source: SourceId,
    origin: Origin,
    entries: Vec<Entry>,
    offered: Offered,
    bad: Vec<BadTool>,
}

impl Wanted {
    fn of(registration: Registration) -> Result<Self, RegistrationError> {
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
    fn claims(&self, before: &Snapshot) -> Result<BTreeSet<SourceId>, RegistrationError> {
        let mut taken = Vec::new();
        let mut leaving = BTreeSet::new();
        for entry in &self.entries {
            let holder = before.skeletons.get(&names::skeleton(entry.wire.as_str()));
            let Some(holder) = holder.filter(|holder| *holder.source() != self.source) else {
                continue;
            };
            if before.down.get(holder.source()) == Some(&Gone::ForGood) {
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

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
