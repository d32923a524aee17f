//! The tools of an agent, as it is told them. Definitions are made once per revision of the registry
//! and shared by all agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_core::model::{Caller, ToolId};
use drawgate_core::pipeline::{Gateway, View};
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{Entry, Snapshot};
use drawgate_sdk::proto::{ToolDefinition, ToolsChanged, Welcome};
use parking_lot::Mutex;

use super::convert;
use super::mcp::McpSession;

/// Bytes of a list. A message of gRPC has a limit at its reader, in our own clients 16 MiB.
const MAX_BYTES: usize = 12 * 1024 * 1024;

/// The definitions of the newest revision.
#[derive(Default)]
pub(super) struct Lists(Mutex<Option<Arc<Catalogue>>>);

struct Catalogue {
    revision: u64,
    redactor: Arc<Redactor>,
    tools: BTreeMap<ToolId, Arc<ToolDefinition>>,
}

/// What one agent may call at a moment.
pub(super) struct Listed {
    revision: u64,
    view: View,
    tools: Vec<Arc<ToolDefinition>>,
}

impl Lists {
    /// The tools of one agent, as its grants and the registry are now.
    pub(super) fn of(&self, gateway: &Gateway, caller: &Caller) -> Listed {
        let view = gateway.view(caller);
        let snapshot = gateway.registry();
        let catalogue = self.catalogue(gateway, &snapshot);
        let visible = gateway.visible(&view, &snapshot);
        let tools = visible.iter().filter_map(|entry| catalogue.tools.get(&entry.id)).cloned();
        let tools = fitting(tools, MAX_BYTES);
        if tools.len() < visible.len() {
            let (kept, all) = (tools.len(), visible.len());
            tracing::warn!(agent = %caller.principal, kept, all, "a list of tools is too long and was cut");
        }
        Listed { revision: snapshot.revision(), view, tools }
    }

    fn catalogue(&self, gateway: &Gateway, snapshot: &Snapshot) -> Arc<Catalogue> {
        let redactor = gateway.redactor();
        // The lock is kept while they are made: all agents ask at the same moment.
        let mut newest = self.0.lock();
        let fits = |made: &&Arc<Catalogue>| {
            made.revision == snapshot.revision() && Arc::ptr_eq(&made.redactor, &redactor)
        };
        if let Some(made) = newest.as_ref().filter(fits) {
            return Arc::clone(made);
        }
        let made = Arc::new(Catalogue {
            revision: snapshot.revision(),
            tools: definitions(gateway, snapshot),
            redactor,
        });
        *newest = Some(Arc::clone(&made));
        made
    }
}

/// Every definition. Who sees which is decided for each agent.
fn definitions(gateway: &Gateway, snapshot: &Snapshot) -> BTreeMap<ToolId, Arc<ToolDefinition>> {
    let longest = gateway.settings().max_timeout;
    let definition = |entry: &Arc<Entry>| {
        let listing = gateway.listing(entry, snapshot);
        (entry.id.clone(), Arc::new(convert::definition(entry, &listing, longest)))
    };
    snapshot.available().map(definition).collect()
}

/// As many as a message can hold.
fn fitting(
    tools: impl Iterator<Item = Arc<ToolDefinition>>,
    max: usize,
) -> Vec<Arc<ToolDefinition>> {
    let mut bytes = 0;
    let fitting = tools.take_while(|tool| {
        bytes += convert::size(tool);
        bytes <= max
    });
    fitting.collect()
}

impl Listed {
    /// Whether an agent that knows `earlier` must be told.
    pub(super) fn differs(&self, earlier: &Self) -> bool {
        let same =
            |(a, b): (&Arc<ToolDefinition>, &Arc<ToolDefinition>)| Arc::ptr_eq(a, b) || a == b;
        self.tools.len() != earlier.tools.len() || !self.tools.iter().zip(&earlier.tools).all(same)
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| ToolDefinition::clone(tool)).collect()
    }

    /// The answer to a registration.
    pub(super) fn welcome(&self, caller: &Caller, mcp: Option<&McpSession>) -> Welcome {
        let token = |mcp: &McpSession| mcp.token.secret().expose().clone();
        Welcome {
            mcp_endpoint: mcp.map(|mcp| mcp.endpoint.clone()).unwrap_or_default(),
            mcp_token: mcp.map(token).unwrap_or_default(),
            name: caller.principal.to_string(),
            capabilities: self.view.held().iter().map(ToString::to_string).collect(),
            tools: self.tools(),
            revision: self.revision,
        }
    }

    /// The news of a change.
    pub(super) fn changed(&self) -> ToolsChanged {
        ToolsChanged { revision: self.revision, tools: self.tools() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_where_a_message_would() {
        let tool = |size: usize| {
            Arc::new(ToolDefinition { description: "d".repeat(size), ..ToolDefinition::default() })
        };
        let sizes = |max| fitting([tool(100), tool(500), tool(100)].into_iter(), max).len();
        assert_eq!([sizes(50), sizes(400), sizes(10_000)], [0, 1, 3]);
    }
}
