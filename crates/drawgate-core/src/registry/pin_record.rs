//! The document behind a server's pins: which definitions were seen or accepted, by their hashes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition_hash;
use super::pins::Definition;
use super::trust::ItemKind;
use crate::canonical;
use crate::model::{McpToolSpec, Offer, SourceId};

/// The kind of document.
pub(super) const KIND: &str = "pin";
/// Definitions up to this size are kept whole, so that a change can be shown; of larger ones, and of
/// what comes after so much of a server, the hash alone.
const MAX_WHOLE: usize = 64 * 1024;
const MAX_WHOLE_OF_ALL: usize = 1024 * 1024;
/// Hashes that are remembered as reported.
const MAX_REPORTED: usize = 1024;

/// What is known of one server. That there is a record means that the server was met: what it says
/// later, having said nothing at first, is new.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record {
    /// Which server it was; pins say nothing about another one under the same name.
    pub(super) identity: String,
    first_seen_at: u64,
    server: BTreeMap<String, Pin>,
    tools: BTreeMap<String, Pin>,
    prompts: BTreeMap<String, Pin>,
    templates: BTreeMap<String, Pin>,
    instructions: BTreeMap<String, Pin>,
    /// Kinds of which nothing was seen yet, because their lists were late: what comes first is trusted.
    #[serde(default = "unknown_before")]
    awaits: BTreeSet<ItemKind>,
    /// Hashes of quarantined definitions that the audit log knows about.
    reported: BTreeSet<String>,
}

/// One definition that is trusted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Pin {
    pub(super) hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<Value>,
    /// Whether its annotations were a server's own. Of a pin that does not say it, they are read as written for
    /// Drawgate, which can only restrict.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_foreign: bool,
    pinned_at: u64,
}

impl Record {
    pub(super) fn new(identity: &str, now: u64) -> Self {
        Self { identity: identity.to_owned(), first_seen_at: now, ..Self::default() }
    }

    pub(super) fn pin_of(&self, kind: ItemKind, name: &str) -> Option<&Pin> {
        self.of(kind).get(name)
    }

    /// The tools that are trusted and kept whole, exactly as they were pinned.
    pub(super) fn whole_tools(&self, source: &SourceId) -> Vec<McpToolSpec> {
        let whole = self.tools.values().filter_map(|pin| {
            let definition = pin.definition.clone()?;
            let spec = if pin.is_foreign {
                McpToolSpec::foreign(definition)
            } else {
                serde_json::from_value(definition)
            };
            spec.ok().filter(|spec| definition_hash(source, spec) == pin.hash)
        });
        whole.collect()
    }

    /// The names of the tools that are trusted.
    pub(super) fn tool_names(&self) -> impl Iterator<Item = &String> {
        self.tools.keys()
    }

    /// Trusts a definition from now on.
    pub(super) fn pin(&mut self, definition: &Definition, now: u64) {
        let mut size = 0;
        for pin in ItemKind::ALL.into_iter().flat_map(|kind| self.of(kind).values()) {
            size += pin.definition.as_ref().map_or(0, size_of);
        }
        self.insert(definition, now, &mut size);
    }

    /// Trusts the first of each name.
    pub(super) fn pin_all<'a>(
        &mut self,
        definitions: impl Iterator<Item = &'a Definition>,
        now: u64,
    ) {
        let mut size = 0;
        for definition in definitions {
            if self.pin_of(definition.kind, &definition.name).is_none() {
                self.insert(definition, now, &mut size);
            }
        }
    }

    /// Some lists of the server are late.
    pub(super) fn await_lists(&mut self) {
        self.awaits.extend([ItemKind::Prompt, ItemKind::Template]);
    }

    /// Trusts the first definitions of those kinds that were late and are here now. `false` if nothing
    /// was late.
    pub(super) fn pin_late(&mut self, all: &[Definition], offer: &Offer, now: u64) -> bool {
        let is_here = |kind: &ItemKind| *kind == ItemKind::Instructions || !offer.pending;
        let here: BTreeSet<ItemKind> = self.awaits.iter().copied().filter(is_here).collect();
        self.awaits.retain(|kind| !here.contains(kind));
        for definition in all.iter().filter(|one| here.contains(&one.kind)) {
            if self.pin_of(definition.kind, &definition.name).is_none() {
                self.pin(definition, now);
            }
        }
        !here.is_empty()
    }

    fn insert(&mut self, definition: &Definition, now: u64, size: &mut usize) {
        let own = size_of(&definition.body);
        let fits = own <= MAX_WHOLE && *size + own <= MAX_WHOLE_OF_ALL;
        if fits {
            *size += own;
        }
        let pin = Pin {
            hash: definition.hash.clone(),
            definition: fits.then(|| definition.body.clone()),
            is_foreign: definition.is_foreign,
            pinned_at: now,
        };
        self.of_mut(definition.kind).insert(definition.name.clone(), pin);
    }

    pub(super) fn is_reported(&self, hash: &str) -> bool {
        self.reported.contains(hash)
    }

    /// Remembers what was reported; of too much, only what is `current`.
    pub(super) fn report<'a>(
        &mut self,
        hashes: impl IntoIterator<Item = String>,
        mut current: impl Iterator<Item = &'a str>,
    ) {
        self.reported.extend(hashes);
        if self.reported.len() > MAX_REPORTED {
            let all = std::mem::take(&mut self.reported);
            let keep = current.by_ref().filter(|hash| all.contains(*hash));
            self.reported = keep.take(MAX_REPORTED).map(str::to_owned).collect();
        }
    }

    fn of(&self, kind: ItemKind) -> &BTreeMap<String, Pin> {
        match kind {
            ItemKind::Server => &self.server,
            ItemKind::Tool => &self.tools,
            ItemKind::Prompt => &self.prompts,
            ItemKind::Template => &self.templates,
            ItemKind::Instructions => &self.instructions,
        }
    }

    fn of_mut(&mut self, kind: ItemKind) -> &mut BTreeMap<String, Pin> {
        match kind {
            ItemKind::Server => &mut self.server,
            ItemKind::Tool => &mut self.tools,
            ItemKind::Prompt => &mut self.prompts,
            ItemKind::Template => &mut self.templates,
            ItemKind::Instructions => &mut self.instructions,
        }
    }
}

/// Of a record that was written before instructions were kept.
fn unknown_before() -> BTreeSet<ItemKind> {
    BTreeSet::from([ItemKind::Instructions])
}

fn size_of(definition: &Value) -> usize {
    canonical::to_string(definition).len()
}
