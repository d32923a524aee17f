//! Follows edits of the configuration file for as long as a gateway runs: an edit that is not in force
//! is tried again until it is, or until the file says something else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::assemble::Runtime;
use crate::config::Loaded;
use crate::edits::Applied;
use crate::packages::PackageLock;

/// How often the files are looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// The first and the longest pause before an edit that is not in force is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Puts edits of the configuration file into force. A file that can't be used changes nothing.
/// `look` has the files looked at without waiting.
pub(crate) async fn follow_config(runtime: Arc<Runtime>, look: Arc<Notify>) {
    let loaded = runtime.configuration();
    let Some(file) = loaded.watched().map(Path::to_owned) else { return };
    let mut follower =
        Follower { runtime, named: named_files(&loaded), loaded, file, is_gone: false };
    // The first look is for edits that were made while the gateway was put together.
    let mut seen = None;
    let mut retry = Retry::default();
    let mut asked = false;
    loop {
        // Taken before the files are read, so that a later edit is seen the next time.
        let now = follower.stamps();
        let is_edited = seen.as_ref() != Some(&now);
        if is_edited || asked {
            retry = Retry::default();
        }
        if is_edited || asked || retry.is_due() {
            let named = follower.named.clone();
            let is_settled = follower.look().await;
            retry = if is_settled { Retry::default() } else { retry.next() };
            // What other files are named is looked at once more: they may have changed since they were read.
            seen = (named == follower.named).then_some(now);
        }
        asked = tokio::select! {
            () = tokio::time::sleep(PAUSE) => false,
            () = look.notified() => true,
        };
    }
}

struct Follower {
    runtime: Arc<Runtime>,
    /// How the file is read.
    loaded: Loaded,
    file: PathBuf,
    /// The files that it names.
    named: Vec<PathBuf>,
    is_gone: bool,
}

impl Follower {
    /// Compares what the files say with what is in force. `false` if that should be tried again.
    async fn look(&mut self) -> bool {
        let text = match std::fs::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.note_gone();
                return true;
            }
            read => read.unwrap_or_default(),
        };
        self.is_gone = false;
        let loaded = match self.loaded.reload() {
            Ok(loaded) => loaded,
            Err(errors) => {
                let hash = hex::encode(Sha256::digest(text));
                self.runtime.reject(&hash, &errors.to_string()).await;
                return false;
            }
        };
        self.named = named_files(&loaded);
        match self.runtime.apply(&loaded).await {
            Ok(Applied::Now) => tracing::info!("configuration taken over"),
            Ok(Applied::Before) => {}
            // It has been reported.
            Err(_) => return false,
        }
        true
    }

    fn note_gone(&mut self) {
        self.runtime.edits.settle();
        let was_there = self.runtime.edits.status().in_force.file.is_some();
        if was_there && !std::mem::replace(&mut self.is_gone, true) {
            let file = self.file.display();
            tracing::warn!(
                "`{file}` is gone; the configuration that was read from it stays in force"
            );
        }
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        std::iter::once(&self.file).chain(&self.named).map(|path| stamp(path)).collect()
    }
}

/// When an edit that is not in force is tried again.
#[derive(Default)]
struct Retry {
    at: Option<(Instant, Duration)>,
}

impl Retry {
    fn is_due(&self) -> bool {
        self.at.is_some_and(|(at, _)| Instant::now() >= at)
    }

    fn next(&self) -> Self {
        let pause = self.at.map_or(FIRST_RETRY, |(_, pause)| (pause * 2).min(LAST_RETRY));
        Self { at: Some((Instant::now() + pause, pause)) }
    }
}

/// The files whose content counts as part of the configuration.
fn named_files(loaded: &Loaded) -> Vec<PathBuf> {
    let named = [&loaded.config.policy.file, &loaded.config.egress.ca_file];
    let named = named.into_iter().flatten().map(|file| loaded.resolve(file));
    named.chain(loaded.path.as_deref().map(PackageLock::path)).collect()
}

/// A file's time, size and inode.
type Stamp = (SystemTime, u64, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    Some((metadata.modified().ok()?, metadata.len(), inode))
}
