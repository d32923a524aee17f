//! Whether what was brought may take the place of what is installed.

use super::error::{Code, ToolpackError};
use super::folder::Folder;
use super::github::Pinned;
use super::id::PackId;
use super::install::{Downgrade, Intent, Terms};
use super::lock::{LockEntries, LockEntry};
use super::version;

impl Folder {
    /// Whether a reference still means the commit that is installed; asked before a download. Only an
    /// update may move it.
    pub fn check_pin(&self, pinned: &Pinned, terms: &Terms) -> Result<(), ToolpackError> {
        let source = pinned.source.locked_as();
        let lock = self.lock()?;
        let mut same = lock.iter().filter(|(_, entry)| is_same_source(&entry.source, &source));
        same.try_for_each(|(id, entry)| {
            check_commit(id, entry, Some(&pinned.reference), Some(&pinned.commit), terms)
        })
    }
}

/// Whether a staged pack may be installed, and the entry that it replaces.
pub(super) fn check(
    lock: &LockEntries,
    id: &PackId,
    new: &LockEntry,
    terms: &Terms,
) -> Result<Option<LockEntry>, ToolpackError> {
    let Some(old) = lock.get(id) else { return Ok(None) };
    if !is_same_source(&old.source, &new.source) {
        let message = format!(
            "a toolpack `{id}` is installed from `{}`, and this one is from `{}`; remove it first if you want this one",
            old.source, new.source
        );
        return Err(ToolpackError::rejected(Code::Source, message));
    }
    check_commit(id, old, new.reference.as_deref(), new.commit.as_deref(), terms)?;
    if old.commit.is_some() && old.commit == new.commit && old.content_hash != new.content_hash {
        let message = format!(
            "the archive of commit `{}` is not what it was when `{id}` was installed; a commit never changes, so one of them was tampered with",
            old.commit.as_deref().unwrap_or_default()
        );
        return Err(ToolpackError::rejected(Code::Pin, message));
    }
    if terms.downgrade == Downgrade::Refuse && version::is_older(&new.version, &old.version) {
        let message = format!(
            "`{id}` is installed in version `{}`, and this one is older: `{}`",
            old.version, new.version
        );
        return Err(ToolpackError::rejected(Code::Downgrade, message));
    }
    Ok(Some(old.clone()))
}

/// GitHub does not tell capitals apart; folders do.
fn is_same_source(one: &str, other: &str) -> bool {
    one == other || (one.starts_with("github:") && one.eq_ignore_ascii_case(other))
}

/// The same name must mean the same commit, unless an update was asked for.
fn check_commit(
    id: &PackId,
    old: &LockEntry,
    reference: Option<&str>,
    commit: Option<&str>,
    terms: &Terms,
) -> Result<(), ToolpackError> {
    let moved = old.reference.as_deref() == reference && old.commit.as_deref() != commit;
    match terms.intent {
        Intent::Update => Ok(()),
        Intent::Install if !moved => Ok(()),
        Intent::Install => {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            Err(ToolpackError::Moved {
                id: id.clone(),
                reference: text(reference),
                installed: text(old.commit.as_deref()),
                now: text(commit),
            })
        }
    }
}

#[cfg(test)]
#[path = "pin_tests.rs"]
mod tests;
