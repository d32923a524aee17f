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
use crate::toolpacks::Folder;

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
        let (id, hash) = (outcome.text_of("toolpack")?, outcome.text_of("contentHash"));
        let path = self.toolpacks.path().ok()?;
        let look = spawn_blocking(move || {
            // Opening it finishes what was begun.
            let folder = Folder::open(&path).ok().filter(Folder::is_settled)?;
            let mut packs = folder.list().ok()?.into_iter();
            Some(packs.find(|pack| pack.id == id))
        });
        let pack = look.await.ok()??;
        let entry = pack.as_ref().and_then(|pack| pack.entry.as_ref());
        match outcome.kind() {
            EventKind::ToolpackInstalled | EventKind::ToolpackUpdated => {
                Some(entry.map(|entry| &entry.content_hash) == hash.as_ref())
            }
            // A folder without an entry was not installed here, and was not removed.
            EventKind::ToolpackRemoved => Some(pack.is_none()),
            // What can't be enabled was not, even if it had been before.
            EventKind::ToolpackEnabled => Some(pack.as_ref().is_some_and(|pack| {
                let is_accepted = |entry| self.toolpacks.is_accepted(&pack.id, entry);
                pack.is_loadable() && entry.is_some_and(is_accepted)
            })),
            EventKind::ToolpackDisabled => Some(entry.is_some_and(|entry| !entry.enabled)),
            _ => None,
        }
    }
}
