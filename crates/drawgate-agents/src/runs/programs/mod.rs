//! Runs whose work is done by another program: Claude Code, Codex, Gemini CLI or `OpenCode`, in a sandbox.
//!
//! The program has no network but the gateway: its tools come by MCP and its model through the relay, both
//! with a token that is worth something from within its own sandbox alone, and only while the run is at
//! work. Every call and every request to a model is a step of the run.

mod boxed;
mod calls;
mod claude;
mod cli;
mod codex;
pub mod config;
mod folder;
mod gemini;
mod next;
mod opencode;
mod program;
mod relay;
mod work;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use drawgate_core::canonical::sha256_hex;
use drawgate_host::Host;
use drawgate_host::sandbox::ResourceLimits;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio_util::task::TaskTracker;

use self::config::InvokersConfig;
pub use self::program::RunProgram;
use self::program::{Program, Token};
pub use self::relay::{RelayBody, RelayReply};
pub(crate) use self::work::work;
use super::Runs;
use crate::model::Api;
use crate::profile::{Invoker, Profile};

/// What programs stand on.
pub struct ProgramParts {
    /// The machine.
    pub host: Arc<Host>,
    /// The folder in which each run has a folder of its own.
    pub folder: PathBuf,
    /// Settings.
    pub settings: ProgramSettings,
}

/// What an operator says about programs.
#[derive(Debug, Clone, Default)]
pub struct ProgramSettings {
    /// The programs.
    pub invokers: InvokersConfig,
    /// How much each may use.
    pub limits: ResourceLimits,
}

/// The gateway, as programs reach it.
pub trait ProgramEndpoint: Send + Sync + 'static {
    /// Opens a connection that is served for the program of this run, and for no other. Must not block.
    fn connect(&self, run: &str) -> DuplexStream;
}

/// Why a program can't do the work of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// This gateway was made without the means to start programs.
    #[error("this gateway can't start programs; use a profile with `invoker: api`")]
    NoHost,
    /// Nothing serves programs here.
    #[error(
        "the program of `invoker: {0}` reaches its tools and models through a gateway that runs; start one \
         and ask that"
    )]
    NotServed(&'static str),
    /// The operator did not set it up.
    #[error("there is no program for `invoker: {0}`; set `command` in `[invokers.{0}]`")]
    NotConfigured(&'static str),
    /// It speaks another API.
    #[error(
        "`{invoker}` can't ask `{model}`, whose provider is of kind `{kind}`; it needs `{needed}`"
    )]
    Api {
        /// The program.
        invoker: &'static str,
        /// The model.
        model: String,
        /// The API of its provider.
        kind: &'static str,
        /// The API that it needs.
        needed: &'static str,
    },
}

/// All programs at work.
#[derive(Default)]
pub(crate) struct Programs {
    machine: Option<Machine>,
    endpoint: OnceLock<Arc<dyn ProgramEndpoint>>,
    settings: ArcSwap<ProgramSettings>,
    /// By the hash of their token.
    admitted: Mutex<HashMap<String, Arc<Program>>>,
    /// What is under way for each run, which ends with its program.
    under_way: Mutex<HashMap<Arc<str>, TaskTracker>>,
}

/// Where programs are started, and where they live.
#[derive(Clone)]
struct Machine {
    host: Arc<Host>,
    folder: PathBuf,
}

impl Programs {
    pub(crate) fn new(parts: Option<ProgramParts>) -> Self {
        let Some(ProgramParts { host, folder, settings }) = parts else { return Self::default() };
        Self {
            machine: Some(Machine { host, folder: std::path::absolute(&folder).unwrap_or(folder) }),
            settings: ArcSwap::from_pointee(settings),
            ..Self::default()
        }
    }

    /// Whether a program can do the work of a run with this model.
    pub(crate) fn check(
        &self,
        invoker: Invoker,
        model: &str,
        api: Option<Api>,
    ) -> Result<(), NoProgram> {
        let Some(cli) = cli::of(invoker) else { return Ok(()) };
        if self.machine.is_none() {
            return Err(NoProgram::NoHost);
        }
        let settings = self.settings.load();
        if settings.invokers.get(invoker).is_none() {
            return Err(NoProgram::NotConfigured(invoker.as_str()));
        }
        if self.endpoint.get().is_none() {
            return Err(NoProgram::NotServed(invoker.as_str()));
        }
        match (cli.needs(), api) {
            (Some(needed), Some(api)) if needed != api => Err(NoProgram::Api {
                invoker: invoker.as_str(),
                model: model.to_owned(),
                kind: api.as_str(),
                needed: needed.as_str(),
            }),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// The tools of its own that the program of a profile may use: those that the operator allows and
    /// the profile wants.
    pub(crate) fn own_tools(&self, profile: &Profile) -> Vec<String> {
        let settings = self.settings.load();
        let given = settings.invokers.get(profile.invoker);
        let given = given.map(|config| config.own_tools.clone()).unwrap_or_default();
        let choice = &profile.tools;
        let is_wanted = |tool: &String| {
            choice.allowed.as_ref().is_none_or(|allowed| allowed.contains(tool))
                && !choice.denied.contains(tool)
        };
        given.into_iter().filter(is_wanted).collect()
    }

    /// Lets a program in for as long as the guard lives.
    fn admit(&self, token: &Token, program: &Arc<Program>) -> Admitted {
        let hash = sha256_hex(token.expose().as_bytes());
        self.admitted.lock().insert(hash.clone(), Arc::clone(program));
        Admitted { hash, program: Arc::clone(program) }
    }

    /// What is under way for a run.
    fn tasks_of(&self, run: &Arc<str>) -> TaskTracker {
        self.under_way.lock().entry(Arc::clone(run)).or_default().clone()
    }

    /// Waits until nothing of a run's program is left; its token is dead by then.
    pub(crate) async fn stopped(&self, run: &str) {
        let tasks = self.under_way.lock().get(run).cloned();
        if let Some(tasks) = tasks {
            tasks.close();
            tasks.wait().await;
        }
    }

    /// Forgets a run that has ended, with its folder.
    pub(crate) async fn forget(&self, run: &str) {
        let was_at_work = self.under_way.lock().remove(run).is_some();
        if let Some(machine) = self.machine.as_ref().filter(|_| was_at_work) {
            folder::remove(machine.folder.join(run)).await;
        }
    }

    /// Removes the folders of runs that are not at work, by their ids.
    pub(crate) async fn tidy(&self, is_at_work: impl Fn(&str) -> bool + Send + 'static) {
        if let Some(machine) = &self.machine {
            folder::remove_others(machine.folder.clone(), is_at_work).await;
        }
    }
}

/// While it lives, a program's token is good.
struct Admitted {
    hash: String,
    program: Arc<Program>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.program.runs().0.programs.admitted.lock().remove(&self.hash);
        self.program.kill();
    }
}

impl Runs {
    /// From now on, programs reach the gateway by this. Later calls change nothing.
    pub fn serve_programs(&self, endpoint: Arc<dyn ProgramEndpoint>) {
        // The first one stays.
        let _ = self.0.programs.endpoint.set(endpoint);
    }

    /// Puts other settings into force; programs that are at work stay as they are until their next turn.
    pub fn configure_programs(&self, settings: ProgramSettings) {
        self.0.programs.settings.store(Arc::new(settings));
    }

    /// The program of a run, if the token is its own and it is at work.
    #[must_use]
    pub fn program(&self, run: &str, token: &str) -> Option<RunProgram> {
        let hash = sha256_hex(token.as_bytes());
        let found = self.0.programs.admitted.lock().get(&hash).cloned();
        found.filter(|program| program.is_of(run)).map(RunProgram::new)
    }

    /// The program of a run whose token was shown before, if it is still at work.
    #[must_use]
    pub fn program_of(&self, run: &str) -> Option<RunProgram> {
        let admitted = self.0.programs.admitted.lock();
        admitted.values().find(|program| program.is_of(run)).cloned().map(RunProgram::new)
    }
}
