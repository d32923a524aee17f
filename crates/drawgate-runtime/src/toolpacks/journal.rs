//! Changing the folder and the lock file as one step.
//!
//! What is to be done is written down first; from then on it will be done, by this process or by the
//! next one that comes. Every step can be taken again without harm, so that the next one need not
//! know how far it got.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use drawgate_core::json;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::ToolpackError;
use super::files;
use super::folder::Folder;
use super::hash::{self, ManifestScope};
use super::id::PackId;
use super::lock::{LockEntry, LockFile};

const MODE: u32 = 0o600;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub(super) enum Act {
    /// What was staged takes its place.
    Install {
        id: PackId,
        /// The name of the place where it was staged.
        staged: String,
        /// By which the staged folder is recognised, wherever it is by now.
        exact_hash: String,
        entry: Box<LockEntry>,
    },
    /// A pack goes away.
    Remove {
        id: PackId,
        /// The name of the place where it goes.
        trash: String,
    },
}

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Write down what will be done.
    Record,
    /// Move the folder.
    Move,
    /// Replace the lock file.
    Lock,
    /// Strike out what was written down.
    Forget,
}

pub(super) const STEPS: [Step; 4] = [Step::Record, Step::Move, Step::Lock, Step::Forget];

/// Does it, or leaves all as it was. The caller holds the folder's lock.
pub(super) fn apply(folder: &Folder, act: &Act) -> Result<(), ToolpackError> {
    let before = LockFile::read(folder.lock_path())?;
    take(folder, act, Step::Record)?;
    let done = [Step::Move, Step::Lock].into_iter().try_for_each(|step| take(folder, act, step));
    if let Err(error) = done {
        // What can't be taken back stands in the journal, and is finished by the next one that comes.
        drop(roll_back(folder, act, &before));
        return Err(error);
    }
    take(folder, act, Step::Forget)
}

fn roll_back(folder: &Folder, act: &Act, before: &LockFile) -> Result<(), ToolpackError> {
    if LockFile::read(folder.lock_path())? != *before {
        before.write(folder.lock_path())?;
    }
    match act {
        Act::Install { id, staged, exact_hash, .. } => {
            move_back(&folder.staged_pack(staged), &folder.pack_path(id), exact_hash)?;
        }
        Act::Remove { id, trash } => move_out(&folder.trash_path(trash), &folder.pack_path(id))?,
    }
    take(folder, act, Step::Forget)
}

/// Finishes what was begun and not finished. The caller holds the folder's lock.
pub(super) fn recover(folder: &Folder) -> Result<(), ToolpackError> {
    let path = folder.journal_path();
    files::discard(&files::unfinished(&path))?;
    files::discard(&files::unfinished(folder.lock_path()))?;
    let Some(bytes) = files::read_if_there(&path)? else { return Ok(()) };
    let act = json::parse(&bytes)
        .map_err(|error| error.to_string())
        .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()))
        .map_err(|reason| ToolpackError::Lock { path: path.clone(), reason })?;
    match STEPS.into_iter().skip(1).try_for_each(|step| take(folder, &act, step)) {
        // The folder was never moved and can't be any more: all is as it was before.
        Err(ToolpackError::NotStaged(_)) => take(folder, &act, Step::Forget),
        other => other,
    }
}

/// Takes one step. Taking it again changes nothing.
pub(super) fn take(folder: &Folder, act: &Act, step: Step) -> Result<(), ToolpackError> {
    match (step, act) {
        (Step::Record, _) => record(folder, act),
        (Step::Move, Act::Install { id, staged, exact_hash, .. }) => {
            move_in(&folder.staged_pack(staged), &folder.pack_path(id), exact_hash)
        }
        (Step::Move, Act::Remove { id, trash }) => {
            move_out(&folder.pack_path(id), &folder.trash_path(trash))
        }
        (Step::Lock, _) => change_lock(folder.lock_path(), act),
        (Step::Forget, _) => {
            files::discard(&folder.journal_path())?;
            files::sync_folder(folder.path())
        }
    }
}

fn record(folder: &Folder, act: &Act) -> Result<(), ToolpackError> {
    // Text keys and plain values always serialise.
    let text = serde_json::to_vec_pretty(act).unwrap_or_default();
    files::replace(&folder.journal_path(), &text, MODE)
}

fn change_lock(path: &Path, act: &Act) -> Result<(), ToolpackError> {
    let mut lock = LockFile::read(path)?;
    match act {
        Act::Install { id, entry, .. } => {
            lock.toolpacks.insert(id.clone(), entry.as_ref().clone());
        }
        Act::Remove { id, .. } => {
            lock.toolpacks.remove(id);
        }
    }
    lock.write(path)
}

/// Puts the staged folder in its place; what was there goes where the staged one was.
fn move_in(staged: &Path, place: &Path, exact_hash: &str) -> Result<(), ToolpackError> {
    if is_it(place, exact_hash) {
        return Ok(());
    }
    if !is_it(staged, exact_hash) {
        return Err(ToolpackError::NotStaged(staged.display().to_string()));
    }
    let exchanged = match rename(staged, place, RenameFlags::EXCHANGE) {
        // Nothing is there to exchange it with, or this file system can't: the journal covers the
        // moment between two moves.
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS) => in_two_moves(staged, place),
        other => other.map_err(io::Error::from),
    };
    exchanged.map_err(ToolpackError::io("write", place))?;
    sync_both(staged, place)
}

fn is_it(folder: &Path, exact_hash: &str) -> bool {
    hash::hash(folder, ManifestScope::Bytes).is_ok_and(|hash| hash == exact_hash)
}

fn in_two_moves(staged: &Path, place: &Path) -> io::Result<()> {
    if place.exists() {
        fs::rename(place, aside(staged))?;
    }
    fs::rename(staged, place)
}

/// Where the pack that was there goes between two moves.
fn aside(staged: &Path) -> PathBuf {
    staged.with_extension("old")
}

/// Undoes [`move_in`], however far it got.
fn move_back(staged: &Path, place: &Path, exact_hash: &str) -> Result<(), ToolpackError> {
    if place.exists() && !is_it(place, exact_hash) {
        return Ok(());
    }
    let exchanged = match rename(staged, place, RenameFlags::EXCHANGE) {
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS) => back_in_two_moves(staged, place),
        other => other.map_err(io::Error::from),
    };
    exchanged.map_err(ToolpackError::io("write", place))?;
    sync_both(staged, place)
}

fn back_in_two_moves(staged: &Path, place: &Path) -> io::Result<()> {
    if place.exists() {
        fs::rename(place, staged)?;
    }
    let before = aside(staged);
    if before.exists() { fs::rename(before, place) } else { Ok(()) }
}

fn move_out(place: &Path, trash: &Path) -> Result<(), ToolpackError> {
    match rename(place, trash, RenameFlags::NOREPLACE) {
        // It is gone already, or went there before and somebody has put another in its place.
        Err(Errno::NOENT | Errno::EXIST) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::rename(place, trash).map_err(ToolpackError::io("remove", place))
        }
        other => other.map_err(ToolpackError::io("remove", place)),
    }?;
    sync_both(place, trash)
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(CWD, from, CWD, to, flags)
}

fn sync_both(one: &Path, other: &Path) -> Result<(), ToolpackError> {
    for parent in [one, other].into_iter().filter_map(Path::parent).filter(|path| path.exists()) {
        files::sync_folder(parent)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
