//! Why a program could not be put into the box, or was stopped in it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A part of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The kernel's version.
    Kernel,
    /// User, mount, process, network, IPC, host-name and cgroup namespaces.
    Namespaces,
    /// The user that the program runs as.
    Identity,
    /// The file system that it sees.
    Mounts,
    /// The folders that it may write.
    Workspace,
    /// The loopback device and the way to the proxy.
    Network,
    /// No capabilities, no new privileges.
    Capabilities,
    /// The filter of system calls.
    Seccomp,
    /// The kernel's second layer of file rules.
    Landlock,
    /// Limits of memory, processes, files and processor time.
    Limits,
    /// Starting the program itself, once all else was done.
    Program,
}

impl Part {
    /// Its name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Namespaces => "namespaces",
            Self::Identity => "identity",
            Self::Mounts => "mounts",
            Self::Workspace => "workspace",
            Self::Network => "network",
            Self::Capabilities => "capabilities",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Limits => "limits",
            Self::Program => "program",
        }
    }

    /// What an operator can do where it fails.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Kernel => "use Linux 5.14 or later",
            Self::Namespaces => {
                "let this user create user namespaces (`sysctl user.max_user_namespaces`, \
                 `kernel.unprivileged_userns_clone=1`, \
                 `kernel.apparmor_restrict_unprivileged_userns=0`; in a container, a seccomp profile \
                 that allows `unshare` and `mount`)"
            }
            Self::Identity => "run the gateway as an ordinary user, or as root with `CAP_SETUID`",
            Self::Mounts => "in a container, `/proc` must not be masked",
            Self::Workspace => {
                "use a folder that belongs to the gateway's user, on a file system with idmapped \
                 mounts (ext4, xfs, btrfs, tmpfs) if the gateway runs as root"
            }
            Self::Network => "network namespaces must be enabled in the kernel",
            Self::Capabilities | Self::Seccomp => "seccomp filters must be enabled in the kernel",
            Self::Landlock => {
                "enable Landlock in the kernel (`CONFIG_SECURITY_LANDLOCK`, `lsm=landlock`)"
            }
            Self::Limits => {
                "give smaller limits in `[sandbox]`, or the gateway a control group of its own \
                 (systemd: `Delegate=yes`)"
            }
            Self::Program => "check that the program can be executed, with its interpreter",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A limit that init itself watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of all processes together.
    Memory,
    /// Bytes added to writable folders.
    Disk,
    /// Files added to writable folders.
    Files,
}

/// Why the box could not be built, or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxError {
    /// The host was made without a launcher. The text says why.
    #[error("programs can't be sandboxed here: {0}")]
    NoLauncher(String),
    /// The profile `network` without a client to go out by.
    #[error("the profile `network` needs the gateway's egress; there is none here")]
    NoEgress,
    /// A file or folder that can't be given to the program.
    #[error("`{path}` can't be used in the sandbox: {reason}")]
    Folder {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
    /// The kernel did not give what the profile promises.
    #[error("the sandbox can't be built: {part}: {reason}; {}", part.advice())]
    Build {
        /// Which part.
        part: Part,
        /// What the system said.
        reason: String,
    },
    /// The program could not be started inside.
    #[error("`{program}` can't be started in the sandbox: {reason}")]
    Program {
        /// The program.
        program: String,
        /// What the system said.
        reason: String,
    },
    /// It used more than it may, and was stopped.
    #[error("stopped: {}", limit.sentence(*most))]
    Limit {
        /// Which limit.
        limit: Limit,
        /// How much it may use.
        most: u64,
    },
    /// More was added to its folders than it may add, while other programs had them too.
    #[error(
        "stopped: {}, by this program or by another that ran in the same folder at that time",
        limit.sentence_of_all(*most)
    )]
    SharedLimit {
        /// Which limit.
        limit: Limit,
        /// How much it may use.
        most: u64,
    },
    /// All programs in sandboxes together used too much, and it used most.
    #[error(
        "stopped: all sandboxed programs together used more than {most} MiB of memory \
         (`limits.sandbox_memory_mb`), and this one most of it"
    )]
    TotalMemory {
        /// How much all may use, in MiB.
        most: u64,
    },
}

impl SandboxError {
    /// A part that failed with what the system said.
    pub(crate) fn build(part: Part, what: &str, error: impl fmt::Display) -> Self {
        Self::Build { part, reason: format!("{what}: {error}") }
    }

    /// Whether the program ran, and was stopped.
    #[must_use]
    pub const fn was_stopped(&self) -> bool {
        match self {
            Self::Limit { .. } | Self::SharedLimit { .. } | Self::TotalMemory { .. } => true,
            Self::NoLauncher(_)
            | Self::NoEgress
            | Self::Folder { .. }
            | Self::Build { .. }
            | Self::Program { .. } => false,
        }
    }

    /// Whether it was stopped although it may have kept to its own limits: others had a part in it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::SharedLimit { .. } | Self::TotalMemory { .. })
    }

    /// The same, where other programs had the same folders meanwhile: files have no mark of who made
    /// them.
    pub(crate) fn into_shared(self) -> Self {
        match self {
            Self::Limit { limit: limit @ (Limit::Disk | Limit::Files), most } => {
                Self::SharedLimit { limit, most }
            }
            other => other,
        }
    }
}

impl Limit {
    fn sentence(self, most: u64) -> String {
        match self {
            Self::Memory => format!("it used more than {most} MiB of memory (`memory_mb`)"),
            Self::Disk => format!("it wrote more than {most} MiB to its folders (`disk_mb`)"),
            Self::Files => format!("it made more than {most} files in its folders (`files`)"),
        }
    }

    fn sentence_of_all(self, most: u64) -> String {
        match self {
            Self::Memory => self.sentence(most),
            Self::Disk => format!("more than {most} MiB were written to its folders (`disk_mb`)"),
            Self::Files => format!("more than {most} files were made in its folders (`files`)"),
        }
    }
}
