//! Follows edits of profiles for as long as a gateway runs.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::Profiles;
use crate::settle::{Stamp, settled, stamp};

/// How often the folders are looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// Files that are looked at; a folder with more can't be used anyway.
const MAX_FILES: usize = 10_000;

impl Profiles {
    /// Reads the folders whenever something in them has changed.
    pub(crate) async fn follow(&self) {
        let mut seen = None;
        loop {
            let look = || {
                let folders = self.state.lock().folders.paths.clone();
                async move { spawn_blocking(move || stamps(&folders)).await.ok() }
            };
            if seen != look().await {
                // Taken before the files are read, so that a later edit is seen the next time. Half a profile
                // never counts, since it has another hash; so nothing is missing that would be waited for.
                let now = settled(look, || None).await;
                self.refresh().await;
                seen = now;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn stamps(folders: &[PathBuf]) -> Vec<(PathBuf, Stamp)> {
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut all: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .take(MAX_FILES)
        .map(|path| (path.clone(), stamp(&path)))
        .collect();
    all.sort();
    all
}
