//! Packs as an operator sees them.

use std::net::IpAddr;

use drawgate_core::model::Capability;
use drawgate_core::registry::{SourceState, SourceStatus};
use serde::{Deserialize, Serialize};

use super::{ConnectedPack, Packs};

/// A pack, for people.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackReport {
    /// Its id.
    pub id: String,
    /// Whether it is there.
    pub state: SourceState,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
    /// Its version.
    pub version: String,
    /// How many tools it offers.
    pub tools: usize,
    /// Calls that it works on.
    pub calls_under_way: usize,
    /// How many of them may run at once.
    pub max_calls: usize,
    /// Answers that came late, twice or for no call.
    pub answers_dropped: u64,
    /// The key that it has proved.
    pub fingerprint: String,
    /// What the list of keys says about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// Its connection in the audit log.
    pub connection: String,
    /// The address that it came from.
    pub remote: IpAddr,
}

/// One of its tools.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackToolView {
    /// What models see.
    pub name: String,
    /// What a caller needs.
    pub requires: Vec<Capability>,
    /// How long a call may take.
    pub timeout_ms: u64,
    /// What it does.
    pub description: String,
}

impl Packs {
    /// All packs that are connected or in their grace period, by id.
    #[must_use]
    pub fn list(&self) -> Vec<PackReport> {
        let statuses = self.supervisor.status();
        let connected = self.connected.lock().clone();
        let of = |id: &str| statuses.iter().find(|status| status.id.as_str() == id);
        connected.iter().filter_map(|(id, pack)| Some(report(pack, of(id.as_str())?))).collect()
    }

    /// The tools of one pack, by name.
    #[must_use]
    pub fn tools(&self, id: &str) -> Vec<PackToolView> {
        let snapshot = self.gateway.registry();
        let own = snapshot.available().filter(|entry| entry.id.source().as_str() == id);
        own.map(|entry| PackToolView {
            name: entry.wire.to_string(),
            requires: entry.requires.clone(),
            timeout_ms: u64::try_from(entry.limits.timeout.as_millis()).unwrap_or(u64::MAX),
            description: entry.spec.description.clone(),
        })
        .collect()
    }
}

fn report(pack: &ConnectedPack, status: &SourceStatus) -> PackReport {
    let connection = pack.source.connection();
    let version = status.server.as_deref().and_then(|server| server.split_once(' '));
    PackReport {
        id: status.id.to_string(),
        state: status.state,
        since: status.since,
        version: version.map(|(_, version)| version.to_owned()).unwrap_or_default(),
        tools: status.tools,
        calls_under_way: connection.calls_under_way(),
        max_calls: pack.calls,
        answers_dropped: connection.answers_dropped(),
        fingerprint: pack.peer.terms.fingerprint.clone(),
        comment: pack.peer.terms.comment.clone(),
        connection: pack.peer.session.clone(),
        remote: pack.peer.remote,
    }
}
