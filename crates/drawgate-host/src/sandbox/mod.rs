//! What a foreign program may touch on this machine, and how much of it.
//!
//! A [`Confinement`] goes with a [`Spawn`](crate::process::Spawn). The program is then started by
//! the launcher's init, in namespaces of its own, with nothing of the machine but what is named
//! here. What the kernel can't enforce is refused, never left out.

mod abilities;
mod arguments;
mod cgroup;
pub(crate) mod entries;
mod error;
pub(crate) mod fork_server;
pub(crate) mod init;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod plan;
pub mod protected;
pub(crate) mod shared_folders;
mod view;
pub(crate) mod wire;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use abilities::{Abilities, Ability, Enforcement};
pub use error::{Limit, Part, SandboxError};

use crate::egress::{Internal, Reach};

/// How far a program is trusted.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Its workspace and the system's programs; no network, no further folders.
    Strict,
    /// The same, and the folders that it was allowed; no network.
    #[default]
    Workspace,
    /// The same, and the hosts that it was allowed, through a filtering proxy.
    Network,
    /// No sandbox: everything that the gateway itself may do.
    None,
}

impl Profile {
    /// All, from the tightest.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Workspace, Self::Network, Self::None];

    /// The word in configuration and in the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Workspace => "workspace",
            Self::Network => "network",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sandbox profile; use `strict`, `workspace`, `network` or `none`")]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL.into_iter().find(|profile| profile.as_str() == text);
        found.ok_or_else(|| UnknownProfile(text.escape_debug().to_string()))
    }
}

/// Whether every program sees this path, whatever it was given: it lies in a folder of the system.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    view::is_system(path)
}

/// What becomes of paths in the arguments of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentPaths {
    /// They are text.
    #[default]
    Ignored,
    /// What they name may be read, with the project around it: the operator wrote them.
    Opened,
}

/// What a program is held to. Its paths are absolute, as they were named; where they lead is found out at
/// each start.
#[derive(Debug, Clone)]
pub struct Confinement {
    /// How far it is trusted. With [`Profile::None`] all else is without effect.
    pub profile: Profile,
    /// The folder that it may write: its working folder and, in the sandbox, its `HOME`.
    pub workspace: PathBuf,
    /// Further files and folders that it may read; not for [`Profile::Strict`].
    pub read: Vec<PathBuf>,
    /// Further folders that it may write; not for [`Profile::Strict`].
    pub write: Vec<PathBuf>,
    /// What becomes of paths in its arguments; opened never for [`Profile::Strict`].
    pub arguments: ArgumentPaths,
    /// Whom it may reach; for [`Profile::Network`] only.
    pub reach: Reach,
    /// The way to the gateway itself; for [`Profile::Network`] only.
    pub internal: Option<Arc<dyn Internal>>,
    /// Protected names (see [`protected`]) that it may write all the same.
    pub unprotected: Vec<String>,
    /// How much it may use.
    pub limits: ResourceLimits,
}

impl Confinement {
    /// Whether the program may write there. What is not there is judged by the folder that it would be in.
    #[must_use]
    pub fn may_write(&self, path: &Path) -> bool {
        let more = self.write.iter().filter(|_| self.profile != Profile::Strict);
        let mut folders = std::iter::once(&self.workspace).chain(more);
        self.profile == Profile::None || folders.any(|folder| is_below(path, folder))
    }

    /// Whether the program may read it with these arguments, as far as it was given to it: its own
    /// installation is not known here.
    #[must_use]
    pub fn may_read(&self, path: &Path, args: &[String], home: Option<&Path>) -> bool {
        let named = args.iter().filter(|_| self.arguments == ArgumentPaths::Opened);
        let named = named.filter_map(|argument| arguments::opened_by(argument, home));
        let mut read = self.read.iter().cloned().chain(named);
        let is_given = |given: PathBuf| self.profile != Profile::Strict && is_below(path, &given);
        self.may_write(path) || is_system(path) || read.any(is_given)
    }
}

/// Whether a path is in a folder, or the same, by its spelling or by what it leads to.
fn is_below(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| {
        path.ancestors().find_map(|above| {
            let rest = path.strip_prefix(above).ok()?;
            Some(above.canonicalize().ok()?.join(rest))
        })
    };
    path.starts_with(folder)
        || real(path).zip(real(folder)).is_some_and(|(path, folder)| path.starts_with(folder))
}

/// How much a program and its descendants may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceLimits {
    /// Memory in MiB.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub memory_mb: u64,
    /// Processes and threads.
    #[schemars(range(min = 1, max = 65_536))]
    pub processes: u32,
    /// Processors, in hundredths: 100 is one of them.
    #[schemars(range(min = 1, max = 102_400))]
    pub cpu_percent: u32,
    /// The largest file that it may write, in MiB.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub file_mb: u64,
    /// What it may add to the folders that it may write, in MiB.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub disk_mb: u64,
    /// How many files it may add to them.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub files: u64,
    /// Open files of one process.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub open_files: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            memory_mb: 1024,
            processes: 256,
            cpu_percent: 200,
            file_mb: 512,
            disk_mb: 2048,
            files: 50_000,
            open_files: 1024,
        }
    }
}
