//! Lays a pack's files out in a new folder, with ordinary modes, on the disk when it is done.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::error::{Code, ToolpackError};
use super::walk::MAX_BYTES;
use crate::files;

const FOLDER_MODE: u32 = 0o755;
pub(super) const FILE_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;

/// A folder under construction. Paths are relative and have been checked; no other process writes here.
pub(super) struct Tree {
    root: PathBuf,
    folders: BTreeSet<String>,
    bytes: u64,
}

impl Tree {
    /// Makes the folder, which must not be there.
    pub(super) fn create(root: &Path) -> Result<Self, ToolpackError> {
        make(root)?;
        Ok(Self { root: root.to_owned(), folders: BTreeSet::new(), bytes: 0 })
    }

    /// Makes a folder and those above it.
    pub(super) fn folder(&mut self, path: &str) -> Result<(), ToolpackError> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for above in ends.filter_map(|end| path.get(..end)) {
            if !self.folders.contains(above) {
                make(&self.root.join(above))?;
                self.folders.insert(above.to_owned());
            }
        }
        Ok(())
    }

    /// Writes a file. Only whether its owner may run it is taken over of its mode.
    pub(super) fn file(
        &mut self,
        path: &str,
        executable: bool,
        content: impl Read,
    ) -> Result<(), ToolpackError> {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        let place = self.root.join(path);
        let mode = if executable { PROGRAM_MODE } else { FILE_MODE };
        let left = MAX_BYTES.saturating_sub(self.bytes);
        let written = write_content(&place, mode, content.take(left.saturating_add(1)))
            .map_err(ToolpackError::io("write", &place))?;
        self.bytes += written;
        if written > left {
            let message = format!("the toolpack is too large: more than {MAX_BYTES} bytes");
            return Err(ToolpackError::rejected(Code::Limit, message));
        }
        Ok(())
    }

    /// Has all of it on the disk. The files are there already; their names follow.
    pub(super) fn finish(self) -> Result<(), ToolpackError> {
        let folders = self.folders.iter().map(|folder| self.root.join(folder));
        for folder in folders.chain([self.root.clone()]) {
            files::sync_folder(&folder).map_err(ToolpackError::io("write", &folder))?;
        }
        Ok(())
    }
}

fn write_content(place: &Path, mode: u32, mut content: impl Read) -> io::Result<u64> {
    let mut file: File = files::create(place, mode)?;
    let written = io::copy(&mut content, &mut file)?;
    file.flush()?;
    file.sync_all()?;
    Ok(written)
}

fn make(folder: &Path) -> Result<(), ToolpackError> {
    fs::create_dir(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE)))
        .map_err(ToolpackError::io("make", folder))
}
