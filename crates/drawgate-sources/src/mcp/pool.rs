//! Connections that serve one client each, for servers that keep state for their client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::source::SourceError;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use super::context::SourceContext;
use super::diagnostics::ClientConnections;
use super::dialer::Dialer;
use super::principal_of;
use super::supervise::{Audience, Supervision, Supervisor};
use super::uses::InUse;

/// How many clients may have a connection at a time.
const LIMIT: usize = 32;
/// Of these, those of one principal with several sessions.
const SHARE: usize = LIMIT / 4;
/// How long a client may be silent before its connection is ended.
const SILENCE: Duration = Duration::from_mins(10);

/// The clients' connections to one server.
pub(super) struct Pool {
    dialer: Arc<Dialer>,
    context: SourceContext,
    supervision: Supervision,
    members: Mutex<Members>,
    /// Connections on their way out.
    leaving: TaskTracker,
}

#[derive(Default)]
struct Members {
    by_client: BTreeMap<Arc<str>, Arc<Supervisor>>,
    closed: bool,
}

impl Pool {
    /// No connections yet. Each is looked after like that of the server, but ends when it is not used.
    pub(super) fn new(
        dialer: Arc<Dialer>,
        context: SourceContext,
        supervision: Supervision,
    ) -> Self {
        let silence = supervision.idle.map_or(SILENCE, |idle| idle.min(SILENCE));
        let supervision =
            Supervision { idle: Some(silence), audience: Audience::None, ..supervision };
        Self {
            dialer,
            context,
            supervision,
            members: Mutex::default(),
            leaving: TaskTracker::new(),
        }
    }

    /// A client's own connection, made if there is none. It is not ended while it is held.
    pub(super) fn enter(&self, client: &Arc<str>) -> Result<(Arc<Supervisor>, InUse), SourceError> {
        let mut members = self.members.lock();
        if members.closed {
            return Err(SourceError::unreachable("the server was stopped"));
        }
        if let Some(supervisor) = members.by_client.get(client) {
            return Ok((Arc::clone(supervisor), supervisor.hold()));
        }
        let principal = principal_of(client);
        let own = |other: &str| principal_of(other) == principal;
        if members.by_client.keys().filter(|other| own(other)).count() >= SHARE {
            self.make_room(&mut members, own).ok_or_else(|| {
                in_use(&format!(
                    "all {SHARE} connections that `{principal}` may have to the server"
                ))
            })?;
        } else if members.by_client.len() >= LIMIT {
            self.make_room(&mut members, |_| true)
                .ok_or_else(|| in_use(&format!("all {LIMIT} connections to the server")))?;
        }
        let (dialer, context) = (Arc::clone(&self.dialer), self.context.apart());
        let supervisor = Arc::new(Supervisor::new(dialer, context, self.supervision));
        members.by_client.insert(Arc::clone(client), Arc::clone(&supervisor));
        let hold = supervisor.hold();
        Ok((supervisor, hold))
    }

    pub(super) fn report(&self) -> ClientConnections {
        ClientConnections { open: self.members.lock().by_client.len(), limit: LIMIT }
    }

    /// Ends all connections and waits until they are gone.
    pub(super) async fn close(&self) {
        let all = {
            let mut members = self.members.lock();
            members.closed = true;
            std::mem::take(&mut members.by_client)
        };
        for supervisor in all.into_values() {
            self.leaving.spawn(async move { supervisor.close().await });
        }
        self.leaving.close();
        self.leaving.wait().await;
    }

    /// Ends the one of these connections that was not used for the longest time, if one is unused.
    fn make_room(&self, members: &mut Members, whose: impl Fn(&str) -> bool) -> Option<()> {
        let these = members.by_client.iter().filter(|(client, _)| whose(client));
        let unused = these.filter_map(|(client, supervisor)| {
            supervisor.unused_since().map(|since| (since, Arc::clone(client)))
        });
        let (_, client) = unused.min()?;
        let supervisor = members.by_client.remove(&client)?;
        self.leaving.spawn(async move { supervisor.close().await });
        Some(())
    }
}

fn in_use(what: &str) -> SourceError {
    SourceError::unreachable(format!("{what} are in use by other clients; try again later"))
}
