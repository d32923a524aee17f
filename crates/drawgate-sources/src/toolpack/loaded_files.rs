//! Whether a pack's files are still those that it was loaded from: asked before each start of one of its
//! programs.
//!
//! Looking at the metadata that the file system keeps is cheap, and a program that writes to a file
//! can't restore all of it. Where they differ, the content decides: a copy or a new owner changes nothing.

mod files;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;

use files::{Content, Fault, Mark, content, marks, shown};

type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// The files of a pack, as they were when it was loaded.
pub(super) struct LoadedFiles {
    folder: PathBuf,
    files: Mutex<BTreeMap<PathBuf, (Mark, Content)>>,
    /// How the files were changed; once set, it stays.
    changed: OnceLock<String>,
    listener: OnceLock<Listener>,
}

impl LoadedFiles {
    /// Notes the files of a folder.
    pub(super) fn new(folder: &Path) -> Result<Self, String> {
        let failed = |fault: Fault| format!("`{}`: {fault}", folder.display());
        let mut files = BTreeMap::new();
        for (path, mark) in marks(folder).map_err(failed)? {
            let content = content(folder, &path, mark).map_err(failed)?;
            files.insert(path, (mark, content));
        }
        Ok(Self {
            folder: folder.to_owned(),
            files: Mutex::new(files),
            changed: OnceLock::new(),
            listener: OnceLock::new(),
        })
    }

    /// Sets the listener that is told when a change is found.
    pub(super) fn when_changed(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        // There is one, who made the pack.
        let _first = self.listener.set(Box::new(listener));
    }

    /// Why no program of the pack may be started: its files are not the same any more, or can't be
    /// looked at just now. It reads files; call it where that may take its time.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.is_changed() {
            self.judge(self.compare())?;
        }
        self.known()
    }

    /// The same by what was found before. It reads nothing.
    pub(super) fn known(&self) -> Result<(), String> {
        self.changed.get().map_or(Ok(()), |how| {
            Err(format!(
                "the toolpack was changed since it was loaded: {how}; install it again, or put back what was installed"
            ))
        })
    }

    /// Whether a change was found.
    pub(super) fn is_changed(&self) -> bool {
        self.changed.get().is_some()
    }

    /// Takes a change down for good. What may pass refuses this one start.
    fn judge(&self, compared: Result<(), Fault>) -> Result<(), String> {
        match compared {
            Ok(()) => Ok(()),
            Err(fault @ Fault::Unread { .. }) => Err(format!(
                "it can't be seen whether the toolpack is still what was loaded: {fault}; try again"
            )),
            Err(Fault::Changed(how)) => {
                if self.changed.set(how.clone()).is_ok()
                    && let Some(listener) = self.listener.get()
                {
                    listener(&how);
                }
                Ok(())
            }
        }
    }

    fn compare(&self) -> Result<(), Fault> {
        for (path, mark) in self.remarked(marks(&self.folder)?)? {
            let content = content(&self.folder, &path, mark)?;
            // The lock is not held while files are read.
            match self.files.lock().get_mut(&path) {
                Some((known, expected)) if *expected == content => *known = mark,
                Some(_) | None => return Err(Fault::changed(&path)),
            }
        }
        Ok(())
    }

    /// The files whose marks are others than they were.
    fn remarked(&self, found: BTreeMap<PathBuf, Mark>) -> Result<Vec<(PathBuf, Mark)>, Fault> {
        let files = self.files.lock();
        if let Some(gone) = files.keys().find(|path| !found.contains_key(*path)) {
            return Err(Fault::Changed(format!("`{}` is gone", shown(gone))));
        }
        if let Some(new) = found.keys().find(|path| !files.contains_key(*path)) {
            return Err(Fault::Changed(format!("`{}` is new", shown(new))));
        }
        let is_other =
            |(path, mark): &(PathBuf, Mark)| files.get(path).is_none_or(|known| known.0 != *mark);
        Ok(found.into_iter().filter(is_other).collect())
    }
}

#[cfg(test)]
#[path = "loaded_files_tests.rs"]
mod tests;
