//! Child processes: the only place that spawns.
//!
//! A child gets an exact environment, its own process group and three pipes. The group dies as a
//! whole, and nothing is ever left unreaped. What the pipes carry is the caller's business.

mod command;
pub mod launcher;
mod running;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

pub use running::Running;

use crate::secrets::Secrets;

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

/// Starts commands.
#[derive(Debug, Clone)]
pub struct Processes {
    launcher: Option<PathBuf>,
    inherited: BTreeMap<String, OsString>,
}

impl Processes {
    /// With a launcher (the path of this program), children die with the gateway, whatever ends it.
    #[must_use]
    pub fn new(secrets: &Secrets, launcher: Option<PathBuf>) -> Self {
        let inherit = |name: &&str| Some(((*name).to_owned(), secrets.variable(name)?));
        Self { launcher, inherited: INHERITED.iter().filter_map(inherit).collect() }
    }

    /// Starts a command in a process group of its own.
    ///
    /// Call it on a thread that lives as long as the gateway (a worker of the runtime, not a blocking
    /// thread): with a launcher, the child ends when the thread that started it does.
    pub fn spawn(&self, spawn: &Spawn) -> Result<Running, SpawnError> {
        command::spawn(self, spawn)
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
