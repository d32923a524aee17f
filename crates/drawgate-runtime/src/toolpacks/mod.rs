//! Toolpacks on this machine: bringing them here, keeping them, and knowing what was brought.
//!
//! A pack comes from a folder or from GitHub, is laid out in a place of its own, looked at, and then
//! moved in together with its entry in `drawgate.lock`. What a pack says and does is
//! `drawgate_sources::toolpack`'s business; who may install one, the surfaces'.

mod archive;
mod change;
mod changes;
mod copy;
mod error;
mod folder;
mod github;
mod hash;
mod id;
mod install;
mod list;
mod lock;
mod origin;
mod paths;
mod pin;
mod remote;
mod scaffold;
mod staged;
mod takeover;
mod texts;
mod tree;
mod verify;
mod version;
mod walk;
mod web;

#[cfg(test)]
mod catalogue_tests;
#[cfg(test)]
mod testing;

pub use changes::{Changes, ToolChanges};
pub use copy::check_files;
pub(crate) use copy::copy as copy_folder;
pub use error::{Code, ToolpackError, Unread};
pub use folder::Folder;
pub use github::{Download, Github, Pinned, Progress};
pub(crate) use hash::{ManifestScope, hash as content_hash};
pub use id::{PackId, PackIdError};
pub use install::{Downgrade, Intent, Terms};
pub use list::{Installed, Integrity};
pub use lock::{LockEntries, LockEntry, installed_ids};
pub use origin::{GithubSource, Origin, OriginError};
pub use remote::RemoteError;
pub use scaffold::scaffold;
pub use staged::Staged;
pub(crate) use texts::texts;
