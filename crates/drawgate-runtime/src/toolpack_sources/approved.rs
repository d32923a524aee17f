//! Which packs the operator has enabled, by content, in the data folder. A pack folder with its lock can
//! come with a copied project; what it says about itself starts nothing.

use std::collections::BTreeMap;

use drawgate_core::store::StoreError;
use serde_json::json;

use super::Toolpacks;

/// The kind of the documents.
const KIND: &str = "toolpack";
/// The newest content and the one before it, which is there until the folder has changed.
const KEPT: usize = 2;

/// Content hashes that were enabled, newest first, by the packs' ids.
pub(super) type Approved = BTreeMap<String, Vec<String>>;

impl Toolpacks {
    /// Remembers that the operator wants a pack with this content to run.
    pub async fn approve(&self, id: &str, content_hash: &str) -> Result<(), StoreError> {
        let mut hashes = self.approved().await?.remove(id).unwrap_or_default();
        hashes.retain(|hash| hash != content_hash);
        hashes.insert(0, content_hash.to_owned());
        hashes.truncate(KEPT);
        self.documents.put_document(KIND, id, &json!({ "contentHashes": hashes })).await
    }

    /// Forgets it. The pack is off or gone already, so that nothing depends on it.
    pub async fn withdraw(&self, id: &str) {
        if let Err(error) = self.documents.remove_document(KIND, id).await {
            tracing::warn!(%error, toolpack = id, "that it was enabled once could not be forgotten");
        }
    }

    pub(super) async fn approved(&self) -> Result<Approved, StoreError> {
        let documents = self.documents.documents(KIND).await?.into_iter();
        let read = documents.map(|(id, mut body)| {
            let hashes = serde_json::from_value(body["contentHashes"].take());
            (id, hashes.unwrap_or_default())
        });
        Ok(read.collect())
    }
}
