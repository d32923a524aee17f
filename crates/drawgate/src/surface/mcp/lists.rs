//! Prepared answers to the protocol's lists: made once per set of capabilities and revision of the
//! registry.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use drawgate_core::model::{Caller, Capability, Operation, SourceId};
use drawgate_core::pipeline::Gateway;
use drawgate_core::policy::Expose;
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{Item, is_compilable, is_portable};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::era::Era;
use super::finder;

/// How many different sets of lists are kept. Callers with the same capabilities share one.
const KEPT: usize = 64;
/// Resources, families of resources or prompts in one list, and the bytes that it may have: enough
/// for any server that is of use, and less than a client refuses.
const MAX_ITEMS: usize = 10_000;
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// One list, ready to be sent.
pub(super) struct Listed {
    /// A JSON array.
    pub(super) json: Bytes,
    /// Equal for equal lists.
    pub(super) digest: [u8; 32],
}

/// All lists of one set of capabilities.
pub(super) struct Prepared {
    revision: u64,
    held: BTreeSet<Capability>,
    expose: Expose,
    pub(super) tools: Listed,
    /// The same in a form that clients of the revisions with sessions accept.
    tools_with_sessions: Listed,
    /// Those of the sources; artifacts are each caller's own.
    pub(super) resources: Listed,
    pub(super) templates: Listed,
    pub(super) prompts: Listed,
}

/// The lists that were prepared.
#[derive(Default)]
pub(super) struct Lists(Mutex<Vec<Arc<Prepared>>>);

impl Lists {
    /// The lists of one caller, as its grants and the registry are now.
    pub(super) fn of(&self, gateway: &Gateway, caller: &Caller) -> Arc<Prepared> {
        let parts = gateway.parts();
        let held = parts.grants.held(caller, parts.clock.now_ms());
        let snapshot = parts.registry.snapshot();
        let revision = snapshot.revision();
        let expose = parts.exposures.of(&caller.principal);
        if let Some(ready) = self.find(revision, &held, expose) {
            return ready;
        }
        let redactor = parts.redactor.load();
        let items = |all: &[Item], operation: Operation| {
            let open = gateway.open_sources(&held, &snapshot, operation);
            Listed::of(&shown(all, &open, &redactor))
        };
        let mut tools = match expose {
            Expose::All => gateway.listings(&held, &snapshot),
            Expose::Search => finder::definitions(gateway, &held, &snapshot),
        };
        let mut listed = |is_usable: fn(&Value) -> bool| {
            tools.iter_mut().for_each(|tool| keep_output_schema_if(is_usable, tool));
            Listed::of(&tools)
        };
        let prepared = Arc::new(Prepared {
            revision,
            expose,
            tools: listed(is_compilable),
            tools_with_sessions: listed(is_portable),
            resources: items(snapshot.resources(), Operation::ReadResource),
            templates: items(snapshot.templates(), Operation::ReadResource),
            prompts: items(snapshot.prompts(), Operation::GetPrompt),
            held,
        });
        let mut kept = self.0.lock();
        kept.retain(|other| other.revision == revision);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&prepared));
        prepared
    }

    fn find(
        &self,
        revision: u64,
        held: &BTreeSet<Capability>,
        expose: Expose,
    ) -> Option<Arc<Prepared>> {
        let kept = self.0.lock();
        let same = |list: &&Arc<Prepared>| {
            list.revision == revision && list.expose == expose && list.held == *held
        };
        kept.iter().find(same).cloned()
    }
}

impl Prepared {
    /// The tools in the form of an era.
    pub(super) fn tools(&self, era: Era) -> &Listed {
        match era {
            Era::Sessions => &self.tools_with_sessions,
            Era::Stateless => &self.tools,
        }
    }
}

/// Leaves out an output schema that could cost a client the tool, or even the whole list.
fn keep_output_schema_if(is_usable: fn(&Value) -> bool, tool: &mut Value) {
    if let Value::Object(tool) = tool
        && tool.get("outputSchema").is_some_and(|schema| !is_usable(schema))
    {
        tool.shift_remove("outputSchema");
    }
}

impl Listed {
    fn of(definitions: &[Value]) -> Self {
        let json = Bytes::from(serde_json::to_vec(definitions).unwrap_or_else(|_| b"[]".to_vec()));
        Self { digest: Sha256::digest(&json).into(), json }
    }

    /// The array without its brackets, to be put into another.
    pub(super) fn inside(&self) -> &[u8] {
        let inside = self.json.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
        inside.unwrap_or_default()
    }
}

/// The definitions of the sources that are open, ordered by source, then name, without what the
/// gateway knows to be secret.
fn shown(all: &[Item], open: &BTreeSet<SourceId>, redactor: &Redactor) -> Vec<Value> {
    let mut items: Vec<&Item> = all.iter().filter(|item| open.contains(&item.source)).collect();
    // A server that lists in another order each time has not changed its list.
    items.sort_by(|a, b| (&a.source, &a.shown).cmp(&(&b.source, &b.shown)));
    let mut bytes = 0;
    let fitting = items.iter().take(MAX_ITEMS).map_while(|item| {
        let mut listing = item.listing.clone();
        redactor.mask_known_in(&mut listing);
        bytes += serde_json::to_string(&listing).map_or(MAX_BYTES, |text| text.len());
        (bytes <= MAX_BYTES).then_some(listing)
    });
    let fitting: Vec<Value> = fitting.collect();
    if fitting.len() < items.len() {
        let (kept, all) = (fitting.len(), items.len());
        tracing::warn!(kept, all, "a list of resources or prompts is too long and was cut");
    }
    fitting
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(source: &str, number: usize, size: usize) -> Item {
        let shown = format!("x://{number:06}");
        let listing = json!({ "uri": shown, "description": "d".repeat(size) });
        Item { source: SourceId::new(source).unwrap(), own: shown.clone(), shown, listing }
    }

    #[test]
    fn lists_are_bounded_ordered_and_only_of_open_sources() {
        let open = BTreeSet::from([SourceId::new("a").unwrap()]);
        let redactor = Redactor::new(["known-secret-value"]);
        let mut items: Vec<Item> = (0..MAX_ITEMS + 5).map(|n| item("a", n, 1)).collect();
        items.push(item("b", 0, 1));
        items.reverse();
        let listed = shown(&items, &open, &redactor);
        assert_eq!(listed.len(), MAX_ITEMS);
        assert_eq!(listed[0]["uri"], "x://000000");
        let large: Vec<Item> = (0..100).map(|n| item("a", n, MAX_BYTES / 10)).collect();
        assert_eq!(shown(&large, &open, &redactor).len(), 9);
        let mut secret = item("a", 0, 0);
        secret.listing["description"] = "is known-secret-value".into();
        let text = serde_json::to_string(&shown(&[secret], &open, &redactor)).unwrap();
        assert!(!text.contains("known-secret-value"), "{text}");
    }

    #[test]
    fn the_inside_of_a_list() {
        assert_eq!(Listed::of(&[]).inside(), b"");
        assert_eq!(Listed::of(&[json!(1), json!(2)]).inside(), b"1,2");
    }
}
