//! The configuration in force, and the edit of it that is not in force yet.

use std::sync::Arc;

use drawgate_core::canonical::sha256_hex;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The configuration in force, and the edit that is not.
pub struct Edits {
    state: Mutex<State>,
    /// What has been said of the files since they were last compared with what is in force.
    finished: Mutex<Finished>,
    asked: Notify,
}

/// Which files are whole, so that nothing is missing from them that is not meant to be.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// All: an operator says so.
    all: bool,
    /// Those with these SHA-256: a command has written them in one piece.
    hashes: Vec<String>,
}

/// How many files may be called finished before they are looked at; of more, the oldest are forgotten and waited for.
const MAX_FINISHED: usize = 64;

struct State {
    in_force: InForce,
    pending: Option<Pending>,
    /// What of the configuration in force takes effect at the next start.
    at_next_start: Vec<&'static str>,
    /// The fingerprint of an edit that the log says is being taken over, and not yet how that ended.
    begun: Option<String>,
}

impl Finished {
    fn add(&mut self, hash: String) {
        if self.hashes.len() >= MAX_FINISHED {
            self.hashes.remove(0);
        }
        self.hashes.push(hash);
    }
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
        let finished = Mutex::default();
        Arc::new(Self { state: Mutex::new(state), finished, asked: Notify::new() })
    }

    /// Has the files looked at now. Says nothing about whether they are whole.
    pub fn look(&self) {
        self.asked.notify_one();
    }

    /// An operator's word that the edits of all files are finished: what is missing from them is meant to be.
    pub fn finish_all(&self) {
        self.finished.lock().all = true;
        self.look();
    }

    /// A command's word that it has written the file with this SHA-256 in one piece. It says nothing about
    /// other files, nor about what another program makes of this one.
    pub fn finish(&self, hash: String) {
        self.finished.lock().add(hash);
        self.look();
    }

    /// Waits until the files are to be looked at now.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Whether a file that says this is finished.
    pub(crate) fn is_finished(&self, text: Option<&[u8]>) -> bool {
        let finished = self.finished.lock();
        finished.all || text.is_some_and(|text| finished.hashes.contains(&sha256_hex(text)))
    }

    /// Takes what was said of the files, for one comparison.
    pub(crate) fn take_finished(&self) -> Finished {
        std::mem::take(&mut self.finished.lock())
    }

    /// Gives it back, because the comparison did not come about.
    pub(crate) fn restore_finished(&self, earlier: Finished) {
        let mut finished = self.finished.lock();
        finished.all |= earlier.all;
        earlier.hashes.into_iter().for_each(|hash| finished.add(hash));
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
