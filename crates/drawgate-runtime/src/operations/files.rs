//! Whether an act on files was done, by the files: after a failure, and after a gateway that was killed.

use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::acts::Files;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::Principal;
use drawgate_core::store::Artifacts;
use drawgate_sdk::statement::Purpose;
use tokio::task::spawn_blocking;

use super::Operations;
use crate::peers::PeerAuthenticator;
use crate::toolpack_sources::Toolpacks;
use crate::toolpacks::{Folder, Integrity, PackId};

impl Operations {
    /// The files that acts change.
    pub(super) fn files(&self) -> Arc<dyn Files> {
        Arc::new(FileChecks {
            authenticator: Arc::clone(&self.authenticator),
            toolpacks: Arc::clone(&self.toolpacks),
            artifacts: Arc::clone(&self.control.parts().artifacts),
        })
    }
}

struct FileChecks {
    authenticator: Arc<PeerAuthenticator>,
    toolpacks: Arc<Toolpacks>,
    artifacts: Arc<dyn Artifacts>,
}

#[async_trait]
impl Files for FileChecks {
    async fn have(&self, outcome: &EventDraft) -> Option<bool> {
        match outcome.kind() {
            EventKind::KeyAdded => self.has_key(outcome).await,
            EventKind::KeyRemoved => self.has_key(outcome).await.map(|has| !has),
            EventKind::ArtifactRemoved => self.is_removed(&outcome.text_of("artifact")?).await,
            _ => self.has_pack(outcome).await,
        }
    }
}

impl FileChecks {
    async fn has_key(&self, outcome: &EventDraft) -> Option<bool> {
        let [key, purpose, name] =
            ["fingerprint", "purpose", "name"].map(|field| outcome.text_of(field));
        let (key, purpose, name) = (key?, purpose?, name?);
        let purpose = Purpose::ALL.into_iter().find(|known| known.as_str() == purpose)?;
        let authenticator = Arc::clone(&self.authenticator);
        // What the file says now is in force from here on.
        spawn_blocking(move || drop(authenticator.reload())).await.ok()?;
        let list = self.authenticator.list();
        list.problem().is_none().then(|| list.find(&key, purpose, &name).is_ok())
    }

    /// Whether an artifact is gone; one whose file is gone is struck from the table too.
    async fn is_removed(&self, sha256: &str) -> Option<bool> {
        match self.artifacts.get(sha256, &Principal::local()).await {
            Ok(found) => Some(found.is_none()),
            Err(_) => self.artifacts.remove(sha256).await.ok(),
        }
    }

    async fn has_pack(&self, outcome: &EventDraft) -> Option<bool> {
        let (kind, hash) = (outcome.kind(), outcome.text_of("contentHash"));
        let id: PackId = outcome.text_of("toolpack")?.parse().ok()?;
        let path = self.toolpacks.path().ok()?;
        spawn_blocking(move || {
            // Opening it finishes what was begun.
            let folder = Folder::open(&path).ok()?;
            let lock = folder.lock().ok()?;
            let entry = lock.toolpacks.get(&id);
            // A manifest that can't be read, or that somebody else has changed, was not written here.
            let is = |wanted: bool| match entry {
                Some(_) => {
                    let pack = folder.get(&id).ok()?;
                    let is_ours = !wanted || pack.integrity == Integrity::Locked;
                    Some(is_ours && pack.manifest.is_ok_and(|it| it.enabled == wanted))
                }
                None => Some(false),
            };
            match kind {
                EventKind::ToolpackInstalled | EventKind::ToolpackUpdated => {
                    Some(entry.map(|entry| entry.content_hash.as_str()) == hash.as_deref())
                }
                // A folder without an entry is somebody else's, and was not removed.
                EventKind::ToolpackRemoved => {
                    Some(entry.is_none() && !path.join(id.as_str()).exists())
                }
                EventKind::ToolpackEnabled => is(true),
                EventKind::ToolpackDisabled => is(false),
                _ => None,
            }
        })
        .await
        .ok()?
    }
}
