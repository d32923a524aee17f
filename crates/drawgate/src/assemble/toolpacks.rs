//! Installed toolpacks as sources: those that are enabled, and that nobody has changed since they
//! were installed. What stays the same is not restarted.

mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use drawgate_core::model::SourceId;
use drawgate_core::registry::{Keeper, Origin, SourceStatus};
use drawgate_host::Host;
use drawgate_sources::toolpack::ToolpackConfig;
use parking_lot::Mutex;

use super::Start;
use crate::config::Loaded;
use crate::toolpacks::{Folder, Installed};
pub use wanted::complaint;
use wanted::{BUILTIN, Wanted, settings, source_id, wanted};

/// How long an act waits for the tools of a pack to be there.
const START_TIME: Duration = Duration::from_secs(20);

/// The toolpacks of a gateway.
pub struct Toolpacks {
    host: Arc<Host>,
    keeper: Arc<Keeper>,
    data: PathBuf,
    start: Start,
    in_force: Mutex<Loaded>,
    /// What the running packs were started with. Held while they change.
    running: tokio::sync::Mutex<BTreeMap<SourceId, Wanted>>,
    /// Packs that can't be used, and why.
    unusable: Mutex<BTreeMap<String, String>>,
}

impl Toolpacks {
    pub(super) fn new(
        host: &Arc<Host>,
        keeper: &Arc<Keeper>,
        data: &Path,
        start: Start,
        loaded: &Loaded,
    ) -> Self {
        Self {
            host: Arc::clone(host),
            keeper: Arc::clone(keeper),
            data: data.to_owned(),
            start,
            in_force: Mutex::new(loaded.clone()),
            running: tokio::sync::Mutex::default(),
            unusable: Mutex::default(),
        }
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
    pub(super) async fn make_way(&self, loaded: &Loaded) {
        self.in_force.lock().clone_from(loaded);
        let mut running = self.running.lock().await;
        let taken = running.keys().filter(|id| loaded.config.servers.contains_key(*id)).cloned();
        for id in taken.collect::<Vec<_>>() {
            self.keeper.remove(&id).await;
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
        let (wanted, unusable) = self.wanted(&loaded).await;
        let gone = running.iter().filter(|(id, was)| wanted.get(*id) != Some(was));
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.keeper.remove(&id).await;
            running.remove(&id);
        }
        self.report(&loaded, unusable).await;
        for (id, new) in wanted {
            if running.contains_key(&id) {
                continue;
            }
            match self.start_pack(&id, &new) {
                Ok(()) => drop(running.insert(id, new)),
                Err(error) => self.report_one(&loaded, id.as_str(), format!("{error:#}")),
            }
        }
    }

    /// How a pack's source does, once it has been tried.
    pub async fn settled(&self, id: &SourceId) -> Option<SourceStatus> {
        self.keeper.settle_one(id, START_TIME).await;
        self.status(id)
    }

    /// How a pack's source does.
    #[must_use]
    pub fn status(&self, id: &SourceId) -> Option<SourceStatus> {
        // A server of the same id is no pack.
        let ours = !self.in_force.lock().config.servers.contains_key(id) && id.as_str() != BUILTIN;
        self.keeper.status().into_iter().find(|status| ours && status.id == *id)
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
        let taken = source_id(&self.in_force.lock(), id).err();
        let mut holders: BTreeMap<String, String> = BTreeMap::new();
        for other in all.iter().filter(|other| other.id != id && other.is_enabled()) {
            let names = other.entry.iter().flat_map(|entry| entry.definitions.keys());
            holders
                .extend(names.map(|name| (name.clone(), format!("the toolpack `{}`", other.id))));
        }
        for entry in self.keeper.registry().snapshot().entries() {
            let source = entry.id.source();
            if source.as_str() != id {
                holders.entry(entry.wire.to_string()).or_insert_with(|| format!("`{source}`"));
            }
        }
        let clash = |name: &&str| {
            let holder = holders.get(*name)?;
            Some(format!("its tool `{name}` has a name that {holder} holds"))
        };
        taken.into_iter().chain(tools.iter().filter_map(clash)).collect()
    }

    /// What a pack's source is made from, enabled or not.
    pub fn settings(&self, pack: &Installed) -> anyhow::Result<ToolpackConfig> {
        settings(&self.in_force.lock().clone(), &self.data, pack)
    }

    async fn wanted(
        &self,
        loaded: &Loaded,
    ) -> (BTreeMap<SourceId, Wanted>, BTreeMap<String, String>) {
        let mut usable = BTreeMap::new();
        let mut unusable = BTreeMap::new();
        let packs = match path(loaded) {
            Ok(path) => installed(path).await,
            Err(error) => Err(error),
        };
        let packs = packs.unwrap_or_else(|error| {
            let error = format!("{error:#}");
            tracing::error!(error, "the installed toolpacks can't be read; none is used");
            Vec::new()
        });
        for pack in packs {
            match wanted(loaded, &self.data, &pack) {
                Ok(None) => {}
                Ok(Some((id, one))) => drop(usable.insert(id, one)),
                Err(error) => drop(unusable.insert(pack.id, format!("{error:#}"))),
            }
        }
        (usable, unusable)
    }

    fn start_pack(&self, id: &SourceId, wanted: &Wanted) -> anyhow::Result<()> {
        let settings = wanted.settings.clone();
        let source = drawgate_sources::build("toolpack", id.clone(), settings, &self.host)?;
        self.keeper.add(source, wanted.terms.clone(), Origin::Discovered)?;
        Ok(())
    }

    /// Replaces the reports about packs that can't be used.
    async fn report(&self, loaded: &Loaded, now: BTreeMap<String, String>) {
        let before: BTreeSet<String> =
            std::mem::take(&mut *self.unusable.lock()).into_keys().collect();
        for id in before.iter().filter(|id| !now.contains_key(*id)) {
            if let Ok(id) = source_id(loaded, id) {
                self.keeper.remove(&id).await;
            }
        }
        for (id, reason) in now {
            self.report_one(loaded, &id, reason);
        }
    }

    fn report_one(&self, loaded: &Loaded, id: &str, reason: String) {
        tracing::error!(
            toolpack = id.escape_debug().to_string(),
            reason,
            "a toolpack can't be used"
        );
        // Under an id that a server has, the report would be taken for that server's.
        if let Ok(id) = source_id(loaded, id) {
            self.keeper.report_unusable(&id, reason.clone());
        }
        self.unusable.lock().insert(id.to_owned(), reason);
    }
}

/// Where toolpacks are installed.
fn path(loaded: &Loaded) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(loaded.resolve(&loaded.config.toolpacks.folder))?)
}

/// All that are installed. Looking makes no folder where there is none.
async fn installed(path: PathBuf) -> anyhow::Result<Vec<Installed>> {
    let look = move || match path.try_exists() {
        Ok(false) => Ok(Vec::new()),
        Ok(true) | Err(_) => Folder::open(&path)?.list(),
    };
    tokio::task::spawn_blocking(look).await?.map_err(|error| anyhow!("{error}"))
}
