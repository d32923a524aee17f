//! How many conversations there are: one on each connection, and so many of one agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drawgate_core::model::Principal;
use parking_lot::Mutex;
use tonic::Status;

/// Conversations of one agent, such as when many copies of it run.
const MAX_EACH: usize = 256;

/// The conversations that are open.
#[derive(Default)]
pub(super) struct OpenConversations(Arc<Mutex<ConversationTable>>);

#[derive(Default)]
struct ConversationTable {
    connections: BTreeSet<String>,
    agents: BTreeMap<Principal, usize>,
}

/// An open conversation, until this is dropped.
pub(super) struct OpenConversation {
    table: Arc<Mutex<ConversationTable>>,
    agent: Principal,
    connection: String,
}

impl OpenConversations {
    pub(super) fn enter(
        &self,
        agent: &Principal,
        connection: &str,
    ) -> Result<OpenConversation, Status> {
        let mut table = self.0.lock();
        if table.connections.contains(connection) {
            return Err(Status::already_exists(
                "this connection has a conversation already; end it first",
            ));
        }
        let own = table.agents.get(agent).copied().unwrap_or_default();
        if own >= MAX_EACH {
            return Err(Status::resource_exhausted(format!(
                "`{agent}` has {MAX_EACH} conversations already; end some first"
            )));
        }
        table.connections.insert(connection.to_owned());
        table.agents.insert(agent.clone(), own + 1);
        let (agent, connection) = (agent.clone(), connection.to_owned());
        Ok(OpenConversation { table: Arc::clone(&self.0), agent, connection })
    }
}

impl Drop for OpenConversation {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        table.connections.remove(&self.connection);
        if let Some(own) = table.agents.get_mut(&self.agent) {
            *own -= 1;
            if *own == 0 {
                table.agents.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn conversations_are_bounded_and_forgotten() {
        let open = OpenConversations::default();
        let name = Principal::new("a").unwrap();
        let mut places: Vec<OpenConversation> =
            (0..MAX_EACH).map(|number| open.enter(&name, &number.to_string()).unwrap()).collect();
        let refused = |connection: &str| open.enter(&name, connection).err().unwrap().code();
        assert_eq!(refused("0"), Code::AlreadyExists);
        assert_eq!(refused("new"), Code::ResourceExhausted);
        assert!(open.enter(&Principal::new("b").unwrap(), "new").is_ok());
        places.pop();
        drop(open.enter(&name, "new").unwrap());
        drop(places);
        let table = open.0.lock();
        assert!(table.agents.is_empty() && table.connections.is_empty());
    }
}
