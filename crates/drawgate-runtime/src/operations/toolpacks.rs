//! Acts on toolpacks: installed, updated, enabled, disabled and removed by the operator. Each takes
//! effect at once.

use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};
use drawgate_core::acts::Turn;
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

/// What an act says about the operator's consent that a pack runs.
enum Consent {
    /// Nothing.
    Unchanged,
    /// It may run with this content; noted before the folder changes.
    Given { id: String, content_hash: String },
    /// It may not run any more; forgotten once the folder has changed.
    Withdrawn(String),
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
        let turn = self.acts.turn().await;
        let mut staged = self.on_folder(move |folder| folder.staged(&staged)).await?;
        ensure!(
            staged.entry.content_hash == content_hash,
            "the pack has changed since it was shown; try once more"
        );
        let before = self.toolpacks().await?;
        let id = staged.id.clone();
        let old = before.iter().find(|pack| pack.id == id.as_str());
        let stays_on = afterwards == Afterwards::Same && old.is_some_and(Installed::is_enabled);
        if stays_on {
            self.refuse_conflicts(id.as_str(), &staged.entry, &before)?;
            staged.set_enabled(Enabled::On)?;
        }
        let draft = self.draft_of_install(&staged);
        let consent = if stays_on {
            Consent::Given { id: id.to_string(), content_hash }
        } else {
            Consent::Unchanged
        };
        self.act(turn, draft, consent, move |folder| folder.commit(staged).map(drop)).await?;
        self.after(id).await
    }

    /// Opens a pack's tools to callers.
    pub async fn enable_toolpack(self: Arc<Self>, id: String) -> anyhow::Result<Acted> {
        let turn = self.acts.turn().await;
        let id: PackId = id.parse()?;
        let all = self.toolpacks().await?;
        let found = all.iter().find(|pack| pack.id == id.as_str());
        let (draft, consent) = if let Some(entry) = found.and_then(locked) {
            self.refuse_conflicts(id.as_str(), entry, &all)?;
            let draft = self.draft_of(EventKind::ToolpackEnabled, &id, entry);
            let draft = draft.texts("permissions", texts(&entry.permissions.lines()));
            let content_hash = entry.content_hash.clone();
            (draft, Consent::Given { id: id.to_string(), content_hash })
        } else {
            let draft = self.draft(EventKind::ToolpackEnabled).text("toolpack", id.as_str());
            (draft, Consent::Unchanged)
        };
        let own = id.clone();
        // What can't be enabled is explained there.
        let enable = move |folder: &Folder| folder.set_enabled(&own, Enabled::On).map(drop);
        self.act(turn, draft, consent, enable).await?;
        self.after(id).await
    }

    /// Closes a pack's tools to callers.
    pub async fn disable_toolpack(self: Arc<Self>, id: String) -> anyhow::Result<Acted> {
        let turn = self.acts.turn().await;
        let id: PackId = id.parse()?;
        let pack = self.toolpack(id.as_str()).await?;
        let draft = self.draft_of_end(EventKind::ToolpackDisabled, &pack);
        let own = id.clone();
        let disable = move |folder: &Folder| folder.set_enabled(&own, Enabled::Off).map(drop);
        self.act(turn, draft, Consent::Withdrawn(id.to_string()), disable).await?;
        self.after(id).await
    }

    /// Removes a pack.
    pub async fn remove_toolpack(self: Arc<Self>, id: String) -> anyhow::Result<()> {
        let turn = self.acts.turn().await;
        let id: PackId = id.parse()?;
        let pack = self.toolpack(id.as_str()).await?;
        let draft = self.draft_of_end(EventKind::ToolpackRemoved, &pack);
        let consent = Consent::Withdrawn(id.to_string());
        self.act(turn, draft, consent, move |folder| folder.remove(&id)).await
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

    /// Does what an act asks for, and puts it into force.
    async fn act(
        &self,
        turn: Turn,
        outcome: EventDraft,
        consent: Consent,
        work: impl FnOnce(&Folder) -> Result<(), ToolpackError> + Send + 'static,
    ) -> anyhow::Result<()> {
        let (work, toolpacks) = (self.on_folder(work), Arc::clone(&self.toolpacks));
        let work = Box::pin(async move {
            if let Consent::Given { id, content_hash } = &consent {
                let noted = toolpacks.approve(id, content_hash).await;
                noted.map_err(|error| error.to_string())?;
            }
            let done = work.await;
            if let (Consent::Withdrawn(id), Ok(())) = (&consent, &done) {
                toolpacks.withdraw(id).await;
            }
            toolpacks.refresh().await;
            done.map_err(|error| format!("{error:#}"))
        });
        Ok(turn.act_on_files(vec![outcome], self.files(), work).await?)
    }

    /// Waits for what comes of it, without keeping other acts waiting.
    async fn after(&self, id: PackId) -> anyhow::Result<Acted> {
        let status = match SourceId::new(id.as_str()) {
            Ok(id) => self.toolpacks.settled(&id).await,
            Err(_) => None,
        };
        Ok(Acted { pack: self.toolpack(id.as_str()).await?, status })
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
    fn on_folder<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, ToolpackError> + Send + 'static,
    ) -> impl Future<Output = anyhow::Result<T>> + Send + 'static {
        let path = self.toolpacks.path();
        async move {
            let path = path?;
            let done = spawn_blocking(move || work(&Folder::open(&path)?)).await?;
            // Its words hold its causes already.
            done.map_err(|error| anyhow!("{error}"))
        }
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
