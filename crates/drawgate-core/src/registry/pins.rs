//! Trust in definitions: what a running server says about its tools is pinned when it is first seen,
//! and what changes or comes later waits for a person.
//!
//! Tools, prompts and families of resources that wait are left out of the manifest before it reaches
//! the registry, so that nothing beyond this file needs to know of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::definition_hash;
use super::pin_record::{KIND, Pin, Record};
use super::trust::{Acceptance, Held, HeldReason, ItemKind, Pins, ReviewError, Trust};
use crate::acts::{ActError, Acts};
use crate::audit::{EventDraft, EventKind};
use crate::canonical;
use crate::model::{
    Annotations, McpManifest, Offer, Operation, Principal, SourceId, ToolId, shown_name,
};
use crate::store::{StoreError, Write};

/// Events that one manifest may cause: a server with thousands of tools must not flood the log.
const MAX_EVENTS: usize = 256;

/// The kind of the documents that name servers for which the first lists waited in vain.
const LATE: &str = "late_source";

/// One definition of a manifest.
pub(super) struct Definition {
    pub(super) kind: ItemKind,
    pub(super) name: String,
    pub(super) hash: String,
    pub(super) body: Value,
    /// Whether a server wrote its annotations.
    pub(super) is_foreign: bool,
}

/// What is known of a source from before.
#[derive(Default)]
pub(super) struct Remembered {
    /// What is trusted and kept whole; none if nothing is.
    pub(super) manifest: Option<McpManifest>,
    /// The names of all tools that are trusted.
    pub(super) names: BTreeSet<String>,
}

/// What accepting definitions changes.
pub(super) struct Accepted {
    pub(super) found: Vec<Held>,
    pub(super) outcomes: Vec<EventDraft>,
    pub(super) record: Record,
    pub(super) write: Write,
}

/// The pins of one source, and what waits.
pub(super) struct PinStore {
    source: SourceId,
    trust: Trust,
    identity: String,
    pins: Pins,
    /// `None` until it was read.
    record: Option<Record>,
    held: Vec<Held>,
    /// The newest manifest, if something of it waits.
    whole: Option<McpManifest>,
}

impl PinStore {
    pub(super) fn new(source: SourceId, trust: Trust, identity: &str, pins: Pins) -> Self {
        let identity = canonical::sha256_hex(identity.as_bytes());
        Self { source, trust, identity, pins, record: None, held: Vec::new(), whole: None }
    }

    /// What waits.
    pub(super) fn held(&self) -> &[Held] {
        &self.held
    }

    /// The newest manifest, if something of it waits.
    pub(super) fn whole(&self) -> Option<McpManifest> {
        self.whole.clone()
    }

    /// Forgets what waits, so that nothing can be accepted any more.
    pub(super) fn retire(&mut self) {
        self.held.clear();
        self.whole = None;
    }

    /// Reads or makes the pins that another trust needs, before it is [set](Self::set_trust).
    pub(super) async fn prepare_trust(
        &mut self,
        trust: Trust,
        manifest: &McpManifest,
    ) -> Result<(), StoreError> {
        if trust == Trust::Follow {
            return Ok(());
        }
        self.prepare(trust, &definitions(&self.source, manifest), &manifest.offer).await
    }

    /// From now on definitions are trusted by another rule.
    pub(super) fn set_trust(&mut self, trust: Trust) {
        if trust == Trust::Follow {
            self.retire();
        }
        self.trust = trust;
    }

    /// What is trusted of this very server, for as long as it has not been asked. It is not read from a store
    /// that fails: what can't be compared is not offered.
    pub(super) async fn remembered(&mut self) -> Remembered {
        if self.trust == Trust::Follow {
            return Remembered::default();
        }
        if self.record.is_none() {
            self.record = self.load().await.ok().flatten();
        }
        let Some(record) = self.record.as_ref().filter(|met| met.identity == self.identity) else {
            return Remembered::default();
        };
        let told = record.pin_of(ItemKind::Instructions, self.source.as_str());
        let told = told.and_then(|pin| pin.definition.as_ref()?["instructions"].as_str());
        let manifest = McpManifest {
            server_id: self.source.clone(),
            name: self.source.to_string(),
            version: String::new(),
            description: None,
            tools: record.whole_tools(&self.source),
            offer: Offer { instructions: told.map(str::to_owned), ..Offer::default() },
        };
        let names = record.tool_names().cloned().collect();
        let is_any = !manifest.tools.is_empty() || manifest.offer.instructions.is_some();
        Remembered { manifest: is_any.then_some(manifest), names }
    }

    /// Whether the first lists of an earlier start waited for this very server in vain.
    pub(super) async fn was_late(&self) -> bool {
        let id = self.source.as_str();
        let noted = self.pins.documents.documents_under(LATE, id).await.unwrap_or_default();
        noted.iter().any(|(noted, body)| noted == id && body["identity"] == self.identity)
    }

    /// Notes that it has come up in time after all.
    pub(super) async fn forget_late(&self) {
        let removed = self.pins.documents.remove_document(LATE, self.source.as_str()).await;
        if let Err(error) = removed {
            tracing::debug!(source = %self.source, %error, "that it was late is still noted");
        }
    }

    /// Notes that they did. What could not be written costs the next start the same wait.
    pub(super) async fn note_late(&self) {
        let body = json!({ "identity": self.identity });
        let noted = self.pins.documents.put_document(LATE, self.source.as_str(), &body).await;
        if let Err(error) = noted {
            tracing::debug!(source = %self.source, %error, "that it was late is not kept");
        }
    }

    /// Splits a manifest: returns what is trusted and keeps the rest. Fails if that can't be told.
    pub(super) async fn sift(&mut self, manifest: McpManifest) -> Result<McpManifest, StoreError> {
        if self.trust == Trust::Follow {
            return Ok(manifest);
        }
        let all = definitions(&self.source, &manifest);
        self.prepare(self.trust, &all, &manifest.offer).await?;
        let record = self.record.as_ref();
        let held: Vec<Held> =
            all.into_iter().filter_map(|definition| hold(record, definition)).collect();
        self.held = held;
        if self.held.is_empty() {
            self.whole = None;
            return Ok(manifest);
        }
        let trusted = without(&self.source, manifest.clone(), &self.held);
        self.whole = Some(manifest);
        Ok(trusted)
    }

    /// Reads the pins, and makes them if this server is seen for the first time.
    async fn prepare(
        &mut self,
        trust: Trust,
        all: &[Definition],
        offer: &Offer,
    ) -> Result<(), StoreError> {
        if self.record.is_none() {
            self.record = self.load().await?;
        }
        let now = self.pins.clock.now_ms();
        if let Some(met) = self.record.as_ref().filter(|met| met.identity == self.identity) {
            let mut record = met.clone();
            if trust == Trust::Pin && record.pin_late(all, offer, now) {
                self.save(record).await?;
            }
            return Ok(());
        }
        let mut record = Record::new(&self.identity, now);
        if trust == Trust::Pin {
            record.pin_all(all.iter(), now);
            if offer.pending {
                record.await_lists();
            }
        }
        self.save(record).await
    }

    async fn load(&self) -> Result<Option<Record>, StoreError> {
        let all = self.pins.documents.documents(KIND).await?;
        let own = all.into_iter().find(|(id, _)| id == self.source.as_str());
        let read = own.map(|(_, body)| serde_json::from_value(body)).transpose();
        read.map_err(|error| corrupt(&error))
    }

    async fn save(&mut self, record: Record) -> Result<(), StoreError> {
        let body = serde_json::to_value(&record).map_err(|error| corrupt(&error))?;
        self.pins.documents.put_document(KIND, self.source.as_str(), &body).await?;
        self.record = Some(record);
        Ok(())
    }

    /// Writes down what waits and was not reported before. Nothing depends on it: what could not be
    /// written is tried again with the next manifest.
    pub(super) async fn report(&mut self) {
        let Some(record) = &self.record else { return };
        let fresh = self.held.iter().filter(|held| !record.is_reported(&held.hash));
        let mut reported = Vec::new();
        for held in fresh.take(MAX_EVENTS) {
            tracing::warn!(
                source = %self.source, kind = held.kind.as_str(), name = shown_name(&held.name),
                reason = held.reason.as_str(),
                "a definition was quarantined and waits for an operator's review"
            );
            if let Err(error) =
                self.pins.audit.append(self.draft(EventKind::ToolQuarantined, held)).await
            {
                tracing::error!(source = %self.source, error = %error, "a quarantine could not be written down");
                break;
            }
            reported.push(held.hash.clone());
        }
        if reported.is_empty() {
            return;
        }
        let mut record = record.clone();
        record.report(reported, self.held.iter().map(|held| held.hash.as_str()));
        if let Err(error) = self.save(record).await {
            tracing::warn!(source = %self.source, error = %error, "it will be reported again");
        }
    }

    /// What it takes to trust what a person has seen: all of it, or nothing if one of it is no longer
    /// what it was.
    pub(super) fn accept(
        &self,
        actor: &Principal,
        accepted: &[Acceptance],
    ) -> Result<Accepted, ReviewError> {
        let found = accepted.iter().map(|one| self.find(one)).collect::<Result<Vec<_>, _>>()?;
        let now = self.pins.clock.now_ms();
        let mut record = self.record.clone().unwrap_or_default();
        for held in &found {
            let definition = Definition {
                kind: held.kind,
                name: held.name.clone(),
                hash: held.hash.clone(),
                body: held.definition.clone(),
                is_foreign: held.is_foreign,
            };
            record.pin(&definition, now);
        }
        let draft = |held| self.draft(EventKind::ToolAccepted, held);
        let outcomes =
            found.iter().map(|held| draft(held).text("principal", actor.as_str())).collect();
        let body = serde_json::to_value(&record);
        let body = body.map_err(|error| ActError::Store(corrupt(&error)))?;
        let write = Write::PutDocument { kind: KIND, id: self.source.to_string(), body };
        Ok(Accepted { found, outcomes, record, write })
    }

    /// By which something is accepted.
    pub(super) fn acts(&self) -> Acts {
        self.pins.acts.clone()
    }

    /// Takes over pins that the store has.
    pub(super) fn trust(&mut self, record: Record) {
        self.record = Some(record);
    }

    fn find(&self, wanted: &Acceptance) -> Result<Held, ReviewError> {
        let named = |held: &&Held| held.kind == wanted.kind && held.name == wanted.name;
        let mut named = self.held.iter().filter(named).peekable();
        if named.peek().is_none() {
            return Err(ReviewError::NotWaiting(shown_name(&wanted.name)));
        }
        let found = named.find(|held| held.hash == wanted.hash);
        found.cloned().ok_or_else(|| ReviewError::ChangedAgain(shown_name(&wanted.name)))
    }

    fn draft(&self, kind: EventKind, held: &Held) -> EventDraft {
        let draft = EventDraft::new(kind, self.pins.clock.now_ms())
            .text("source", self.source.as_str())
            .text("definitionKind", held.kind.as_str())
            .text("reason", held.reason.as_str())
            .maybe_text("definitionBefore", held.pinned_hash.as_deref())
            .text("definitionAfter", &held.hash);
        let name = shown_name(&held.name);
        match held.kind {
            ItemKind::Tool => {
                draft.text("toolId", ToolId::of_any(&self.source, &held.name).as_str())
            }
            ItemKind::Server | ItemKind::Prompt | ItemKind::Template | ItemKind::Instructions => {
                draft.text("name", name)
            }
        }
    }
}

/// Everything in a manifest that a model or a person relies upon.
fn definitions(source: &SourceId, manifest: &McpManifest) -> Vec<Definition> {
    let tools = manifest.tools.iter().map(|spec| Definition {
        kind: ItemKind::Tool,
        name: spec.name.clone(),
        hash: definition_hash(source, spec),
        body: serde_json::to_value(spec).unwrap_or_default(),
        is_foreign: matches!(spec.annotations, Some(Annotations::Foreign(_))),
    });
    let Offer { prompts, templates, .. } = &manifest.offer;
    let prompts = prompts.iter().filter_map(|body| beside(source, ItemKind::Prompt, body));
    let templates = templates.iter().filter_map(|body| beside(source, ItemKind::Template, body));
    let listed = tools.chain(prompts).chain(templates).chain(instructions(source, manifest));
    server(source, manifest).into_iter().chain(listed).collect()
}

/// What a server tells models about its use.
fn instructions(source: &SourceId, manifest: &McpManifest) -> Option<Definition> {
    let text = manifest.offer.instructions.as_deref()?;
    let body = json!({ "name": source.as_str(), "instructions": text });
    Some(Definition {
        kind: ItemKind::Instructions,
        name: source.to_string(),
        hash: canonical::hash(&json!({ "source": source.as_str(), "instructions": text })),
        body,
        is_foreign: true,
    })
}

/// What a server offers beside tools, as one thing to accept.
fn server(source: &SourceId, manifest: &McpManifest) -> Option<Definition> {
    let Offer { resources, operations, .. } = &manifest.offer;
    if resources.is_empty() && operations.is_empty() {
        return None;
    }
    let operations: Vec<&String> = operations.values().collect();
    let body = json!({ "name": source.as_str(), "operations": operations });
    Some(Definition {
        kind: ItemKind::Server,
        name: source.to_string(),
        hash: canonical::hash(&json!({ "source": source.as_str(), "server": body })),
        body,
        is_foreign: true,
    })
}

fn beside(source: &SourceId, kind: ItemKind, body: &Value) -> Option<Definition> {
    let name = name_of(kind, body)?.to_owned();
    let hash = canonical::hash(&json!({ "source": source.as_str(), kind.as_str(): body }));
    Some(Definition { kind, name, hash, body: body.clone(), is_foreign: true })
}

fn name_of(kind: ItemKind, body: &Value) -> Option<&str> {
    let key = if kind == ItemKind::Template { "uriTemplate" } else { "name" };
    body.get(key)?.as_str()
}

/// The definition, if it is not the one that is pinned.
fn hold(record: Option<&Record>, definition: Definition) -> Option<Held> {
    let pin = record.and_then(|record| record.pin_of(definition.kind, &definition.name));
    if pin.is_some_and(|pin| pin.hash == definition.hash || is_less(&definition, pin)) {
        return None;
    }
    Some(Held {
        kind: definition.kind,
        name: definition.name,
        reason: if pin.is_some() { HeldReason::Changed } else { HeldReason::New },
        hash: definition.hash,
        pinned_hash: pin.map(|pin| pin.hash.clone()),
        definition: definition.body,
        is_foreign: definition.is_foreign,
        pinned: pin.and_then(|pin| pin.definition.clone()),
    })
}

/// Whether a server merely offers fewer operations than it may.
fn is_less(definition: &Definition, pin: &Pin) -> bool {
    let accepted = pin.definition.as_ref().map(operations_in).unwrap_or_default();
    let offered = operations_in(&definition.body);
    definition.kind == ItemKind::Server && offered.is_subset(&accepted)
}

fn operations_in(body: &Value) -> BTreeSet<&str> {
    body["operations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The manifest without what waits.
fn without(source: &SourceId, mut manifest: McpManifest, held: &[Held]) -> McpManifest {
    let waits: BTreeSet<&str> = held.iter().map(|held| held.hash.as_str()).collect();
    manifest.tools.retain(|spec| !waits.contains(definition_hash(source, spec).as_str()));
    let trusted = |kind: ItemKind, body: &Value| {
        beside(source, kind, body).is_none_or(|one| !waits.contains(one.hash.as_str()))
    };
    let offer = &mut manifest.offer;
    offer.prompts.retain(|body| trusted(ItemKind::Prompt, body));
    offer.templates.retain(|body| trusted(ItemKind::Template, body));
    if let Some(told) = held.iter().find(|held| held.kind == ItemKind::Instructions) {
        let trusted = told.pinned.as_ref().and_then(|body| body["instructions"].as_str());
        offer.instructions = trusted.map(str::to_owned);
    }
    if let Some(server) = held.iter().find(|held| held.kind == ItemKind::Server) {
        let accepted = server.pinned.as_ref().map(operations_in).unwrap_or_default();
        offer.operations.retain(|_, name| accepted.contains(name.as_str()));
        if !offer.operations.contains_key(&Operation::ReadResource) {
            offer.resources.clear();
        }
    }
    manifest
}

fn corrupt(error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt { operation: "read the pins", reason: error.to_string() }
}

#[cfg(test)]
#[path = "pins_tests.rs"]
mod tests;
