//! Acts on toolpacks: installed, updated, enabled, disabled and removed by the operator. Each takes
//! effect at once.

mod view;

use std::sync::Arc;

use drawgate_core::acts::{ActError, Turn};
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::{Principal, SourceId};
use drawgate_sources::toolpack::{Finding, examine};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

pub use self::view::{ToolpackList, ToolpackToolView, ToolpackView, tools_of};
use super::{OperationError, Operations};
use crate::lock::Consent;
use crate::toolpacks::{Folder, Installed, Integrity, LockEntry, PackId, Staged, ToolpackError};

/// A pack that a command has staged and a person has seen.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// Its name among those that are staged.
    pub staged: String,
    /// SHA-256 of all of it.
    pub content_hash: String,
    /// Whether it is on afterwards.
    pub afterwards: StateAfterUpdate,
}

/// What becomes of a pack's state when another version takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateAfterUpdate {
    /// It is off until an operator enables it.
    Off,
    /// It is on if it was.
    Same,
}

impl Operations {
    /// All packs, and where they are.
    pub async fn toolpacks(&self) -> Result<ToolpackList, OperationError> {
        let packs = self.toolpacks.installed().await?;
        let toolpacks = packs.iter().map(|pack| self.view(pack, None)).collect();
        Ok(ToolpackList { folder: self.toolpacks.path()?, toolpacks })
    }

    /// One pack.
    pub async fn toolpack(&self, id: &str) -> Result<ToolpackView, OperationError> {
        Ok(self.view(&self.installed(id).await?, None))
    }

    async fn installed(&self, id: &str) -> Result<Installed, OperationError> {
        let id: PackId = id.parse()?;
        self.on_folder(move |folder| folder.get(&id)).await
    }

    /// Moves in what a command has staged, if it is what a person was shown.
    pub async fn install_toolpack(
        self: &Arc<Self>,
        actor: &Principal,
        commit: Commit,
    ) -> Result<ToolpackView, OperationError> {
        let (operations, actor) = (Arc::clone(self), actor.clone());
        finish(async move { operations.install(&actor, commit).await }).await
    }

    /// Opens a pack's tools to callers.
    pub async fn enable_toolpack(
        self: &Arc<Self>,
        actor: &Principal,
        id: &str,
    ) -> Result<ToolpackView, OperationError> {
        let (operations, actor, id) = (Arc::clone(self), actor.clone(), id.parse()?);
        finish(async move { operations.enable(&actor, id).await }).await
    }

    /// Closes a pack's tools to callers.
    pub async fn disable_toolpack(
        self: &Arc<Self>,
        actor: &Principal,
        id: &str,
    ) -> Result<ToolpackView, OperationError> {
        let (operations, actor, id) = (Arc::clone(self), actor.clone(), id.parse()?);
        finish(async move { operations.disable(&actor, id).await }).await
    }

    /// Removes a pack.
    pub async fn remove_toolpack(
        self: &Arc<Self>,
        actor: &Principal,
        id: &str,
    ) -> Result<(), OperationError> {
        let (operations, actor, id) = (Arc::clone(self), actor.clone(), id.parse()?);
        finish(async move { operations.remove(&actor, id).await }).await
    }

    async fn install(
        &self,
        actor: &Principal,
        commit: Commit,
    ) -> Result<ToolpackView, OperationError> {
        let Commit { staged, content_hash, afterwards } = commit;
        let turn = self.acts.turn().await;
        let mut staged = self.on_folder(move |folder| folder.staged(&staged)).await?;
        if staged.entry.content_hash != content_hash {
            return Err(OperationError::ToolpackChanged);
        }
        let before = self.toolpacks.installed().await?;
        let id = staged.id.clone();
        let old = before.iter().find(|pack| pack.id == id.as_str());
        let stays_on =
            afterwards == StateAfterUpdate::Same && old.is_some_and(Installed::is_enabled);
        if stays_on {
            self.refuse_conflicts(id.as_str(), &staged.entry, &before)?;
            staged.entry.enable(Some(self.consent(actor, &id, &staged.entry)?));
        }
        let draft = self.draft_of_install(actor, &staged);
        self.act(turn, draft, move |folder| folder.commit(staged).map(drop)).await?;
        self.after(id).await
    }

    async fn enable(&self, actor: &Principal, id: PackId) -> Result<ToolpackView, OperationError> {
        let turn = self.acts.turn().await;
        let all = self.toolpacks.installed().await?;
        let found = all.iter().find(|pack| pack.id == id.as_str());
        let (draft, consent) = if let Some(entry) = found.and_then(locked) {
            self.refuse_conflicts(id.as_str(), entry, &all)?;
            let draft = self.draft_of(actor, EventKind::ToolpackEnabled, &id, entry);
            let draft = draft.texts("permissions", texts(&entry.permissions.lines()));
            (draft, Some(self.consent(actor, &id, entry)?))
        } else {
            let draft = self.draft(actor, EventKind::ToolpackEnabled).text("toolpack", id.as_str());
            (draft, None)
        };
        let own = id.clone();
        // What can't be enabled is explained there.
        let enable = move |folder: &Folder| folder.enable(&own, consent).map(drop);
        self.act(turn, draft, enable).await?;
        self.after(id).await
    }

    async fn disable(&self, actor: &Principal, id: PackId) -> Result<ToolpackView, OperationError> {
        let turn = self.acts.turn().await;
        let pack = self.installed(id.as_str()).await?;
        let draft = self.draft_of_end(actor, EventKind::ToolpackDisabled, &pack);
        let own = id.clone();
        self.act(turn, draft, move |folder| folder.disable(&own).map(drop)).await?;
        self.after(id).await
    }

    async fn remove(&self, actor: &Principal, id: PackId) -> Result<(), OperationError> {
        let turn = self.acts.turn().await;
        let pack = self.installed(id.as_str()).await?;
        let draft = self.draft_of_end(actor, EventKind::ToolpackRemoved, &pack);
        self.act(turn, draft, move |folder| folder.remove(&id)).await
    }

    /// Looks whether a pack works, enabled or not. One that is not what was installed is not tried.
    pub async fn examine_toolpack(&self, id: &str) -> Result<Vec<Finding>, OperationError> {
        let pack = self.installed(id).await?;
        let mut all = if pack.integrity == Integrity::Locked {
            examine(self.toolpacks.settings(&pack)?, self.toolpacks.host()).await
        } else {
            let mut all = self.verify_toolpacks().await?;
            all.retain(|finding| finding.subject == pack.id);
            all
        };
        let redactor = self.gateway.redactor();
        for Finding { subject, message, advice, ok: _ } in &mut all {
            for text in [subject, message].into_iter().chain(advice) {
                *text = redactor.mask_known(text).into_owned();
            }
        }
        Ok(all)
    }

    /// Compares what is installed with what the lock file says.
    pub async fn verify_toolpacks(&self) -> Result<Vec<Finding>, OperationError> {
        self.on_folder(Folder::verify).await
    }

    /// Does what an act asks for, and puts it into force.
    async fn act(
        &self,
        turn: Turn,
        outcome: EventDraft,
        work: impl FnOnce(&Folder) -> Result<(), ToolpackError> + Send + 'static,
    ) -> Result<(), OperationError> {
        let (work, toolpacks) = (self.on_folder(work), Arc::clone(&self.toolpacks));
        let work = Box::pin(async move {
            let done = work.await;
            toolpacks.refresh().await;
            done.map_err(|error| format!("{error:#}"))
        });
        Ok(turn.act_on_files(vec![outcome], self.files(), work).await?)
    }

    fn consent(
        &self,
        actor: &Principal,
        id: &PackId,
        entry: &LockEntry,
    ) -> Result<Consent, OperationError> {
        Ok(self.toolpacks.consent(actor, id, entry).map_err(anyhow::Error::from)?)
    }

    /// Waits for what comes of it, without keeping other acts waiting.
    async fn after(&self, id: PackId) -> Result<ToolpackView, OperationError> {
        let status = match SourceId::new(id.as_str()) {
            Ok(id) => self.toolpacks.settled(&id).await,
            Err(_) => None,
        };
        Ok(self.view(&self.installed(id.as_str()).await?, status))
    }

    fn refuse_conflicts(
        &self,
        id: &str,
        entry: &LockEntry,
        all: &[Installed],
    ) -> Result<(), OperationError> {
        let names: Vec<&str> = entry.definitions.keys().map(String::as_str).collect();
        let conflicts = self.toolpacks.conflicts(id, &names, all);
        if conflicts.is_empty() {
            return Ok(());
        }
        Err(OperationError::ToolpackConflict { id: id.to_owned(), conflicts })
    }

    fn draft_of_install(&self, actor: &Principal, staged: &Staged) -> EventDraft {
        let kind = match &staged.replaces {
            Some(_) => EventKind::ToolpackUpdated,
            None => EventKind::ToolpackInstalled,
        };
        let before = staged.replaces.as_ref().map(|entry| entry.content_hash.as_str());
        self.draft_of(actor, kind, &staged.id, &staged.entry)
            .maybe_text("contentHashBefore", before)
            .texts("tools", staged.entry.definitions.keys().map(String::as_str))
            .texts("permissions", texts(&staged.entry.permissions.lines()))
    }

    fn draft_of(
        &self,
        actor: &Principal,
        kind: EventKind,
        id: &PackId,
        entry: &LockEntry,
    ) -> EventDraft {
        self.draft(actor, kind)
            .text("toolpack", id.as_str())
            .text("version", &entry.version)
            .text("origin", &entry.source)
            .maybe_text("commit", entry.commit.as_deref())
            .text("contentHash", &entry.content_hash)
    }

    fn draft_of_end(&self, actor: &Principal, kind: EventKind, pack: &Installed) -> EventDraft {
        let hash = pack.entry.as_ref().map(|entry| entry.content_hash.as_str());
        self.draft(actor, kind).text("toolpack", &pack.id).maybe_text("contentHash", hash)
    }

    /// File work, away from the threads that serve callers.
    fn on_folder<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, ToolpackError> + Send + 'static,
    ) -> impl Future<Output = Result<T, OperationError>> + Send + 'static {
        let path = self.toolpacks.path();
        async move {
            let path = path?;
            let done = spawn_blocking(move || work(&Folder::open(&path)?)).await;
            Ok(done.map_err(anyhow::Error::from)??)
        }
    }
}

/// Runs an act to its end, also if the caller goes away meanwhile.
async fn finish<T: Send + 'static>(
    act: impl Future<Output = Result<T, OperationError>> + Send + 'static,
) -> Result<T, OperationError> {
    tokio::spawn(act).await.unwrap_or(Err(ActError::Stopped.into()))
}

/// What is in the lock file about a pack that may be enabled.
fn locked(pack: &Installed) -> Option<&LockEntry> {
    let usable = pack.integrity == Integrity::Locked && pack.manifest.is_ok();
    pack.entry.as_ref().filter(|_| usable)
}

fn texts(lines: &[String]) -> impl Iterator<Item = &str> {
    lines.iter().map(String::as_str)
}
