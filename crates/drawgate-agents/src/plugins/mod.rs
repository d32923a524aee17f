//! The plugins at work: put in and taken out while the gateway runs, asked in order, with their tools as sources
//! and what each may ask of the gateway.
//!
//! A plugin's failures are its own: each hook has a time and a task of its own, what is only told waits in
//! a bounded queue, and nobody else waits for it.

mod call_hook;
mod context;
pub mod delegation;
mod known;
mod seat;
mod set;
mod source;
mod storage;
pub mod validation;

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::hooks::CallHook;
use drawgate_core::model::{IdError, Principal, SourceId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use self::call_hook::KnowingHook;
use self::context::Context;
pub use self::context::PluginTerms;
use self::delegation::Delegation;
use self::seat::Seat;
use self::set::PluginSet;
pub use self::source::PluginTools;
use self::validation::Validation;
use crate::plugin::{Hook, Plugin, PluginContext, PluginError};
use crate::runs::Runs;
use crate::tasks::Tasks;

/// How long a plugin may take to begin and to end its work.
const START_TIME: Duration = Duration::from_secs(30);
const STOP_TIME: Duration = Duration::from_secs(5);

/// All plugins of a gateway. Cheap to clone.
#[derive(Clone)]
pub struct Plugins {
    set: Arc<PluginSet>,
    runs: Runs,
    tasks: Tasks,
}

/// How a plugin gets on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name.
    pub name: SourceId,
    /// Its version.
    pub version: String,
    /// Its place in the order.
    pub position: i32,
    /// Its tools.
    pub tools: Vec<String>,
    /// The hooks that it wants.
    pub hooks: Vec<Hook>,
    /// What it was not told because it is too slow.
    pub dropped: u64,
    /// How often a hook failed, panicked or took too long.
    pub failed: u64,
}

/// A plugin's tools, to be registered.
pub struct OfferedTools {
    /// Different for every plugin that ever was at work here.
    pub generation: u64,
    /// The source.
    pub source: PluginTools,
}

impl Plugins {
    /// The names of the plugins that come with the gateway.
    pub const NATIVE: [&str; 2] = [Delegation::NAME, Validation::NAME];

    /// No plugins yet, for these runs. From now on they are asked about them.
    #[must_use]
    pub fn new(runs: &Runs) -> Self {
        let set = Arc::new(PluginSet::default());
        let tasks = Tasks::new(runs.clone(), set.clone());
        runs.set_hooks(set.clone());
        Self { set, runs: runs.clone(), tasks }
    }

    /// Delegated work.
    #[must_use]
    pub const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// What a plugin of this name may ask of the gateway, under an operator's terms.
    pub fn context(
        &self,
        name: &SourceId,
        terms: PluginTerms,
    ) -> Result<Arc<dyn PluginContext>, IdError> {
        let context = Context::new(name.clone(), terms, &self.set, &self.runs, &self.tasks)?;
        Ok(Arc::new(context))
    }

    /// In whose name the runs work that a plugin starts: it holds what an operator grants it.
    pub fn principal(name: &SourceId) -> Result<Principal, IdError> {
        context::principal_of(name)
    }

    /// Whether a name is kept for principals of plugins.
    #[must_use]
    pub fn is_principal(name: &Principal) -> bool {
        name.as_str().starts_with(context::PRINCIPAL)
    }

    /// A plugin that comes with the gateway; nothing if there is none of this name.
    pub fn native(
        name: &str,
        context: Arc<dyn PluginContext>,
    ) -> Result<Option<Arc<dyn Plugin>>, IdError> {
        Ok(match name {
            Delegation::NAME => Some(Arc::new(Delegation::new(context)?)),
            Validation::NAME => Some(Arc::new(Validation::new(context)?)),
            _ => None,
        })
    }

    /// Has a plugin begin its work. It is not asked yet.
    pub async fn start(&self, plugin: &Arc<dyn Plugin>) -> Result<(), PluginError> {
        let begin = {
            let plugin = Arc::clone(plugin);
            tokio::spawn(async move { plugin.start().await })
        };
        match tokio::time::timeout(START_TIME, begin).await {
            Ok(Ok(started)) => started,
            Ok(Err(_)) => Err(PluginError("it panicked while it was started".to_owned())),
            Err(_) => {
                let seconds = START_TIME.as_secs();
                Err(PluginError(format!("it was not started within {seconds} s")))
            }
        }
    }

    /// Has a plugin that has begun its work be asked, in place of the one of its name before.
    pub async fn seat(&self, plugin: Arc<dyn Plugin>, position: i32) {
        if let Some(before) = self.set.put(plugin, position) {
            stop(&before).await;
        }
    }

    /// Ends the work of a plugin; `false` if there is none of this name.
    pub async fn take_out(&self, name: &str) -> bool {
        let seat = self.set.remove(name);
        if let Some(seat) = &seat {
            stop(seat).await;
        }
        seat.is_some()
    }

    /// How the plugins get on, in their order.
    #[must_use]
    pub fn status(&self) -> Vec<PluginStatus> {
        let status = |seat: &Arc<Seat>| PluginStatus {
            name: seat.name().clone(),
            version: seat.plugin.version().to_owned(),
            position: seat.position,
            tools: seat.plugin.tools().into_iter().map(|tool| tool.name).collect(),
            hooks: seat.hooks().iter().copied().collect(),
            dropped: seat.dropped(),
            failed: seat.failed(),
        };
        self.set.seats().iter().map(status).collect()
    }

    /// The plugins at work that are asked about calls, in their order, with what is asked.
    #[must_use]
    pub fn call_hooks(&self) -> Vec<(Arc<dyn Plugin>, Arc<dyn CallHook>)> {
        let knowing = |seat: &Arc<Seat>| {
            let (known, hook) = (Arc::clone(&seat.known), seat.plugin.call_hook()?);
            let hook: Arc<dyn CallHook> = Arc::new(KnowingHook { known, hook });
            Some((Arc::clone(&seat.plugin), hook))
        };
        self.set.seats().iter().filter_map(knowing).collect()
    }

    /// The tools of the plugins at work.
    #[must_use]
    pub fn offered(&self) -> Vec<OfferedTools> {
        let seats = self.set.seats();
        let with_tools = seats.iter().filter(|seat| !seat.plugin.tools().is_empty());
        let offered = |seat: &Arc<Seat>| OfferedTools {
            generation: seat.generation,
            source: PluginTools::new(Arc::clone(&seat.plugin), Arc::clone(&seat.known)),
        };
        with_tools.map(offered).collect()
    }

    /// A channel whose value changes when a plugin was put in or taken out.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.set.changes()
    }

    /// Ends the work of all plugins.
    pub async fn close(&self) {
        for seat in self.set.seats().iter() {
            self.take_out(seat.name().as_str()).await;
        }
    }
}

/// Ends the work of a plugin that has left its place.
async fn stop(seat: &Seat) {
    seat.leave();
    let plugin = Arc::clone(&seat.plugin);
    let name = seat.name();
    let work = tokio::spawn(async move { plugin.stop().await });
    match tokio::time::timeout(STOP_TIME, work).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::warn!(plugin = %name, "a plugin panicked while it was stopped"),
        Err(_) => tracing::warn!(plugin = %name, "a plugin did not stop in time"),
    }
}
