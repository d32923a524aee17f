//! The configuration in force, and the edit of it that is not in force yet.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The configuration in force, and the edit that is not.
pub struct Edits {
    state: Mutex<State>,
    asked: Notify,
}

struct State {
    in_force: InForce,
    pending: Option<Pending>,
    /// What of the configuration in force takes effect at the next start.
    at_next_start: Vec<&'static str>,
    /// The fingerprint of an edit that the log says is being taken over, and not yet how that ended.
    begun: Option<String>,
}

/// The configuration that the gateway runs with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// Its file, as an absolute path; none where the defaults hold.
    pub file: Option<std::path::PathBuf>,
    /// The file whose edits count, as an absolute path; it need not exist yet.
    #[serde(default)]
    pub watched: Option<std::path::PathBuf>,
    /// SHA-256 of the file's text.
    #[serde(default)]
    pub config_hash: String,
    /// SHA-256 of the lock file of packages; empty where there is none.
    #[serde(default)]
    pub packages_hash: String,
    /// SHA-256 over the file and those that it names.
    #[serde(skip)]
    pub(crate) fingerprint: String,
}

/// An edit that is wanted and not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// Why it is not.
    pub problem: String,
    /// SHA-256 of the file.
    pub config_hash: String,
    /// Since when it is tried, in milliseconds since the epoch.
    pub since: u64,
}

/// Both, for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// What is in force.
    #[serde(flatten)]
    pub in_force: InForce,
    /// What is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// Sections that were edited and take effect at the next start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_next_start: Vec<String>,
}

/// Whether an edit changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is in force from now on.
    Now,
    /// It says what is in force already.
    Before,
}

impl Edits {
    pub(crate) fn new(in_force: InForce) -> Arc<Self> {
        let state = State { in_force, pending: None, at_next_start: Vec::new(), begun: None };
        Arc::new(Self { state: Mutex::new(state), asked: Notify::new() })
    }

    /// An operator's word that an edit of the files is finished: they are looked at without waiting, and what
    /// is missing from them is meant to be.
    pub fn look(&self) {
        self.asked.notify_one();
    }

    /// Waits for that word.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// What is in force, and what is not.
    #[must_use]
    pub fn status(&self) -> ConfigStatus {
        let state = self.state.lock();
        ConfigStatus {
            in_force: state.in_force.clone(),
            pending: state.pending.clone(),
            at_next_start: state.at_next_start.iter().map(|&it| it.to_owned()).collect(),
        }
    }

    /// Whether an edit is wanted that is not in force.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state.lock().pending.is_some()
    }

    /// Nothing else is wanted than what is in force.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        state.pending = None;
        state.begun = None;
    }

    /// Whether the log says that this edit is being taken over.
    pub(crate) fn is_begun(&self, fingerprint: &str) -> bool {
        self.state.lock().begun.as_deref() == Some(fingerprint)
    }

    /// Notes that the log says so.
    pub(crate) fn begin(&self, fingerprint: &str) {
        self.state.lock().begun = Some(fingerprint.to_owned());
    }

    pub(crate) fn is_in_force(&self, fingerprint: &str) -> bool {
        self.state.lock().in_force.fingerprint == fingerprint
    }

    pub(crate) fn set_in_force(&self, in_force: InForce, at_next_start: Vec<&'static str>) {
        let mut state = self.state.lock();
        state.in_force = in_force;
        state.at_next_start = at_next_start;
    }

    /// Remembers an edit that is not in force; `false` if that is known already.
    pub(crate) fn remember(&self, config_hash: &str, problem: &str, now: u64) -> bool {
        let mut state = self.state.lock();
        let before = state.pending.take();
        let same = before.filter(|pending| pending.config_hash == config_hash);
        let is_new = same.as_ref().is_none_or(|pending| pending.problem != problem);
        let since = same.map_or(now, |pending| pending.since);
        let (problem, config_hash) = (problem.to_owned(), config_hash.to_owned());
        state.pending = Some(Pending { problem, config_hash, since });
        is_new
    }
}
