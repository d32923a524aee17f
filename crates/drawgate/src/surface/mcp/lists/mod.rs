//! Prepared answers to the protocol's lists: made once per view and revision of the registry.

pub(crate) mod instructions;
pub(crate) mod page;
pub(crate) mod search_tools;

use std::collections::BTreeSet;
use std::sync::Arc;

use drawgate_core::model::{Caller, Operation, SourceId};
use drawgate_core::pipeline::{Gateway, View};
use drawgate_core::policy::Expose;
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{Item, is_compilable, is_portable};
use parking_lot::Mutex;
use serde_json::Value;

use self::page::Listed;
use crate::surface::mcp::wire::era::Era;

/// How many different sets of lists are kept. Callers with the same view share one.
const KEPT: usize = 64;
/// All lists of one view.
pub(crate) struct Prepared {
    revision: u64,
    view: View,
    expose: Expose,
    pub(crate) tools: Listed,
    /// The same in a form that clients of the revisions with sessions accept.
    tools_with_sessions: Listed,
    /// Those of the sources; artifacts are each caller's own.
    pub(crate) resources: Listed,
    pub(crate) templates: Listed,
    pub(crate) prompts: Listed,
    /// What the caller's model is told.
    pub(crate) instructions: String,
}

/// The lists that were prepared.
#[derive(Default)]
pub(crate) struct Lists(Mutex<Vec<Arc<Prepared>>>);

impl Lists {
    /// The lists of one caller, as its grants and the registry are now.
    pub(crate) fn of(&self, gateway: &Gateway, caller: &Caller) -> Arc<Prepared> {
        let view = gateway.view(caller);
        let snapshot = gateway.registry();
        let revision = snapshot.revision();
        let expose = gateway.exposure(&caller.principal);
        if let Some(ready) = self.find(revision, &view, expose) {
            return ready;
        }
        let redactor = gateway.redactor();
        let items = |all: &[Item], operation: Operation| {
            let open = gateway.open_sources(&view, &snapshot, operation);
            Listed::of(&shown(all, &open, &redactor))
        };
        let mut tools = match expose {
            Expose::All => gateway.listings(&view, &snapshot),
            Expose::Search => search_tools::definitions(gateway, &view, &snapshot),
        };
        let mut listed = |is_usable: fn(&Value) -> bool| {
            for tool in &mut tools {
                keep_output_schema_if(is_usable, tool);
            }
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
            instructions: instructions::of(gateway, &view, &snapshot),
            view,
        });
        let mut kept = self.0.lock();
        kept.retain(|other| other.revision == revision);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&prepared));
        prepared
    }

    fn find(&self, revision: u64, view: &View, expose: Expose) -> Option<Arc<Prepared>> {
        let kept = self.0.lock();
        let same = |list: &&Arc<Prepared>| {
            list.revision == revision && list.expose == expose && list.view == *view
        };
        kept.iter().find(same).cloned()
    }
}

impl Prepared {
    /// The tools in the form of an era.
    pub(crate) fn tools(&self, era: Era) -> &Listed {
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

/// The definitions of the sources that are open, ordered by source, then name, without what the
/// gateway knows to be secret.
fn shown(all: &[Item], open: &BTreeSet<SourceId>, redactor: &Redactor) -> Vec<Value> {
    let mut items: Vec<&Item> = all.iter().filter(|item| open.contains(&item.source)).collect();
    // A server that lists in another order each time has not changed its list.
    items.sort_by(|a, b| (&a.source, &a.shown).cmp(&(&b.source, &b.shown)));
    let masked = |item: &&Item| {
        let mut listing = item.listing.clone();
        redactor.mask_known_in(&mut listing);
        listing
    };
    items.iter().map(masked).collect()
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
    fn lists_are_ordered_and_only_of_open_sources() {
        let open = BTreeSet::from([SourceId::new("a").unwrap()]);
        let redactor = Redactor::new(["known-secret-value"]);
        let mut items: Vec<Item> = (0..20).map(|n| item("a", n, 1)).collect();
        items.push(item("b", 0, 1));
        items.reverse();
        let listed = shown(&items, &open, &redactor);
        assert_eq!((listed.len(), &listed[0]["uri"]), (20, &json!("x://000000")));
        let mut secret = item("a", 0, 0);
        secret.listing["description"] = "is known-secret-value".into();
        let text = serde_json::to_string(&shown(&[secret], &open, &redactor)).unwrap();
        assert!(!text.contains("known-secret-value"), "{text}");
    }
}
