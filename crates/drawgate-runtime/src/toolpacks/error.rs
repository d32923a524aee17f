//! Why something could not be done with a toolpack.

use std::io;
use std::path::{Path, PathBuf};

use drawgate_sources::toolpack::Problems;

use super::id::PackId;
use super::remote::RemoteError;
use crate::lock::LockError;

/// The kinds of refusal, by names that do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A name or path that no pack may hold.
    Path,
    /// A symbolic or hard link.
    Link,
    /// Neither a regular file nor a folder.
    Type,
    /// Too much of something.
    Limit,
    /// Not a well-formed archive.
    Format,
    /// The manifest is absent or has mistakes.
    Manifest,
    /// Not what the lock file pins.
    Pin,
    /// An older version than the installed one.
    Downgrade,
    /// A reference that does not say exactly one commit, branch or tag.
    Ref,
    /// The pack's name is taken by a pack from elsewhere.
    Source,
}

impl Code {
    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "REJECT_PATH",
            Self::Link => "REJECT_LINK",
            Self::Type => "REJECT_TYPE",
            Self::Limit => "REJECT_LIMIT",
            Self::Format => "REJECT_FORMAT",
            Self::Manifest => "REJECT_MANIFEST",
            Self::Pin => "REJECT_PIN",
            Self::Downgrade => "REJECT_DOWNGRADE",
            Self::Ref => "REJECT_REF",
            Self::Source => "REJECT_SOURCE",
        }
    }
}

/// Why something could not be done with a toolpack.
#[derive(Debug, thiserror::Error)]
pub enum ToolpackError {
    /// The pack is not acceptable.
    #[error("{message}")]
    Rejected {
        /// The kind of refusal.
        code: Code,
        /// What is wrong and what to do.
        message: String,
    },
    /// A reference means another commit than when the pack was installed.
    #[error("`{reference}` was commit `{installed}` when `{id}` was installed, and is `{now}` now")]
    Moved {
        /// The installed pack.
        id: PackId,
        /// The branch or tag.
        reference: String,
        /// The commit that is installed.
        installed: String,
        /// The commit that it means now.
        now: String,
    },
    /// The pack's manifest is not acceptable.
    #[error("its `toolpack.json` has mistakes:\n{0}")]
    Manifest(Problems),
    /// No such pack.
    #[error("no toolpack `{id}` is installed; {}", installed_in_words(.installed))]
    Unknown {
        /// The name.
        id: String,
        /// The names of those that are.
        installed: Vec<String>,
    },
    /// Something else works on the folder.
    #[error("another process is working on `{}`; try again when it has finished", .0.display())]
    Busy(PathBuf),
    /// What was staged is not there any more.
    #[error("what was prepared as `{0}` is gone; install it again")]
    NotStaged(String),
    /// The lock file is damaged or from a newer version.
    #[error("`{}` can't be used: {reason}; restore it from a copy or from version control; without one, move it and the folder of the packs away, and install them again", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is something already.
    #[error("`{}` is already there; choose another name, or move it away", .0.display())]
    Exists(PathBuf),
    /// GitHub did not give it.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The machine refused.
    #[error("can't {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Whether a pack is what was installed can't be told.
    #[error("{0}; make it readable, and try again")]
    Unread(Unread),
    /// The machine gave no random bytes.
    #[error("this machine gives no random bytes")]
    NoRandomness,
}

/// What of a pack could not be read, and why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` can't be read: {reason}", path.display())]
pub struct Unread {
    /// The file or folder.
    pub path: PathBuf,
    /// What the machine said.
    pub reason: String,
}

impl Unread {
    pub(super) fn new(path: &Path, error: &io::Error) -> Self {
        Self { path: path.to_owned(), reason: error.to_string() }
    }
}

impl ToolpackError {
    /// The kind of refusal, where the pack was refused.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Rejected { code, .. } => Some(*code),
            Self::Moved { .. } => Some(Code::Pin),
            Self::Manifest(_) => Some(Code::Manifest),
            Self::Remote(error) => error.code(),
            Self::Unknown { .. }
            | Self::Busy(_)
            | Self::NotStaged(_)
            | Self::Lock { .. }
            | Self::Exists(_)
            | Self::Io { .. }
            | Self::Unread(_)
            | Self::NoRandomness => None,
        }
    }

    pub(super) fn rejected(code: Code, message: impl Into<String>) -> Self {
        Self::Rejected { code, message: message.into() }
    }

    /// For `map_err`: what was tried, on what.
    pub(crate) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source: source.into() }
    }
}

impl From<LockError> for ToolpackError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Content { path, reason } => Self::Lock { path, reason },
            LockError::Io { action, path, source } => Self::Io { action, path, source },
            LockError::Busy(path) => Self::Busy(path),
        }
    }
}

fn installed_in_words(installed: &[String]) -> String {
    if installed.is_empty() {
        return "there are none yet".to_owned();
    }
    let names: Vec<String> = installed.iter().map(|id| format!("`{id}`")).collect();
    format!("there are {}", names.join(", "))
}
