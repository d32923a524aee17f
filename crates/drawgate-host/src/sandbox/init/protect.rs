//! Protected and secret names inside the box: read-only, or hidden.

use std::io;
use std::path::{Path, PathBuf};

use super::mounts::hide;
use super::trees::{Rights, cover_with_itself};
use crate::sandbox::entries::FolderEntries;
use crate::sandbox::plan::Plan;
use crate::sandbox::protected::{self, SECRETS};

/// Mounts over what is there of them. What is not there is watched from outside (`sweep`).
pub(super) fn mount(plan: &Plan) -> io::Result<()> {
    let writable: Vec<&Path> = plan.writable().collect();
    for folder in &writable {
        protect(folder, plan, &writable)?;
    }
    for folder in plan.binds.iter().map(|bind| &bind.path) {
        let entries = FolderEntries::at(folder);
        let secrets = SECRETS.iter().filter(|name| entries.may_have(name));
        for secret in secrets.map(|name| folder.join(name)) {
            if is_real(&secret) && !holds_another(&secret, plan) {
                hide(&secret)?;
            }
        }
    }
    Ok(())
}

fn protect(folder: &Path, plan: &Plan, writable: &[&Path]) -> io::Result<()> {
    let mut pinned: Vec<PathBuf> = Vec::new();
    let entries = FolderEntries::at(folder);
    let names = protected::names_but(&plan.unprotected).filter(|name| entries.may_have(name));
    for name in names.map(Path::new) {
        // The folder above must stay where it is, or another could take its place. Only what is
        // mounted can't be renamed.
        if let Some(above) = name.parent().filter(|above| !above.as_os_str().is_empty()) {
            let above = folder.join(above);
            if !pinned.contains(&above) && is_real(&above) {
                // As a file, it says where the real folder is.
                let rights = if above.is_dir() { Rights::Write } else { Rights::Read };
                cover_with_itself(&above, rights)?;
                pinned.push(above);
            }
        }
        let path = folder.join(name);
        if path.symlink_metadata().is_err() {
            continue;
        }
        let real = match path.canonicalize() {
            Ok(real) if writable.iter().any(|top| real.starts_with(top)) => real,
            Ok(_) | Err(_) => continue,
        };
        if real != folder && !holds_another(&real, plan) {
            cover_with_itself(&real, Rights::Read)?;
        }
    }
    Ok(())
}

/// Whether a folder that the plan shows lies in it: it was opened on purpose.
fn holds_another(path: &Path, plan: &Plan) -> bool {
    plan.binds.iter().any(|bind| bind.path != path && bind.path.starts_with(path))
}

/// Whether something is there that is not a link.
fn is_real(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| !found.is_symlink())
}
