//! Child processes: the only place that spawns.
//!
//! A child gets an exact environment, its own process group and three pipes. The group dies as a
//! whole, and nothing is ever left unreaped. What the pipes carry is the caller's business.

mod authorities;
mod command;
mod group;
pub mod launcher;
mod open_files;
mod running;
mod terminal;
mod waiting;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use open_files::{open_files, raise_open_files};
pub use running::Running;
pub(crate) use running::Streams;
pub use terminal::Terminal;
pub(crate) use waiting::without_blocking_others;

use crate::egress::{Egress, RefusedHosts};
use crate::sandbox::fork_server::ForkServer;
use crate::sandbox::memory::TotalMemory;
use crate::sandbox::shared_folders::SharedFolders;
use crate::sandbox::wire::Enforced;
use crate::sandbox::{Abilities, Confinement, Profile, SandboxError};
use crate::secrets::Secrets;
use crate::trusted::Trusted;

/// How long a runtime of this process keeps threads without work. A child dies with the thread that
/// started it, so such a thread must not end before it.
pub const KEEP_THREADS: Duration = Duration::from_hours(10 * 365 * 24);

/// What a child inherits of the gateway's own environment. Everything else, above all what makes a
/// program load foreign code (`LD_PRELOAD`, `NODE_OPTIONS`, `BASH_ENV`), it has only if the operator
/// writes it into [`Spawn::env`].
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];

/// A command to start.
#[derive(Debug, Clone, Default)]
pub struct Spawn {
    /// A path, or a name that is looked up in the child's `PATH`.
    pub program: String,
    /// Its arguments, passed as they are.
    pub args: Vec<String>,
    /// Variables beside the few that are inherited; these win.
    pub env: BTreeMap<String, String>,
    /// Where it starts; the gateway's own folder by default.
    pub working_dir: Option<PathBuf>,
    /// Programs that it starts, as absolute paths: its sandbox shows them with their installations, as it
    /// shows the program itself.
    pub programs: Vec<PathBuf>,
    /// What it is held to; without one, nothing but the gateway's own rights.
    pub confinement: Option<Confinement>,
    /// Told of hosts that it asks for in its sandbox and may not reach. Not for [`Profile::Strict`].
    pub refused_hosts: Option<Arc<dyn RefusedHosts>>,
}

impl Spawn {
    /// Whether its sandbox has a proxy: to the hosts that it may reach, or to hear which ones it asks for.
    fn has_proxy(&self, confinement: &Confinement) -> bool {
        match confinement.profile {
            Profile::Network => true,
            Profile::Workspace => self.refused_hosts.is_some(),
            Profile::Strict | Profile::None => false,
        }
    }
}

/// Why a command can't be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("there is no program `{0}`; install it, or give its full path")]
    NotFound(String),
    /// The folder to start it in is missing.
    #[error("the working folder `{0}` does not exist")]
    WorkingDir(PathBuf),
    /// A variable's name or value can't be passed to a program.
    #[error("the environment variable `{0}` can't be passed to a program")]
    Variable(String),
    /// The sandbox can't be had here.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The check before the start refused it.
    #[error("{0}")]
    Refused(String),
    /// The operating system refused.
    #[error("`{program}` can't be started")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// What a sandbox moved away from a folder when its program had ended: names that other programs trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The program.
    pub program: String,
    /// The folder that it worked in.
    pub workspace: PathBuf,
    /// The folder that it planted them in: the same, or another that it may write.
    pub folder: PathBuf,
    /// What it had planted.
    pub names: Vec<String>,
    /// What could not be moved away, and may still be there.
    pub left: Vec<String>,
}

/// Called with what was set aside.
type SweepListener = Arc<dyn Fn(SetAside) + Send + Sync>;

/// Starts commands.
#[derive(Clone)]
pub struct Processes {
    launcher: Option<PathBuf>,
    /// Why there is no launcher, where there is none.
    no_launcher: Arc<str>,
    listener: Option<SweepListener>,
    inherited: BTreeMap<String, OsString>,
    /// The operator's whole environment, to find certificate authorities in.
    variables: Arc<[(String, OsString)]>,
    /// The variables that name them, found when the first sandbox is built.
    authorities: Arc<OnceLock<BTreeMap<String, PathBuf>>>,
    egress: Option<Arc<Egress>>,
    trusted: Trusted,
    /// What the first box had. From then on nobody waits for one to be built, and none may have less.
    proven: Arc<OnceLock<Enforced>>,
    abilities: Arc<OnceLock<Arc<Abilities>>>,
    folders: SharedFolders,
    memory: TotalMemory,
    fork_server: ForkServer,
}

impl Processes {
    /// `launcher` is the path of a program that calls [`launcher::main`]: with it, children die with
    /// the gateway, whatever ends it. Without it, sandboxed programs are refused.
    #[must_use]
    pub fn new(secrets: &Secrets, launcher: Option<PathBuf>) -> Self {
        let inherit = |name: &&str| Some(((*name).to_owned(), secrets.variable(name)?));
        Self {
            launcher,
            no_launcher: "the gateway was started without a launcher program".into(),
            listener: None,
            inherited: INHERITED.iter().filter_map(inherit).collect(),
            variables: secrets.variables().into(),
            authorities: Arc::default(),
            egress: None,
            trusted: Trusted::default(),
            proven: Arc::default(),
            abilities: Arc::default(),
            folders: SharedFolders::default(),
            memory: TotalMemory::default(),
            fork_server: ForkServer::default(),
        }
    }

    /// The same, with the client by which programs of the profile `network` go out.
    #[must_use]
    pub fn with_egress(self, egress: Arc<Egress>) -> Self {
        Self { egress: Some(egress), ..self }
    }

    /// The program that starts children, if one was given.
    #[must_use]
    pub fn launcher(&self) -> Option<&Path> {
        self.launcher.as_deref()
    }

    /// The same, with what people are told where a program can't be started for lack of a launcher.
    #[must_use]
    pub fn without_launcher(self, why: &str) -> Self {
        Self { launcher: None, no_launcher: why.into(), ..self }
    }

    /// Variables of the operator's that name certificate authorities.
    #[must_use]
    pub fn authorities(&self) -> &BTreeMap<String, PathBuf> {
        self.authorities.get_or_init(|| authorities::named_in(&self.variables))
    }

    fn launcher_or_why(&self) -> Result<&Path, SandboxError> {
        self.launcher().ok_or_else(|| SandboxError::NoLauncher(self.no_launcher.to_string()))
    }

    /// What decides about programs, and is reached by none that is in a sandbox.
    #[must_use]
    pub const fn trusted(&self) -> &Trusted {
        &self.trusted
    }

    /// The same, with a listener that is called with what programs had planted.
    #[must_use]
    pub fn telling(self, listener: impl Fn(SetAside) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(listener)), ..self }
    }

    /// Sets how much memory all programs in sandboxes may use together, in MiB; half of the machine's
    /// without a number. Holds for all clones.
    pub fn limit_memory(&self, most_mb: Option<u64>) {
        self.memory.limit(most_mb);
    }

    /// Where a program is: a path as it stands, or the first of this name in the absolute folders of
    /// the gateway's own `PATH`.
    #[must_use]
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        command::find(program, self.inherited.get("PATH")).filter(|file| file.is_absolute())
    }

    /// Starts a command in a process group of its own, or in a sandbox if it is confined.
    ///
    /// Until a sandbox was built once, it waits for that, so that a machine which can't is known by
    /// [`SpawnError::Sandbox`]; later failures are told by [`Running::box_failure`].
    ///
    /// Call it on a thread that lives as long as the gateway (a worker of the runtime, not a blocking
    /// thread): with a launcher, the child ends when the thread that started it does.
    pub fn spawn(&self, spawn: &Spawn) -> Result<Running, SpawnError> {
        command::spawn(self, spawn)
    }

    /// The same for a command in a sandbox, with a terminal in place of the pipes.
    pub fn spawn_on(&self, spawn: &Spawn, terminal: &Terminal) -> Result<Running, SpawnError> {
        command::spawn_on(self, spawn, terminal)
    }

    pub(crate) fn abilities(&self) -> &OnceLock<Arc<Abilities>> {
        &self.abilities
    }

    /// Builds a box around a program that does nothing.
    pub(crate) fn try_box(&self, confinement: &Confinement) -> Result<Enforced, SandboxError> {
        command::try_box(self, confinement)
    }
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processes").field("launcher", &self.launcher).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
