//! What sources report of their resources, for as long as there are listeners.

use std::sync::{Arc, Weak};

use drawgate_core::model::{Operation, SourceId, ToolInvocation};
use drawgate_core::source::{SourceEvent, ToolSource};
use serde_json::Map;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::gate;
use crate::surface::mcp::session::subscribed::Resource;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::state::subscription_table::{Listener, is_one_client};

/// Passes on what a source reports, as long as something of it has listeners.
pub(crate) fn hear(mcp: &Mcp, source: &SourceId) {
    if mcp.inner.subscription_table.begin_to_hear(source) {
        // Before the source is asked, so that its first report is not missed.
        let connection = Connection::of(mcp, source);
        let (mcp, source) = (mcp.clone(), source.clone());
        tokio::spawn(async move {
            let shut = mcp.inner.streams.closed();
            tokio::select! {
                () = shut.cancelled() => {}
                () = pass_on(&mcp, &source, connection) => {}
            }
        });
    }
}

async fn pass_on(mcp: &Mcp, id: &SourceId, mut connection: Connection) {
    let subscription_table = &mcp.inner.subscription_table;
    let mut registry = mcp.inner.gateway.registry_changes();
    while subscription_table.is_heard(id) {
        tokio::select! {
            event = connection.next() => {
                if let Some(SourceEvent::ResourceUpdated { uri }) = event {
                    subscription_table.report(Resource { source: id.clone(), own: uri });
                    continue;
                }
            }
            changed = registry.changed() => if changed.is_err() { return },
        }
        let now = Connection::of(mcp, id);
        if now.differs(&connection) {
            connection = now;
            if connection.is_there {
                again(mcp, id).await;
            }
        }
    }
}

/// Subscribes anew at a source that was away or has been replaced.
async fn again(mcp: &Mcp, source: &SourceId) {
    for (resource, listeners) in mcp.inner.subscription_table.of_source(source) {
        let held = listeners.lock().await;
        for (place, Listener { caller, .. }) in held.iter().enumerate() {
            let mut earlier = held.iter().take(place);
            let told = earlier.any(|earlier| is_one_client(&earlier.caller, caller));
            if !told {
                gate::call_gate(mcp, caller, request(&resource, Operation::Subscribe)).await;
            }
        }
        drop(held);
        drop(listeners);
        mcp.inner.subscription_table.tidy(&resource);
    }
}

/// A source as it is now, and what it reports.
struct Connection {
    source: Option<Weak<dyn ToolSource>>,
    is_there: bool,
    events: Option<broadcast::Receiver<SourceEvent>>,
}

impl Connection {
    fn of(mcp: &Mcp, id: &SourceId) -> Self {
        let snapshot = mcp.inner.gateway.registry();
        let source = snapshot.source(id);
        Self {
            is_there: snapshot.can(id, Operation::Subscribe),
            events: source.and_then(|source| source.events()),
            source: source.map(Arc::downgrade),
        }
    }

    fn differs(&self, before: &Self) -> bool {
        let same = match (&self.source, &before.source) {
            (Some(now), Some(before)) => Weak::ptr_eq(now, before),
            (None, None) => true,
            _ => false,
        };
        !same || self.is_there != before.is_there
    }

    /// The next report. `None` once when a source has ended; then it waits for ever.
    async fn next(&mut self) -> Option<SourceEvent> {
        let Some(events) = &mut self.events else { return std::future::pending().await };
        loop {
            match events.recv().await {
                Ok(event) => return Some(event),
                // What was missed is gone; what follows still counts.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    self.events = None;
                    return None;
                }
            }
        }
    }
}

/// The request by which a source is told of listeners.
pub(crate) fn request(resource: &Resource, operation: Operation) -> ToolInvocation {
    let mut arguments = Map::new();
    arguments.insert("uri".to_owned(), resource.own.as_str().into());
    ToolInvocation {
        tool_id: resource.source.to_string(),
        arguments,
        operation,
        ..ToolInvocation::default()
    }
}
