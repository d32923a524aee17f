//! As whom the program under test is run.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::ffi::OsStr;
use std::os::unix::fs::lchown;
use std::path::Path;

use tokio::process::Command;

/// Users of these ids are in no file of the system; each test takes one of its own.
const FIRST_FREE: u32 = 61_000;
const FREE: u32 = 4_000;

/// A user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// Whoever runs the tests.
    Myself,
    /// A user without any rights.
    Ordinary(u32),
}

impl Caller {
    /// Everybody who can be tested here: root and an ordinary user, if root runs the tests.
    pub(super) fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() {
            let ordinary = Self::Ordinary(FIRST_FREE + std::process::id() % FREE);
            return vec![Self::Myself, ordinary];
        }
        eprintln!("skipped: the half that needs root");
        vec![Self::Myself]
    }

    /// Whether it is root.
    pub(super) fn is_root(self) -> bool {
        self == Self::Myself && rustix::process::geteuid().is_root()
    }

    /// A command that runs as this user.
    pub(super) fn command(self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Self::Myself => Command::new(program),
            Self::Ordinary(id) => {
                let id = id.to_string();
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
                command.args(["--inh-caps=-all", "--"]).arg(program);
                command
            }
        }
    }

    /// Gives a file or folder to this user.
    pub(super) fn own(self, path: &Path) {
        if let Self::Ordinary(id) = self {
            lchown(path, Some(id), Some(id)).unwrap();
        }
    }
}
