//! The folders that programs, tools and runs may write, or could write at some time.
//!
//! A link in such a folder is not the operator's word, whoever has put it there, and it stays there when
//! the program that made it is gone. So the list outlives the process.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use serde_json::Value;

use crate::own_files;

/// The list.
#[derive(Debug, Default)]
pub(super) struct WritableFolders(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    /// What the configuration gives away, as it is written there.
    declared: Vec<PathBuf>,
    /// What was given away, without links.
    given: BTreeSet<PathBuf>,
    /// Where that is kept: a line of JSON for each, so that several processes can add to it.
    file: Option<PathBuf>,
}

impl WritableFolders {
    /// Puts another configuration's folders in the place of the last one's.
    pub(super) fn declare(&self, folders: Vec<PathBuf>) {
        self.0.write().declared = folders;
    }

    /// Reads what was given away before, and keeps there what is given away from now on.
    pub(super) fn keep_in(&self, file: &Path) -> io::Result<()> {
        shrink(file)?;
        self.read_from(file)?;
        self.0.write().file = Some(file.to_owned());
        Ok(())
    }

    /// Reads what was given away before.
    pub(super) fn read_from(&self, file: &Path) -> io::Result<()> {
        let before = match own_files::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => folders(&text?),
        };
        self.0.write().given.extend(before);
        Ok(())
    }

    /// Adds a folder, without links, before it is given away.
    pub(super) fn add(&self, folder: &Path) -> io::Result<()> {
        let mut known = self.0.write();
        if folder.ancestors().any(|above| known.given.contains(above)) {
            return Ok(());
        }
        // Programs are given no folder whose name is not text.
        if let (Some(file), Some(text)) = (&known.file, folder.to_str()) {
            // Begun anew, so that a line that was cut off does not swallow it.
            let line = format!("\n{}\n", Value::from(text));
            let mut options = OpenOptions::new();
            let mut file = locked(file, options.create(true).append(true))?;
            file.write_all(line.as_bytes())?;
            file.sync_data()?;
        }
        known.given.insert(folder.to_owned());
        Ok(())
    }

    /// What was given away, also by another process meanwhile; and what the configuration gives away.
    pub(super) fn all(&self) -> (BTreeSet<PathBuf>, Vec<PathBuf>) {
        let known = self.0.read();
        let text = known.file.as_ref().and_then(|file| own_files::read(file).ok());
        let mut given = known.given.clone();
        given.extend(folders(&text.unwrap_or_default()));
        (given, known.declared.clone())
    }
}

/// Opens a list that no other process changes meanwhile. One that was replaced while its lock was awaited is
/// opened again.
fn locked(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    loop {
        let file = own_files::open(path, options)?;
        file.lock()?;
        let (own, named) = (file.metadata()?, path.symlink_metadata());
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
            return Ok(file);
        }
    }
}

/// Leaves out of a list what says nothing any more: folders in others of it, and those of the data folder
/// that are gone. Elsewhere a folder may be gone because its disk is.
fn shrink(path: &Path) -> io::Result<()> {
    let mut file = match locked(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let listed = folders(&text);
    let all: BTreeSet<&PathBuf> = listed.iter().collect();
    let data = path.parent().and_then(|data| data.canonicalize().ok());
    let is_gone = |folder: &Path| {
        data.as_deref().is_some_and(|data| folder.starts_with(data))
            && folder.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let is_within = |folder: &Path| {
        folder.ancestors().skip(1).any(|above| all.contains(&above.to_owned()) && !is_gone(above))
    };
    let left: Vec<&PathBuf> =
        all.iter().filter(|it| !is_gone(it) && !is_within(it)).copied().collect();
    if left.len() == listed.len() {
        return Ok(());
    }
    let lines = left.iter().filter_map(|it| Some(format!("{}\n", Value::from(it.to_str()?))));
    let unfinished = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut new = own_files::open(&unfinished, options.create(true).truncate(true).write(true))?;
    new.write_all(lines.collect::<String>().as_bytes())?;
    new.sync_all()?;
    std::fs::rename(unfinished, path)
}

/// The folders of a list. A line that was cut off is none.
fn folders(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}
