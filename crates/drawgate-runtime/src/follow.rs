//! Follows edits of the configuration file, and of the files that count with it, for as long as a gateway
//! runs: an edit that is not in force is tried again until it is, or until the files say something else.

use std::collections::BTreeMap;
use std::future::ready;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use drawgate_host::user_files;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::assemble::{Files, Runtime};
use crate::config::Loaded;
use crate::edits::Applied;
use crate::packages::PackageLock;
use crate::settle::{Stamp, lacks_lines, settled, stamp};

/// How often the files are looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// The first and the longest pause before an edit that is not in force is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Puts edits of the configuration file into force. A file that can't be used changes nothing.
pub(crate) async fn follow_config(runtime: Arc<Runtime>) {
    let asks = Arc::clone(&runtime.edits);
    let loaded = runtime.configuration();
    let Some(file) = loaded.watched().map(Path::to_owned) else { return };
    let files = followed(&file, &loaded);
    let in_force = texts(&files);
    // An edit may have begun before this look; then it is not known what the files said.
    let is_same = loaded.reload().is_ok_and(|now| {
        Files::read(&now).is_ok_and(|files| asks.is_in_force(files.fingerprint()))
    });
    let in_force = is_same.then_some(in_force);
    let mut follower = Follower { runtime, in_force, loaded, file, files, is_gone: false };
    // The first look is for edits that were made while the gateway was put together.
    let mut seen = None;
    let mut retry = Retry::default();
    let mut asked = false;
    loop {
        let is_edited = seen.as_ref() != Some(&follower.stamps());
        if is_edited || asked {
            retry = Retry::default();
        }
        if is_edited || asked || retry.is_due() {
            let now = follower.settle().await;
            let finished = asks.take_finished();
            seen = match follower.look(&now).await {
                Looked::Done => {
                    retry = Retry::default();
                    Some(now)
                }
                Looked::Failed => {
                    retry = retry.next();
                    Some(now)
                }
                Looked::Moved => {
                    asks.restore_finished(finished);
                    continue;
                }
            };
        }
        asked = tokio::select! {
            () = tokio::time::sleep(PAUSE) => false,
            () = asks.asked() => true,
        };
    }
}

struct Follower {
    runtime: Arc<Runtime>,
    /// How the file is read.
    loaded: Loaded,
    file: PathBuf,
    /// It, and the files that count with it.
    files: Vec<PathBuf>,
    /// What they said when they were last in force, if that is known.
    in_force: Option<BTreeMap<PathBuf, Vec<u8>>>,
    is_gone: bool,
}

/// What came of a look at the files.
enum Looked {
    /// They say what is in force.
    Done,
    /// They can't be put in force; that should be tried again.
    Failed,
    /// Others count, or they were written to again.
    Moved,
}

impl Follower {
    /// Waits until the files have stopped changing.
    async fn settle(&self) -> Vec<Stamp> {
        settled(|| ready(self.stamps()), || self.missing()).await
    }

    /// Compares what the settled files say with what is in force.
    async fn look(&mut self, settled: &[Stamp]) -> Looked {
        let texts = texts(&self.files);
        let text = texts.get(&self.file);
        if text.is_none() && self.note_gone() {
            return Looked::Done;
        }
        self.is_gone = text.is_none();
        let loaded = self.loaded.reload();
        let files = loaded.as_ref().map(|loaded| followed(&self.file, loaded));
        let files = files.unwrap_or_else(|_| self.files.clone());
        let read = loaded.map_err(anyhow::Error::from);
        let read = read.and_then(|loaded| Ok((Files::read(&loaded)?, loaded)));
        // Only what has settled counts, and all files that it is about must have.
        if files != self.files || self.stamps() != settled {
            self.files = files;
            return Looked::Moved;
        }
        let applied = match read {
            Ok((files, loaded)) => self.runtime.apply_read(&loaded, files).await,
            Err(error) => {
                let hash = hex::encode(Sha256::digest(text.map(Vec::as_slice).unwrap_or_default()));
                self.runtime.reject(&hash, &format!("{error:#}")).await;
                return Looked::Failed;
            }
        };
        match applied {
            Ok(Applied::Now) => tracing::info!("configuration reloaded"),
            // The lock also says which toolpacks are enabled, which is not part of the configuration.
            Ok(Applied::Before) => self.runtime.operations.toolpacks.refresh().await,
            // It has been reported.
            Err(_) => return Looked::Failed,
        }
        self.in_force = Some(texts);
        Looked::Done
    }

    /// Whether a configuration was read from the file, which is gone now: it stays in force.
    fn note_gone(&mut self) -> bool {
        let was_there = self.runtime.edits.status().in_force.file.is_some();
        if was_there {
            self.runtime.edits.settle();
        }
        if was_there && !std::mem::replace(&mut self.is_gone, true) {
            let file = self.file.display();
            tracing::warn!(
                "`{file}` is gone; the configuration that was read from it stays in force"
            );
        }
        was_there
    }

    /// A file from which something is missing that is in force, and that is not called finished.
    fn missing(&self) -> Option<PathBuf> {
        let now = texts(&self.files);
        let lacks = |path: &&PathBuf| {
            let text = now.get(*path).map(Vec::as_slice);
            let lacks = match &self.in_force {
                Some(in_force) => in_force
                    .get(*path)
                    .is_some_and(|earlier| lacks_lines(text.unwrap_or_default(), earlier)),
                None => text.is_some() || **path == self.file,
            };
            lacks && !self.runtime.edits.is_finished(text)
        };
        self.files.iter().find(lacks).cloned()
    }

    fn stamps(&self) -> Vec<Stamp> {
        self.files.iter().map(|path| stamp(path)).collect()
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

/// The configuration file, and the files whose content counts with it.
fn followed(file: &Path, loaded: &Loaded) -> Vec<PathBuf> {
    let named = [&loaded.config.policy.file, &loaded.config.egress.ca_file];
    let named = named.into_iter().flatten().map(|file| loaded.resolve(file));
    [file.to_owned(), PackageLock::path(file)].into_iter().chain(named).collect()
}

/// What files say; one that is not there, nothing.
fn texts(files: &[PathBuf]) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: &PathBuf| match user_files::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some((path.clone(), read.unwrap_or_default())),
    };
    files.iter().filter_map(read).collect()
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
