//! Installed toolpacks as sources: those that are enabled, and that nobody has changed since they
//! were installed. What stays the same is not restarted.

mod consents;
mod find;
mod plan;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{bail, ensure};
use drawgate_core::model::SourceId;
use drawgate_core::registry::{Holder, Origin, SourceStatus, SourceSupervisor, skeleton};
use drawgate_core::store::{AuditLog, Documents};
use drawgate_host::Host;
use drawgate_host::seal::SealingKey;
use drawgate_sources::toolpack::{ToolpackConfig, ToolpackSource};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::config::Loaded;
use crate::start::Start;
use crate::toolpacks::{Installed, Integrity};
pub use find::DISABLED_TOOLPACK;
use find::{InstalledToolpacks, installed, path};
pub use plan::{NOT_ENABLED, complaint};
use plan::{ToolpackPlan, settings, source_id};

/// How long an act waits for the tools of a pack to be there.
const START_TIME: Duration = Duration::from_secs(20);

/// What they need of a gateway.
pub(crate) struct Parts {
    pub(crate) host: Arc<Host>,
    pub(crate) supervisor: Arc<SourceSupervisor>,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) documents: Arc<dyn Documents>,
    pub(crate) key: SealingKey,
}

impl Parts {
    pub(crate) fn of(
        host: &Arc<Host>,
        supervisor: &Arc<SourceSupervisor>,
        audit: &Arc<dyn AuditLog>,
        documents: &Arc<dyn Documents>,
        key: &SealingKey,
    ) -> Self {
        let (host, supervisor) = (Arc::clone(host), Arc::clone(supervisor));
        let (documents, key) = (Arc::clone(documents), key.clone());
        Self { host, supervisor, audit: audit.clone(), documents, key }
    }
}

/// The toolpacks of a gateway.
pub struct Toolpacks {
    host: Arc<Host>,
    supervisor: Arc<SourceSupervisor>,
    audit: Arc<dyn AuditLog>,
    /// Where the version before kept which packs were enabled.
    documents: Arc<dyn Documents>,
    /// With which consents are given on this data folder.
    key: SealingKey,
    /// For packs, which tell when their files change.
    me: Weak<Self>,
    data: PathBuf,
    start: Start,
    in_force: Mutex<Loaded>,
    /// The packs that run. Held while they change.
    running: tokio::sync::Mutex<BTreeMap<SourceId, Running>>,
    /// Packs that can't be used, and why.
    unusable: Mutex<BTreeMap<String, String>>,
}

impl Toolpacks {
    pub(crate) fn new(parts: Parts, data: &Path, start: Start, loaded: &Loaded) -> Arc<Self> {
        let Parts { host, supervisor, audit, documents, key } = parts;
        Arc::new_cyclic(|me| Self {
            host,
            supervisor,
            audit,
            documents,
            key,
            me: Weak::clone(me),
            data: data.to_owned(),
            start,
            in_force: Mutex::new(loaded.clone()),
            running: tokio::sync::Mutex::default(),
            unusable: Mutex::default(),
        })
    }

    /// The machine that they run on.
    #[must_use]
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Where they are installed, by the configuration in force.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        path(&self.in_force.lock())
    }

    /// All that are installed.
    pub async fn installed(&self) -> anyhow::Result<Vec<Installed>> {
        installed(self.path()?).await
    }

    /// Takes over a configuration. Packs whose ids it gives to servers end; the others wait for
    /// [`refresh`](Self::refresh).
    pub(crate) async fn release_ids(&self, loaded: &Loaded) {
        self.in_force.lock().clone_from(loaded);
        self.take_over().await;
        let mut running = self.running.lock().await;
        let is_taken = |id: &&SourceId| self.supervisor.taken(Holder::Toolpack, id).is_some();
        let taken = running.keys().filter(is_taken).cloned();
        for id in taken.collect::<Vec<_>>() {
            self.supervisor.remove(&id).await;
            running.remove(&id);
        }
    }

    /// Brings the running packs in line with what is installed and configured. A pack that can't be
    /// used is reported and left out.
    pub async fn refresh(&self) {
        if self.start == Start::Nothing {
            return;
        }
        let mut running = self.running.lock().await;
        let loaded = self.in_force.lock().clone();
        let InstalledToolpacks { plans, disabled, unusable, changed } = self.find(&loaded).await;
        let unusable_ids = unusable.keys().filter_map(|id| source_id(&self.supervisor, id).ok());
        let ids = plans.keys().cloned().chain(unusable_ids);
        self.supervisor.reserve(Holder::Toolpack, ids.collect()).await;
        for pack in &changed {
            self.note_change(pack).await;
        }
        let gone = running.iter().filter(|(id, pack)| !pack.serves(plans.get(*id)));
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.supervisor.remove(&id).await;
            running.remove(&id);
        }
        self.supervisor.registry().set_aside(Holder::Toolpack, disabled);
        self.report(&loaded, unusable).await;
        for (id, new) in plans {
            if let Some(pack) = running.get_mut(&id) {
                if pack.plan.terms != new.terms {
                    self.supervisor.set_terms(&id, new.terms.clone()).await;
                    pack.plan = new;
                }
                continue;
            }
            match self.start_pack(&loaded, &id, &new).await {
                Ok(source) => drop(running.insert(id, Running { source, plan: new })),
                Err(error) => self.report_one(&loaded, id.as_str(), format!("{error:#}")),
            }
        }
    }

    /// How a pack's source does, once it has been tried.
    pub async fn settled(&self, id: &SourceId) -> Option<SourceStatus> {
        self.supervisor.settle_one(id, START_TIME).await;
        self.status(id)
    }

    /// How a pack's source does.
    #[must_use]
    pub fn status(&self, id: &SourceId) -> Option<SourceStatus> {
        // A server or a plugin of the same id is no toolpack.
        let ours = self.supervisor.taken(Holder::Toolpack, id).is_none();
        self.supervisor.status().into_iter().find(|status| ours && status.id == *id)
    }

    /// Why a pack can't be used, if it was tried.
    #[must_use]
    pub fn complaint(&self, id: &str) -> Option<String> {
        self.unusable.lock().get(id).cloned()
    }

    /// Why a pack with these tools can't be enabled beside what there is: somebody else has its id,
    /// or the name of one of its tools.
    #[must_use]
    pub fn conflicts(&self, id: &str, tools: &[&str], all: &[Installed]) -> Vec<String> {
        let taken = source_id(&self.supervisor, id).err();
        let pack = self.supervisor.is_admitted(id).then(|| {
            "a connected pack has its id, and must be gone for good first, with its key".to_owned()
        });
        let mut holders: BTreeMap<String, String> = BTreeMap::new();
        for other in all.iter().filter(|other| other.id != id && other.is_enabled()) {
            let names = other.entry.iter().flat_map(|entry| entry.definitions.keys());
            holders
                .extend(names.map(|name| (skeleton(name), format!("the toolpack `{}`", other.id))));
        }
        for entry in self.supervisor.registry().snapshot().entries() {
            let source = entry.id.source();
            if source.as_str() != id {
                holders
                    .entry(skeleton(entry.wire.as_str()))
                    .or_insert_with(|| format!("`{source}`"));
            }
        }
        let clash = |name: &&str| {
            let holder = holders.get(&skeleton(name))?;
            Some(format!(
                "its tool `{name}` has a name that {holder} holds, or one that looks like it"
            ))
        };
        taken.into_iter().chain(pack).chain(tools.iter().filter_map(clash)).collect()
    }

    /// What a pack's source is made from, enabled or not.
    pub fn settings(&self, pack: &Installed) -> anyhow::Result<ToolpackConfig> {
        settings(&self.in_force.lock().clone(), &self.data, pack)
    }

    /// Starts a pack. Its files are compared with the lock once more after its source has noted them:
    /// from there on the source itself watches over them.
    async fn start_pack(
        &self,
        loaded: &Loaded,
        id: &SourceId,
        plan: &ToolpackPlan,
    ) -> anyhow::Result<Arc<ToolpackSource>> {
        let (own, settings, host) = (id.clone(), plan.settings.clone(), Arc::clone(&self.host));
        // It reads every file of the pack.
        let source = spawn_blocking(move || ToolpackSource::new(own, &settings, &host)).await??;
        let packs = installed(path(loaded)?).await?;
        let pack = packs.iter().find(|pack| pack.id == id.as_str());
        let is_same = pack.is_some_and(|pack| {
            let hash = pack.entry.as_ref().map(|entry| entry.content_hash.as_str());
            pack.integrity == Integrity::Locked && hash == Some(plan.terms.identity.as_str())
        });
        match pack.map(|pack| (pack, &pack.integrity)) {
            Some((pack, Integrity::Changed(_))) => self.note_change(pack).await,
            Some((_, integrity @ Integrity::Unread(_))) => {
                bail!(complaint(integrity).unwrap_or_default())
            }
            Some((_, Integrity::Locked | Integrity::Foreign | Integrity::Missing)) | None => {}
        }
        ensure!(is_same, "it was changed while it was loaded; install it again");
        self.watch(&source);
        let source = Arc::new(source);
        let kept = Arc::clone(&source);
        self.supervisor.add(kept, plan.terms.clone(), Origin::Discovered)?;
        Ok(source)
    }

    /// Takes a pack out of use when it finds that its files have changed.
    fn watch(&self, source: &ToolpackSource) {
        let me = Weak::clone(&self.me);
        source.when_changed(move |how| {
            tracing::error!(how, "the files of a toolpack were changed");
            let me = Weak::clone(&me);
            tokio::spawn(async move {
                if let Some(me) = me.upgrade() {
                    me.refresh().await;
                }
            });
        });
    }
}

/// A pack that was started.
struct Running {
    source: Arc<ToolpackSource>,
    /// What it was started with.
    plan: ToolpackPlan,
}

impl Running {
    /// Whether it is what is wanted, if perhaps under other terms. One that found its files changed starts nothing any more, even
    /// when they are right again.
    fn serves(&self, plan: Option<&ToolpackPlan>) -> bool {
        plan.is_some_and(|plan| plan.starts_same_as(&self.plan))
            && !self.source.is_changed()
            && self.source.may_write()
    }
}

#[cfg(test)]
#[path = "toolpack_sources_tests.rs"]
mod tests;
