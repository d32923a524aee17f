//! Acts on toolpacks: installed, updated, enabled, disabled and removed by the operator. Each is
//! written down before it takes effect, and takes effect at once.

use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::SourceId;
use drawgate_core::registry::SourceStatus;
use drawgate_sources::toolpack::{Finding, examine};
use tokio::task::spawn_blocking;

use super::Operations;
use crate::toolpacks::{
    Enabled, Folder, Installed, LockEntry, PackId, Staged, ToolpackError, Trust,
};

/// A pack after an act, and how its source does.
pub struct Acted {
    /// The pack.
    pub pack: Installed,
    /// Its source, if it has one now.
    pub status: Option<SourceStatus>,
}

/// What becomes of a pack's state when another version takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Afterwards {
    /// It is off, until somebody enables it.
    Off,
    /// It is on if it was.
    Same,
}

impl Operations {
    /// All packs.
    pub async fn toolpacks(&self) -> anyhow::Result<Vec<Installed>> {
        self.toolpacks.installed().await
    }

    /// One pack.
    pub async fn toolpack(&self, id: &str) -> anyhow::Result<Installed> {
        let id: PackId = id.parse()?;
        self.on_folder(move |folder| folder.get(&id)).await
    }

    /// Moves in what a command has staged, if it is what a person was shown.
    pub async fn install_toolpack(
        self: Arc<Self>,
        staged: String,
        content_hash: String,
        afterwards: Afterwards,
    ) -> anyhow::Result<Acted> {
        let acting = self.acting.lock().await;
        let mut staged = self.on_folder(move |folder| folder.staged(&staged)).await?;
        ensure!(
            staged.entry.content_hash == content_hash,
            "the pack has changed since it was shown; try once more"
        );
        let before = self.toolpacks().await?;
        let id = staged.id.clone();
        let old = before.iter().find(|pack| pack.id == id.as_str());
        if afterwards == Afterwards::Same && old.is_some_and(Installed::is_enabled) {
            self.refuse_conflicts(id.as_str(), &staged.entry, &before)?;
            staged.set_enabled(Enabled::On)?;
        }
        let draft = self.draft_of_install(&staged);
        let work = self.on_folder(move |folder| folder.commit(staged));
        let pack = self.act(draft, id.as_str(), work).await?;
        drop(acting);
        Ok(self.after(pack).await)
    }

    /// Opens a pack's tools to callers.
    pub async fn enable_toolpack(self: Arc<Self>, id: String) -> anyhow::Result<Acted> {
        let acting = self.acting.lock().await;
        let id: PackId = id.parse()?;
        let all = self.toolpacks().await?;
        let own = id.clone();
        // What can't be enabled is explained there.
        let work = self.on_folder(move |folder| folder.set_enabled(&own, Enabled::On));
        let pack = match all.iter().find(|pack| pack.id == id.as_str()).and_then(locked) {
            Some(entry) => {
                self.refuse_conflicts(id.as_str(), entry, &all)?;
                let draft = self.draft_of(EventKind::ToolpackEnabled, &id, entry);
                let draft = draft.texts("permissions", texts(&entry.permissions.lines()));
                self.act(draft, id.as_str(), work).await?
            }
            None => self.attempt(EventKind::ToolpackEnabled, id.as_str(), work).await?,
        };
        drop(acting);
        Ok(self.after(pack).await)
    }

    /// Closes a pack's tools to callers.
    pub async fn disable_toolpack(self: Arc<Self>, id: String) -> anyhow::Result<Acted> {
        let acting = self.acting.lock().await;
        let id: PackId = id.parse()?;
        let pack = self.toolpack(id.as_str()).await?;
        let draft = self.draft_of_end(EventKind::ToolpackDisabled, &pack);
        let work = self.on_folder(move |folder| folder.set_enabled(&id, Enabled::Off));
        let pack = self.act(draft, &pack.id, work).await?;
        drop(acting);
        Ok(self.after(pack).await)
    }

    /// Removes a pack.
    pub async fn remove_toolpack(self: Arc<Self>, id: String) -> anyhow::Result<()> {
        let acting = self.acting.lock().await;
        let id: PackId = id.parse()?;
        let pack = self.toolpack(id.as_str()).await?;
        let draft = self.draft_of_end(EventKind::ToolpackRemoved, &pack);
        let work = self.on_folder(move |folder| folder.remove(&id));
        self.act(draft, &pack.id, work).await?;
        drop(acting);
        self.toolpacks.refresh().await;
        Ok(())
    }

    /// Looks whether a pack works, enabled or not. One that is not what was installed is not tried.
    pub async fn examine_toolpack(&self, id: &str) -> anyhow::Result<Vec<Finding>> {
        let pack = self.toolpack(id).await?;
        if pack.trust != Trust::Locked {
            let all = self.verify_toolpacks().await?;
            return Ok(all.into_iter().filter(|finding| finding.subject == pack.id).collect());
        }
        let settings = self.toolpacks.settings(&pack)?;
        Ok(examine(settings, self.toolpacks.host()).await)
    }

    /// Compares what is installed with what the lock file says.
    pub async fn verify_toolpacks(&self) -> anyhow::Result<Vec<Finding>> {
        self.on_folder(Folder::verify).await
    }

    /// Writes an act down, and then does it.
    async fn act<T>(
        &self,
        draft: EventDraft,
        id: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let kind = draft.kind();
        self.note(draft).await?;
        self.attempt(kind, id, work).await
    }

    /// Does what an act asks for. That it failed is written down: without, the log would say that it
    /// had been done.
    async fn attempt<T>(
        &self,
        act: EventKind,
        id: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let done = work.await;
        if let Err(error) = &done {
            let redactor = self.gateway.parts().redactor.load_full();
            let draft = self
                .draft(EventKind::ToolpackFailed)
                .text("toolpack", id)
                .text("act", act.as_str())
                .text("reason", redactor.redact_text(&format!("{error:#}")));
            // Why the act itself failed says more than why that can't be written down.
            if let Err(error) = self.note(draft).await {
                tracing::error!(%error, toolpack = id, "a failed act can't be written down");
            }
        }
        done
    }

    /// Puts it into force, and waits for what comes of it: without keeping other acts waiting.
    async fn after(&self, pack: Installed) -> Acted {
        self.toolpacks.refresh().await;
        let status = match SourceId::new(&pack.id) {
            Ok(id) => self.toolpacks.settled(&id).await,
            Err(_) => None,
        };
        Acted { pack, status }
    }

    fn refuse_conflicts(
        &self,
        id: &str,
        entry: &LockEntry,
        all: &[Installed],
    ) -> anyhow::Result<()> {
        let names: Vec<&str> = entry.definitions.keys().map(String::as_str).collect();
        let conflicts = self.toolpacks.conflicts(id, &names, all);
        if conflicts.is_empty() {
            return Ok(());
        }
        bail!("`{id}` can't be enabled: {}; disable or rename one of the two", conflicts.join("; "))
    }

    fn draft_of_install(&self, staged: &Staged) -> EventDraft {
        let kind = match &staged.replaces {
            Some(_) => EventKind::ToolpackUpdated,
            None => EventKind::ToolpackInstalled,
        };
        let before = staged.replaces.as_ref().map(|entry| entry.content_hash.as_str());
        self.draft_of(kind, &staged.id, &staged.entry)
            .maybe_text("contentHashBefore", before)
            .texts("tools", staged.entry.definitions.keys().map(String::as_str))
            .texts("permissions", texts(&staged.entry.permissions.lines()))
    }

    fn draft_of(&self, kind: EventKind, id: &PackId, entry: &LockEntry) -> EventDraft {
        self.draft(kind)
            .text("toolpack", id.as_str())
            .text("version", &entry.version)
            .text("origin", &entry.source)
            .maybe_text("commit", entry.commit.as_deref())
            .text("contentHash", &entry.content_hash)
    }

    fn draft_of_end(&self, kind: EventKind, pack: &Installed) -> EventDraft {
        let hash = pack.entry.as_ref().map(|entry| entry.content_hash.as_str());
        self.draft(kind).text("toolpack", &pack.id).maybe_text("contentHash", hash)
    }

    /// File work, away from the threads that serve callers.
    async fn on_folder<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, ToolpackError> + Send + 'static,
    ) -> anyhow::Result<T> {
        let path = self.toolpacks.path()?;
        let done = spawn_blocking(move || work(&Folder::open(&path)?)).await?;
        // Its words hold its causes already.
        done.map_err(|error| anyhow!("{error}"))
    }
}

/// What is in the lock file about a pack that may be enabled.
fn locked(pack: &Installed) -> Option<&LockEntry> {
    let usable = pack.trust == Trust::Locked && pack.manifest.is_ok();
    pack.entry.as_ref().filter(|_| usable)
}

fn texts(lines: &[String]) -> impl Iterator<Item = &str> {
    lines.iter().map(String::as_str)
}
