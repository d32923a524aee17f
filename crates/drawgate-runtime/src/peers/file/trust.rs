//! Whether a file and the folders on the way to it are ours alone.

use std::fs::Metadata;
use std::path::Path;

use drawgate_host::ownership::{is_ours, others_replace_in, others_write};

use super::{FileProblem, unreadable};

/// Checks a folder and those above it, up to the root or the user's home: who may write one of them
/// can put another folder in the place of the one below.
pub(super) fn check_folders(folder: &Path, home: Option<&Path>) -> Result<(), FileProblem> {
    for above in folder.ancestors() {
        check_folder(above, &above.metadata().map_err(unreadable(above))?)?;
        if Some(above) == home {
            break;
        }
    }
    Ok(())
}

fn check_folder(folder: &Path, metadata: &Metadata) -> Result<(), FileProblem> {
    let shown = || folder.display().to_string();
    if !is_ours(metadata) {
        return Err(FileProblem::NotOurs(shown()));
    }
    if others_replace_in(metadata) {
        return Err(FileProblem::Writable(shown()));
    }
    Ok(())
}

pub(super) fn check_file(path: &Path, metadata: &Metadata) -> Result<(), FileProblem> {
    let shown = || path.display().to_string();
    if !metadata.is_file() {
        return Err(FileProblem::NotAFile(shown()));
    }
    if !is_ours(metadata) {
        return Err(FileProblem::NotOurs(shown()));
    }
    if others_write(metadata) {
        return Err(FileProblem::Writable(shown()));
    }
    Ok(())
}
