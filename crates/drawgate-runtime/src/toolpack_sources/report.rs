//! What people hear about packs that can't be used.

use std::collections::{BTreeMap, BTreeSet};

use drawgate_core::audit::{EventDraft, EventKind};

use super::Toolpacks;
use super::plan::{capabilities_of, complaint, source_id};
use crate::config::Loaded;
use crate::toolpacks::Installed;

impl Toolpacks {
    /// Writes down that a pack is not what was installed, once for each way in which it is not.
    pub(super) async fn note_change(&self, pack: &Installed) {
        let reason = complaint(&pack.integrity).unwrap_or_default();
        if self.unusable.lock().get(&pack.id) == Some(&reason) {
            return;
        }
        let hash = pack.entry.as_ref().map(|entry| entry.content_hash.as_str());
        let draft = EventDraft::new(EventKind::ToolpackChanged, self.host.clock.now_ms())
            .text("toolpack", &pack.id)
            .maybe_text("contentHash", hash)
            .text("reason", reason);
        // It is out of use whether that can be written down or not.
        if let Err(error) = self.audit.append(draft).await {
            tracing::error!(%error, toolpack = pack.id, "a changed toolpack can't be written down");
        }
    }

    /// Replaces the reports about packs that can't be used.
    pub(super) async fn report(&self, loaded: &Loaded, now: BTreeMap<String, String>) {
        let before: BTreeSet<String> =
            std::mem::take(&mut *self.unusable.lock()).into_keys().collect();
        for id in before.iter().filter(|id| !now.contains_key(*id)) {
            if let Ok(id) = source_id(&self.supervisor, id) {
                self.supervisor.remove(&id).await;
            }
        }
        for (id, reason) in now {
            self.report_one(loaded, &id, reason);
        }
    }

    pub(super) fn report_one(&self, loaded: &Loaded, id: &str, reason: String) {
        tracing::error!(
            toolpack = id.escape_debug().to_string(),
            reason,
            "a toolpack can't be used"
        );
        // Under an id that a server has, the report would be taken for that server's.
        if let Ok(id) = source_id(&self.supervisor, id) {
            let capabilities = capabilities_of(loaded, id.as_str());
            self.supervisor.report_unusable(&id, capabilities, reason.clone());
        }
        self.unusable.lock().insert(id.to_owned(), reason);
    }
}
