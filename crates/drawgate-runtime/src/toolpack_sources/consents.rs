//! Which packs the operator has enabled on this data folder. A pack folder with its lock can come with a
//! copied project; what it says about itself starts nothing.

use std::collections::BTreeMap;

use drawgate_core::model::Principal;
use drawgate_core::store::StoreError;
use drawgate_host::seal::SealError;
use tokio::task::spawn_blocking;

use super::Toolpacks;
use crate::lock::Consent;
use crate::time;
use crate::toolpacks::{Folder, LockEntry, PackId};

/// The kind of the documents in which the version before noted consents.
const OLD_KIND: &str = "toolpack";

impl Toolpacks {
    /// Notes that an operator wants a pack with the content of this entry to run.
    pub fn consent(
        &self,
        actor: &Principal,
        id: &PackId,
        entry: &LockEntry,
    ) -> Result<Consent, SealError> {
        let at = time::iso(self.host.clock.now_ms());
        Consent::give(&self.key, entry.subject(id.as_str()), actor, at)
    }

    /// Whether an operator has enabled this entry on this data folder.
    #[must_use]
    pub fn is_accepted(&self, id: &str, entry: &LockEntry) -> bool {
        entry.is_accepted(id, &self.key)
    }

    /// Takes over, once, what the version before kept beside the packs and in the store.
    pub(crate) async fn take_over(&self) {
        if let Err(error) = self.try_take_over().await {
            let error = format!("{error:#}");
            tracing::error!(error, "toolpacks of an earlier version can't be taken over yet");
        }
    }

    async fn try_take_over(&self) -> anyhow::Result<()> {
        let (path, old) = (self.path()?, self.old_consents().await?);
        if !path.exists() || (old.is_empty() && !Folder::is_old(&path)) {
            return Ok(());
        }
        let (key, at) = (self.key.clone(), time::iso(self.host.clock.now_ms()));
        let ids: Vec<String> = old.keys().cloned().collect();
        let consent = move |id: &PackId, entry: &LockEntry| {
            let hashes = old.get(id.as_str())?;
            if !hashes.contains(&entry.content_hash) || entry.is_accepted(id.as_str(), &key) {
                return None;
            }
            let by = Principal::local();
            Consent::give(&key, entry.subject(id.as_str()), &by, at.clone()).ok()
        };
        spawn_blocking(move || Folder::take_over(&path, consent)).await??;
        for id in ids {
            self.documents.remove_document(OLD_KIND, &id).await?;
        }
        Ok(())
    }

    /// Content hashes that were enabled, by the packs' ids.
    async fn old_consents(&self) -> Result<BTreeMap<String, Vec<String>>, StoreError> {
        let documents = self.documents.documents(OLD_KIND).await?.into_iter();
        let read = documents.map(|(id, mut body)| {
            let hashes = serde_json::from_value(body["contentHashes"].take());
            (id, hashes.unwrap_or_default())
        });
        Ok(read.collect())
    }
}
