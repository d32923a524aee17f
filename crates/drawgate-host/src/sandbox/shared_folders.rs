//! The folders that running boxes may write.
//!
//! What one program plants must not look to the next as if it had always been there. So a box that
//! comes to a folder where others are takes over what was missing when the first of them came.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::protected;

/// The folders in use. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedFolders(Arc<Mutex<BTreeMap<PathBuf, SharedFolder>>>);

#[derive(Debug)]
struct SharedFolder {
    /// One for each box in it: whether it was shared with another box.
    boxes: Vec<Arc<AtomicBool>>,
    absent: Vec<String>,
}

/// The use of folders by one box; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct FolderUse {
    in_use: SharedFolders,
    /// Protected names that are new if they are there at the end, by folder.
    pub(crate) absent: BTreeMap<PathBuf, Vec<String>>,
    is_shared: Arc<AtomicBool>,
    /// Protected names that it may leave there.
    pub(crate) unprotected: Vec<String>,
}

impl SharedFolders {
    /// Begins to use these folders.
    pub(crate) fn enter<'a>(
        &self,
        folders: impl Iterator<Item = &'a Path>,
        unprotected: &[String],
    ) -> FolderUse {
        let mut in_use = self.0.lock();
        let mut absent = BTreeMap::new();
        let is_shared = Arc::new(AtomicBool::new(false));
        for folder in folders {
            let meets = |other: &Path| other.starts_with(folder) || folder.starts_with(other);
            let near = in_use.iter().filter(|(other, _)| meets(other));
            for other in near.flat_map(|(_, shared)| &shared.boxes) {
                if !Arc::ptr_eq(other, &is_shared) {
                    other.store(true, Ordering::Relaxed);
                    is_shared.store(true, Ordering::Relaxed);
                }
            }
            let shared = in_use.entry(folder.to_owned()).or_insert_with(|| SharedFolder {
                boxes: Vec::new(),
                absent: protected::absent_in(folder),
            });
            shared.boxes.push(Arc::clone(&is_shared));
            absent.insert(folder.to_owned(), shared.absent.clone());
        }
        drop(in_use);
        FolderUse { in_use: self.clone(), absent, is_shared, unprotected: unprotected.to_vec() }
    }
}

impl FolderUse {
    /// Whether other boxes were in its folders, or in folders above or below them, at some time of it.
    pub(crate) fn was_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }
}

impl Drop for FolderUse {
    fn drop(&mut self) {
        let mut in_use = self.in_use.0.lock();
        for folder in self.absent.keys() {
            let is_last = in_use.get_mut(folder).is_some_and(|shared| {
                shared.boxes.retain(|other| !Arc::ptr_eq(other, &self.is_shared));
                shared.boxes.is_empty()
            });
            if is_last {
                in_use.remove(folder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_in_a_folder_together_knows() {
        let above = tempfile::tempdir().unwrap();
        let (one, other) = (above.path().join("one"), above.path().join("other"));
        let in_use = SharedFolders::default();
        let enter = |folder: &Path| in_use.enter([folder].into_iter(), &[]);
        let (first, elsewhere) = (enter(&one), enter(&other));
        let both = in_use.enter([one.as_path(), one.as_path()].into_iter(), &[]);
        assert!(first.was_shared() && both.was_shared() && !elsewhere.was_shared());
        drop((first, both));
        let later = enter(&one);
        assert!(!later.was_shared(), "the others are gone");
        drop(enter(&one.join("below")));
        assert!(later.was_shared(), "it was in a folder below");
        drop(enter(above.path()));
        assert!(elsewhere.was_shared(), "it was in a folder above");
    }

    #[test]
    fn what_one_plants_is_new_to_the_others_too() {
        let folder = tempfile::tempdir().unwrap();
        let in_use = SharedFolders::default();
        let is_new = |folder_use: &FolderUse| {
            folder_use.absent[folder.path()].iter().any(|name| name == ".mcp.json")
        };
        let first = in_use.enter([folder.path()].into_iter(), &[]);
        std::fs::write(folder.path().join(".mcp.json"), "{}").unwrap();
        let second = in_use.enter([folder.path()].into_iter(), &[]);
        assert!(is_new(&first) && is_new(&second));
        drop(first);
        assert!(is_new(&in_use.enter([folder.path()].into_iter(), &[])), "the second is still in");
        drop(second);
        assert!(!is_new(&in_use.enter([folder.path()].into_iter(), &[])), "nobody was in");
    }
}
