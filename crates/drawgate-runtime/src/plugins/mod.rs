//! Plugins: those that an operator has added and those that come with the gateway, which of them are at work, and
//! the hooks around calls that follow from that.
//!
//! A plugin that should be at work and is not leaves its hooks behind: they fail, so that no call passes a
//! guard that is not there.

mod absent;
mod check;
mod configured;
mod files;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use drawgate_agents::plugin::process::{ProcessLimits, ProcessPlugin, ProcessSettings};
use drawgate_agents::plugin::{Hook, Plugin, PluginManifest};
use drawgate_agents::plugins::{PluginStatus, PluginTerms, Plugins};
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::hooks::{BoundHook, CallHook, HookPoint, HookTerms, Hooks};
use drawgate_core::model::{Principal, SourceId};
use drawgate_core::registry::{Holder, IdTaken, SourceSupervisor};
use drawgate_core::store::{AuditLog, Documents, StoreError};
use drawgate_host::Host;
use drawgate_host::process::SpawnError;
use drawgate_host::sandbox::ResourceLimits;
use drawgate_sources::oneshot::Exchange;
use parking_lot::Mutex;
use serde_json::Value;

use self::absent::AbsentPlugin;
pub use self::check::check_folder;
pub use self::configured::CONFIGURED_PREFIX;
use self::configured::ConfiguredHook;
pub(crate) use self::files::PluginFolder;
pub(crate) use self::record::KIND;
pub use self::record::{PluginFiles, PluginRecord};
use crate::config::{HookConfig, Loaded};
use crate::toolpacks::ToolpackError;

/// Why a plugin can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginFault {
    /// Its folder can't be read or copied.
    #[error(transparent)]
    Files(#[from] ToolpackError),
    /// The files are not those that an operator agreed to.
    #[error("its files in the data folder are not those that were added; add it again")]
    Changed,
    /// The manifest, the tools or the program are not as they should be.
    #[error("{0}")]
    Unusable(String),
}

/// The plugins of a gateway.
pub struct PluginTable {
    plugins: Plugins,
    host: Arc<Host>,
    audit: Arc<dyn AuditLog>,
    hooks: Arc<ArcSwap<Hooks>>,
    /// Keeps the plugins' names for them.
    supervisor: Arc<SourceSupervisor>,
    folder: PluginFolder,
    state: Mutex<State>,
    /// One change of what is bound at a time.
    binding: Mutex<()>,
}

#[derive(Default)]
struct State {
    records: BTreeMap<String, PluginRecord>,
    /// Why plugins that should be at work are not, and the hooks that they would have.
    problems: BTreeMap<String, Problem>,
    /// Hooks of the configuration, by their names among plugins.
    configured: BTreeMap<String, Configured>,
    runtimes: Runtimes,
}

#[derive(Clone)]
struct Problem {
    reason: String,
    hooks: BTreeSet<Hook>,
}

/// A hook of the configuration, and why it is not at work.
#[derive(Clone)]
struct Configured {
    hook: ConfiguredHook,
    problem: Option<String>,
}

/// What runs plugins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runtimes {
    /// Node; the first on the path without.
    pub(crate) node: Option<String>,
    /// Python; the first on the path without.
    pub(crate) python: Option<String>,
    /// How much a plugin's process may use.
    pub(crate) resources: ResourceLimits,
}

impl Runtimes {
    /// What a configuration says about them.
    pub(crate) fn of(loaded: &Loaded) -> Self {
        let config = &loaded.config.plugins;
        let resolve = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| loaded.resolve(path).to_string_lossy().into_owned())
        };
        Self {
            node: resolve(&config.node),
            python: resolve(&config.python),
            resources: loaded.config.sandbox,
        }
    }
}

/// A plugin as it is.
#[derive(Debug, Clone)]
pub struct KnownPlugin {
    /// What is kept of it.
    pub record: PluginRecord,
    /// How it gets on, if it is at work.
    pub status: Option<PluginStatus>,
    /// Why it is not at work although it should be.
    pub problem: Option<String>,
}

/// What a table is made from.
pub(crate) struct PluginTableParts<'a> {
    pub(crate) plugins: Plugins,
    pub(crate) host: &'a Arc<Host>,
    pub(crate) audit: &'a Arc<dyn AuditLog>,
    pub(crate) hooks: Arc<ArcSwap<Hooks>>,
    pub(crate) supervisor: &'a Arc<SourceSupervisor>,
    pub(crate) data: &'a Path,
}

impl PluginTable {
    /// The plugins that are kept; none is at work yet.
    pub(crate) async fn open(
        documents: &dyn Documents,
        parts: PluginTableParts<'_>,
    ) -> Result<Arc<Self>, StoreError> {
        let mut records = BTreeMap::new();
        for name in Plugins::NATIVE {
            records.insert(name.to_owned(), PluginRecord::new(name, None));
        }
        for (name, body) in documents.documents(KIND).await? {
            match serde_json::from_value(body) {
                Ok(record) => drop(records.insert(name, record)),
                Err(error) => tracing::error!(%error, plugin = name, "a plugin can't be read"),
            }
        }
        Ok(Arc::new(Self {
            plugins: parts.plugins,
            host: Arc::clone(parts.host),
            audit: Arc::clone(parts.audit),
            hooks: parts.hooks,
            supervisor: Arc::clone(parts.supervisor),
            folder: PluginFolder::new(parts.data),
            state: Mutex::new(State { records, ..State::default() }),
            binding: Mutex::default(),
        }))
    }

    /// The plugins at work.
    #[must_use]
    pub const fn at_work(&self) -> &Plugins {
        &self.plugins
    }

    /// Where copies of plugins are.
    pub(crate) const fn folder(&self) -> &PluginFolder {
        &self.folder
    }

    /// Keeps the names of the plugins that were added, or are at work, for them.
    pub(crate) async fn reserve_names(&self) {
        let ids = {
            let state = self.state.lock();
            let records = state.records.values();
            let own = records.filter(|record| record.files.is_some() || record.enabled);
            own.filter_map(|record| SourceId::new(&record.name).ok()).collect()
        };
        self.supervisor.reserve(Holder::Plugin, ids).await;
    }

    /// What else has the name of a plugin, or one that looks like it.
    pub(crate) fn name_taken(&self, name: &str) -> Option<IdTaken> {
        self.supervisor.taken(Holder::Plugin, &SourceId::new(name).ok()?)
    }

    /// Takes plugins out of work whose names the configuration gives to servers now.
    pub(crate) async fn release_names(&self) {
        let enabled: Vec<PluginRecord> = {
            let state = self.state.lock();
            state.records.values().filter(|record| record.enabled).cloned().collect()
        };
        for record in enabled {
            if let Some(taken) = self.name_taken(&record.name) {
                self.plugins.take_out(&record.name).await;
                self.report(&record, &rename(&taken)).await;
            }
        }
    }

    /// Puts all plugins to work that should be. What can't be is reported, and its hooks fail.
    pub(crate) async fn start(&self) {
        let records: Vec<PluginRecord> = self.state.lock().records.values().cloned().collect();
        self.sweep(&records);
        // Until they are at work, no call passes the guards that they are.
        for record in records.iter().filter(|record| record.enabled) {
            let hooks = self.declared_hooks(record);
            let problem = Problem { reason: "it is being started".to_owned(), hooks };
            self.state.lock().problems.insert(record.name.clone(), problem);
        }
        self.bind();
        for record in records.into_iter().filter(|record| record.enabled) {
            if let Some(taken) = self.name_taken(&record.name) {
                self.report(&record, &rename(&taken)).await;
                continue;
            }
            match self.begin(&record).await {
                Ok(plugin) => self.seat(&record, plugin).await,
                Err(fault) => self.report(&record, &fault.to_string()).await,
            }
        }
    }

    fn sweep(&self, records: &[PluginRecord]) {
        let files = |record: &PluginRecord| {
            let files = record.files.as_ref()?;
            Some(self.folder.path(&record.name, &files.hash))
        };
        if let Err(error) = self.folder.sweep(&records.iter().filter_map(files).collect()) {
            tracing::warn!(%error, "old files of plugins could not be removed");
        }
    }

    /// The hooks around calls that a plugin would have.
    fn declared_hooks(&self, record: &PluginRecord) -> BTreeSet<Hook> {
        let files = record.files.as_ref();
        let folder = files.map(|files| self.folder.path(&record.name, &files.hash));
        let manifest = folder.and_then(|folder| PluginManifest::read(&folder).ok());
        manifest.map(|manifest| manifest.permissions.hooks).unwrap_or_default()
    }

    /// Starts a plugin, which is not asked yet. Everything that can fail happens here.
    pub(crate) async fn begin(
        &self,
        record: &PluginRecord,
    ) -> Result<Arc<dyn Plugin>, PluginFault> {
        let unusable = |error: &dyn std::fmt::Display| PluginFault::Unusable(error.to_string());
        let name = SourceId::new(&record.name).map_err(|error| unusable(&error))?;
        let terms = PluginTerms {
            settings: Value::Object(record.settings.clone()),
            ..PluginTerms::default()
        };
        let context = self.plugins.context(&name, terms).map_err(|error| unusable(&error))?;
        let plugin: Arc<dyn Plugin> = match &record.files {
            None => Plugins::native(&record.name, context)
                .map_err(|error| unusable(&error))?
                .ok_or_else(|| unusable(&"no plugin of this name comes with the gateway"))?,
            Some(files) => {
                let settings = self.process(record, files)?;
                let host = self.checking(&settings.folder, &files.hash);
                let loaded = ProcessPlugin::load(settings, host, context).await;
                Arc::new(loaded.map_err(|error| unusable(&error))?)
            }
        };
        self.plugins.start(&plugin).await.map_err(|error| unusable(&error))?;
        Ok(plugin)
    }

    /// The machine, which starts nothing from this folder but what an operator agreed to: a process that is
    /// started again later, too.
    fn checking(&self, folder: &Path, hash: &str) -> Arc<Host> {
        let (folder, hash) = (folder.to_owned(), hash.to_owned());
        let check = move || match PluginFolder::hash(&folder) {
            Ok(found) if found == hash => Ok(()),
            Ok(_) | Err(_) => Err(SpawnError::Refused(PluginFault::Changed.to_string())),
        };
        Arc::new(Host {
            start_check: Some(Arc::new(check)),
            credentials: None,
            ..Host::clone(&self.host)
        })
    }

    /// How the process of a plugin is started, whose files are those that an operator agreed to.
    fn process(
        &self,
        record: &PluginRecord,
        files: &PluginFiles,
    ) -> Result<ProcessSettings, PluginFault> {
        let folder = self.folder.path(&record.name, &files.hash);
        if PluginFolder::hash(&folder)? != files.hash {
            return Err(PluginFault::Changed);
        }
        let Runtimes { node, python, resources } = self.state.lock().runtimes.clone();
        Ok(ProcessSettings {
            workspace: self.folder.workspace(&record.name)?,
            folder,
            node,
            python,
            resources,
            limits: ProcessLimits::default(),
        })
    }

    /// Has a plugin that was started be asked from now on, in place of the one of its name before.
    pub(crate) async fn seat(&self, record: &PluginRecord, plugin: Arc<dyn Plugin>) {
        {
            let mut state = self.state.lock();
            state.problems.remove(&record.name);
            state.records.insert(record.name.clone(), record.clone());
        }
        self.reserve_names().await;
        self.plugins.seat(plugin, record.position).await;
        self.bind();
    }

    /// Keeps a record of a plugin that is not at work, and takes it out of work if it is.
    pub(crate) async fn unseat(&self, name: &str, record: Option<PluginRecord>) {
        {
            let mut state = self.state.lock();
            state.problems.remove(name);
            match record {
                Some(record) => drop(state.records.insert(name.to_owned(), record)),
                None => drop(state.records.remove(name)),
            }
            if Plugins::NATIVE.contains(&name) {
                let native = || PluginRecord::new(name, None);
                state.records.entry(name.to_owned()).or_insert_with(native);
            }
        }
        // First it is not asked any more, then it is stopped.
        self.bind();
        self.plugins.take_out(name).await;
        self.reserve_names().await;
    }

    async fn report(&self, record: &PluginRecord, reason: &str) {
        tracing::error!(plugin = record.name, error = reason, "a plugin could not be started");
        let problem = Problem { reason: reason.to_owned(), hooks: self.declared_hooks(record) };
        self.state.lock().problems.insert(record.name.clone(), problem);
        self.bind();
        let draft = EventDraft::new(EventKind::PluginFailed, self.host.clock.now_ms())
            .text("plugin", &record.name)
            .text("reason", reason);
        if let Err(error) = self.audit.append(draft).await {
            tracing::error!(%error, "a plugin that failed could not be written to the audit log");
        }
    }

    /// Puts the hooks of a configuration to work, and the programs that run plugins into force. A hook that
    /// can't be set up fails, so that no call passes it.
    pub(crate) async fn configure(
        &self,
        runtimes: Runtimes,
        hooks: Vec<(HookConfig, Result<Exchange, String>)>,
    ) {
        self.state.lock().runtimes = runtimes;
        let wanted: BTreeSet<String> =
            hooks.iter().filter_map(|(config, _)| configured_id(config)).collect();
        let before = self.state.lock().configured.clone();
        for gone in before.keys().filter(|id| !wanted.contains(*id)) {
            self.state.lock().configured.remove(gone);
            self.bind();
            self.plugins.take_out(gone).await;
        }
        for (config, exchange) in hooks {
            let Some(id) = configured_id(&config) else { continue };
            let is_same = |old: &Configured| old.hook.is(&config) && old.problem.is_none();
            if before.get(&id).is_some_and(is_same) && exchange.is_ok() {
                continue;
            }
            let hook = ConfiguredHook::new(&config);
            let plugin = exchange
                .and_then(|exchange| hook.plugin(exchange).map_err(|error| error.to_string()));
            if let Err(reason) = &plugin {
                tracing::error!(hook = config.name, error = reason, "a hook could not be set up");
            }
            let problem = plugin.as_ref().err().cloned();
            self.state.lock().configured.insert(id, Configured { hook, problem });
            if let Ok(plugin) = plugin {
                self.plugins.seat(plugin, config.position).await;
            }
        }
        self.bind();
    }

    /// Puts the hooks around calls into force that follow from what is at work.
    fn bind(&self) {
        let _alone = self.binding.lock();
        let state = self.state.lock();
        let mut bound = Vec::new();
        for (plugin, hook) in self.plugins.call_hooks() {
            let name = plugin.name().as_str();
            if let Some(configured) = state.configured.get(name) {
                bound.extend(configured.hook.bound(hook));
            } else if let Some(record) = state.records.get(name).filter(|record| record.enabled) {
                bound.push(bound_hook(record, &plugin.hooks(), hook));
            }
        }
        for (name, problem) in &state.problems {
            if let Some(record) = state.records.get(name) {
                bound.push(bound_hook(record, &problem.hooks, Arc::new(AbsentPlugin)));
            }
        }
        for configured in state.configured.values().filter(|hook| hook.problem.is_some()) {
            bound.extend(configured.hook.bound(Arc::new(AbsentPlugin)));
        }
        drop(state);
        self.hooks.store(Arc::new(Hooks::new(bound)));
    }

    /// Whether a principal is that of a plugin.
    #[must_use]
    pub fn has_principal(&self, name: &Principal) -> bool {
        let is_own = |plugin: &String| {
            let id = SourceId::new(plugin).ok();
            id.and_then(|id| Plugins::principal(&id).ok()).is_some_and(|own| own == *name)
        };
        self.state.lock().records.keys().any(is_own)
    }

    /// All plugins, by name.
    #[must_use]
    pub fn known(&self) -> Vec<KnownPlugin> {
        let mut statuses: BTreeMap<String, PluginStatus> = self
            .plugins
            .status()
            .into_iter()
            .map(|status| (status.name.to_string(), status))
            .collect();
        let state = self.state.lock();
        let known = |(name, record): (&String, &PluginRecord)| KnownPlugin {
            record: record.clone(),
            status: statuses.remove(name),
            problem: state.problems.get(name).map(|problem| problem.reason.clone()),
        };
        state.records.iter().map(known).collect()
    }
}

/// A plugin's hooks around calls, under the operator's terms.
fn bound_hook(record: &PluginRecord, hooks: &BTreeSet<Hook>, hook: Arc<dyn CallHook>) -> BoundHook {
    let terms = |point: HookPoint| -> HookTerms {
        let settings = record.hooks.get(&point).cloned().unwrap_or_default();
        // Patterns are checked when they are set; one that can't be read means all tools.
        settings.terms().unwrap_or_default()
    };
    let points = HookPoint::ALL.into_iter().filter(|point| hooks.contains(&hook_of(*point)));
    BoundHook {
        name: record.name.as_str().into(),
        position: record.position,
        points: points.map(|point| (point, terms(point))).collect(),
        hook,
    }
}

/// Why a plugin is not at work whose name another source has.
fn rename(taken: &IdTaken) -> String {
    format!("{taken}; rename one of them, then enable the plugin again")
}

fn configured_id(config: &HookConfig) -> Option<String> {
    ConfiguredHook::id(config).ok().map(|id| id.to_string())
}

/// The point around calls that a hook is, if it is one.
fn hook_point(hook: Hook) -> Option<HookPoint> {
    HookPoint::ALL.into_iter().find(|point| hook_of(*point) == hook)
}

const fn hook_of(point: HookPoint) -> Hook {
    match point {
        HookPoint::Rewrite => Hook::RewriteCall,
        HookPoint::Check => Hook::BeforeCall,
        HookPoint::After => Hook::AfterCall,
    }
}
