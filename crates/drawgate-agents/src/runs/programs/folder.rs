//! The folders of programs: a home that the program may write, and settings that it may only read.
//!
//! What is in a home may be anything, links included. So it is filled once, before a program has been in
//! it, and after that only removed.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

/// The folders of one run.
#[derive(Debug, Clone)]
pub(super) struct Folders {
    pub(super) home: PathBuf,
    pub(super) settings: PathBuf,
}

/// A file for a program, by its path below the folder that it belongs to.
pub(super) type FileText = (&'static str, String);

impl Folders {
    /// Opens the folders of a run. The files of its home are written if it is new; those of its
    /// settings always.
    pub(super) async fn open(
        folder: PathBuf,
        of_home: Vec<FileText>,
        of_settings: Vec<FileText>,
    ) -> io::Result<Self> {
        let opened = spawn_blocking(move || Self::open_now(&folder, &of_home, &of_settings)).await;
        opened.map_err(io::Error::other)?
    }

    fn open_now(folder: &Path, of_home: &[FileText], of_settings: &[FileText]) -> io::Result<Self> {
        let (home, settings) = (folder.join("home"), folder.join("settings"));
        make(&settings)?;
        for (name, text) in of_settings {
            fs::write(settings.join(name), text)?;
        }
        if !home.try_exists()? {
            // The last step makes it one that is filled, so that a start that was cut off is made again.
            let new = folder.join("new");
            if new.try_exists()? {
                fs::remove_dir_all(&new)?;
            }
            make(&new)?;
            for (name, text) in of_home {
                let file = new.join(name);
                make(file.parent().unwrap_or(&new))?;
                fs::write(file, text)?;
            }
            fs::rename(&new, &home)?;
        }
        Ok(Self { home, settings })
    }
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes the folder of a run.
pub(super) async fn remove(folder: PathBuf) {
    // A task that panicked has removed nothing, and the next start tries again.
    let _ = spawn_blocking(move || remove_now(&folder)).await;
}

/// Removes all folders but those that are kept, by name. Each is asked about just before, since runs may
/// begin meanwhile.
pub(super) async fn remove_others(
    folder: PathBuf,
    is_kept: impl Fn(&str) -> bool + Send + 'static,
) {
    let removed = spawn_blocking(move || {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_name().to_str().is_some_and(&is_kept) {
                remove_now(&entry.path());
            }
        }
    });
    // A task that panicked has removed less, and the next start tries again.
    let _ = removed.await;
}

fn remove_now(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(%error, ?folder, "the folder of a run can't be removed; remove it");
        }
    }
}
