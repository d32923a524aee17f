//! The profiles of agents: what the folders have, and what of it counts.
//!
//! Folders come with repositories. A file counts while it has the hash with which an operator accepted
//! its profile, and not a byte else.

mod check;
mod follow;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use drawgate_agents::profile::{Found, Parsed, Profile, read_folders};
use drawgate_core::store::{Documents, StoreError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

pub use self::check::check_configured;
use crate::config::Loaded;

/// The kind of the documents that say which profiles are accepted.
pub(crate) const KIND: &str = "profile";

/// An operator's word that a profile counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acceptance {
    /// SHA-256 of the file.
    pub hash: String,
    /// The file.
    pub path: PathBuf,
    /// When it was accepted, in milliseconds since the epoch.
    pub accepted_at: u64,
    /// The file's text, to show what has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Whether a profile counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileState {
    /// It counts.
    Accepted,
    /// It is new, and waits to be accepted.
    New,
    /// The file has changed since it was accepted, and waits again.
    Changed,
    /// The file can't be used.
    Broken,
    /// It was accepted, and its file is gone.
    Gone,
}

/// A profile, by its file and by what was accepted.
#[derive(Debug, Clone)]
pub struct KnownProfile {
    /// Its name.
    pub name: String,
    /// Whether it counts.
    pub state: ProfileState,
    /// Its file, if there is one.
    pub found: Option<Found>,
    /// What was accepted, if anything was.
    pub acceptance: Option<Acceptance>,
}

/// The profiles that count, by name.
pub type AcceptedProfiles = Arc<BTreeMap<String, Arc<Profile>>>;

/// The profiles of a gateway.
pub struct Profiles {
    state: Mutex<State>,
    accepted: watch::Sender<AcceptedProfiles>,
}

struct State {
    folders: Folders,
    found: Vec<Found>,
    acceptances: BTreeMap<String, Acceptance>,
}

impl Profiles {
    /// Profiles of a gateway with this configuration; none until the folders are read.
    pub(crate) async fn open(
        documents: &dyn Documents,
        loaded: &Loaded,
    ) -> Result<Arc<Self>, StoreError> {
        let mut acceptances = BTreeMap::new();
        for (name, body) in documents.documents(KIND).await? {
            match serde_json::from_value(body) {
                Ok(acceptance) => drop(acceptances.insert(name, acceptance)),
                Err(error) => tracing::warn!(%error, profile = name, "acceptance can't be read"),
            }
        }
        let state = State { folders: Folders::of(loaded), found: Vec::new(), acceptances };
        let accepted = watch::Sender::new(AcceptedProfiles::default());
        Ok(Arc::new(Self { state: Mutex::new(state), accepted }))
    }

    /// Takes over the folders of another configuration.
    pub(crate) async fn reconfigure(&self, loaded: &Loaded) {
        self.state.lock().folders = Folders::of(loaded);
        self.refresh().await;
    }

    /// Reads the folders again.
    pub async fn refresh(&self) {
        let folders = self.state.lock().folders.clone();
        let read = spawn_blocking(move || folders.read()).await;
        if let Ok(found) = read {
            self.state.lock().found = found;
            self.publish();
        }
    }

    /// The profiles that count, by name.
    #[must_use]
    pub fn accepted(&self) -> Vec<Arc<Profile>> {
        self.accepted.borrow().values().cloned().collect()
    }

    /// A profile that counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Profile>> {
        self.accepted.borrow().get(name).cloned()
    }

    /// Tells when other profiles count than before.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<AcceptedProfiles> {
        self.accepted.subscribe()
    }

    /// All profiles by name, those that were accepted and are gone too.
    #[must_use]
    pub fn known(&self) -> Vec<KnownProfile> {
        let state = self.state.lock();
        let mut all: Vec<KnownProfile> =
            state.found.iter().map(|found| state.known(found)).collect();
        for (name, acceptance) in &state.acceptances {
            if !all.iter().any(|known| known.name == *name) {
                let acceptance = Some(acceptance.clone());
                let (name, state) = (name.clone(), ProfileState::Gone);
                all.push(KnownProfile { name, state, found: None, acceptance });
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Has a profile count, or not any more. The store has it already.
    pub(crate) fn decide(&self, name: &str, acceptance: Option<Acceptance>) {
        let mut state = self.state.lock();
        match acceptance {
            Some(acceptance) => drop(state.acceptances.insert(name.to_owned(), acceptance)),
            None => drop(state.acceptances.remove(name)),
        }
        drop(state);
        self.publish();
    }

    /// Tells those who wait if other profiles count than before.
    fn publish(&self) {
        let accepted = self.state.lock().accepted();
        self.accepted.send_if_modified(|before| {
            let is_new = **before != accepted;
            if is_new {
                *before = Arc::new(accepted);
            }
            is_new
        });
    }
}

impl State {
    fn known(&self, found: &Found) -> KnownProfile {
        let acceptance = self.acceptances.get(&found.name);
        let state = match (&found.parsed, acceptance) {
            (Err(_), _) => ProfileState::Broken,
            (Ok(_), None) => ProfileState::New,
            (Ok(parsed), Some(acceptance)) if parsed.profile.hash == acceptance.hash => {
                ProfileState::Accepted
            }
            (Ok(_), Some(_)) => ProfileState::Changed,
        };
        KnownProfile {
            name: found.name.clone(),
            state,
            found: Some(found.clone()),
            acceptance: acceptance.cloned(),
        }
    }

    fn accepted(&self) -> BTreeMap<String, Arc<Profile>> {
        let known = self.found.iter().map(|found| self.known(found));
        let accepted = known.filter(|known| known.state == ProfileState::Accepted);
        accepted
            .filter_map(|known| {
                let Parsed { profile, .. } = known.found?.parsed.ok()?;
                Some((known.name, Arc::new(profile)))
            })
            .collect()
    }
}

/// Where profiles are, by a configuration.
#[derive(Debug, Clone)]
struct Folders {
    paths: Vec<PathBuf>,
    /// Whether nobody named them, so that they need not exist.
    are_optional: bool,
}

impl Folders {
    fn of(loaded: &Loaded) -> Self {
        let config = &loaded.config.profiles;
        let paths = config.folders.iter().map(|folder| loaded.resolve(folder)).collect();
        Self { paths, are_optional: config.is_optional() }
    }

    /// Those that are read.
    fn read(&self) -> Vec<Found> {
        let is_read = |path: &&PathBuf| !self.are_optional || path.exists();
        let paths: Vec<PathBuf> = self.paths.iter().filter(is_read).cloned().collect();
        read_folders(&paths)
    }
}

/// Reads the profiles of a configuration, whether they are accepted or not.
#[must_use]
pub fn read_configured(loaded: &Loaded) -> Vec<Found> {
    Folders::of(loaded).read()
}

#[cfg(test)]
#[path = "profiles_tests.rs"]
mod tests;
