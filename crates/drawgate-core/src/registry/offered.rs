//! What a source offers beside tools, under the operator's terms.
//!
//! Each operation has an entry like a tool's, so that the same stations check it. Who restricts the
//! tools of a server means the server: its operations then require as much, unless they have terms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, json};

use super::entry::{Entry, Naming, Origin, Part, SourceTerms, ToolTerms};
use crate::fair::FairSlots;
use crate::model::{Capability, McpToolSpec, Offer, Operation, SourceId, ToolId};
use crate::pipeline::Meter;
use crate::source::ToolSource;

/// What a source offers beside tools.
pub(super) struct Offered {
    pub(super) offer: Offer,
    pub(super) naming: Naming,
    pub(super) operations: BTreeMap<Operation, Arc<Entry>>,
    pub(super) source: Arc<dyn ToolSource>,
}

impl Offered {
    pub(super) fn is_anything(&self) -> bool {
        self.offer != Offer::default()
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.offer == other.offer
            && self.naming == other.naming
            && self.operations.len() == other.operations.len()
            && self.operations.values().zip(other.operations.values()).all(|(a, b)| a.same_as(b))
    }
}

/// Makes the entries of the operations that are not disabled.
pub(super) fn build(
    id: &SourceId,
    terms: &SourceTerms,
    offer: Offer,
    origin: Origin,
    source: &Arc<dyn ToolSource>,
    slots: &Arc<FairSlots>,
) -> Offered {
    let common = SourceTerms {
        capabilities: common(terms),
        // An operation performs no action of its own, so that a tool's need of one says nothing here.
        require_action: false,
        ..terms.clone()
    };
    let operations = offer.operations.iter().filter_map(|(operation, name)| {
        let own = terms.tools.get(&format!("@{name}")).cloned().unwrap_or_default();
        if own.disabled {
            return None;
        }
        let taken = &BTreeMap::new();
        let part = Part { id, terms: &common, own, origin, source, slots, taken };
        Some((*operation, Arc::new(entry(part, *operation, name).ok()?)))
    });
    Offered {
        operations: operations.collect(),
        naming: terms.naming,
        source: Arc::clone(source),
        offer,
    }
}

/// What operations require whose terms do not say it: what the server does, or else all that is
/// required by those of its tools that the operator restricts.
fn common(terms: &SourceTerms) -> Vec<Capability> {
    if !terms.capabilities.is_empty() {
        return terms.capabilities.clone();
    }
    let restricted =
        |own: &ToolTerms| own.capabilities.is_some() || own.requires_confirmation == Some(true);
    let tools = terms.tools.iter().filter(|(name, _)| !name.starts_with('@'));
    let all: BTreeSet<Capability> = tools
        .map(|(_, own)| own.in_full(terms))
        .filter(restricted)
        .flat_map(|own| {
            let action = own.policy_action.as_deref().and_then(|text| Capability::new(text).ok());
            own.capabilities.into_iter().flatten().chain(action)
        })
        // A tool that is open to every caller opens nothing else.
        .filter(|capability| !capability.is_public())
        .collect();
    all.into_iter().collect()
}

/// What stands for an operation: the same stations check it as check a tool.
fn entry(part: Part<'_>, operation: Operation, name: &str) -> Result<Entry, String> {
    let needed = match operation {
        Operation::ReadResource | Operation::Subscribe | Operation::Unsubscribe => "uri",
        Operation::GetPrompt => "name",
        Operation::Complete => "ref",
        Operation::SetLogLevel => "level",
        Operation::CallTool => return Err("it is no tool".to_owned()),
    };
    let spec = McpToolSpec {
        name: name.replace('/', "_"),
        description: "an operation beside tools".to_owned(),
        input_schema: json!({ "type": "object", "required": [needed] }),
        annotations: None,
        metadata: None,
        rest: Map::new(),
    };
    let id = ToolId::of_operation(part.id, name);
    let entry = part.entry(spec)?;
    Ok(Entry { meter: Meter::new(&id), id, operation, ..entry })
}

#[cfg(test)]
#[path = "offered_tests.rs"]
mod tests;
