//! Follows edits of profiles for as long as a gateway runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;

use super::Profiles;

/// How often the folders are looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// Files that are looked at; a folder with more can't be used anyway.
const MAX_FILES: usize = 10_000;

impl Profiles {
    /// Reads the folders whenever something in them has changed.
    pub(crate) async fn follow(&self) {
        let mut seen = None;
        loop {
            // Taken before the files are read, so that a later edit is seen the next time.
            let folders = self.state.lock().folders.paths.clone();
            let now = spawn_blocking(move || stamps(&folders)).await.ok();
            if now != seen {
                self.refresh().await;
                seen = now;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A file with its time and size.
type Stamp = (PathBuf, Option<SystemTime>, u64);

fn stamps(folders: &[PathBuf]) -> Vec<Stamp> {
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut all: Vec<Stamp> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .take(MAX_FILES)
        .map(|path| stamp(&path))
        .collect();
    all.sort();
    all
}

fn stamp(path: &Path) -> Stamp {
    let about = std::fs::symlink_metadata(path).ok();
    let time = about.as_ref().and_then(|about| about.modified().ok());
    (path.to_owned(), time, about.map_or(0, |about| about.len()))
}
