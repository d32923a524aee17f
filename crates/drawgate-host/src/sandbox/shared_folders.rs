//! Which folders boxes are in at the moment.
//!
//! What one program plants must not look to the next as if it had always been there. So a box that
//! comes to a folder where others are takes over what was missing when the first of them came.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::protected;

/// The folders. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rooms(Arc<Mutex<BTreeMap<PathBuf, Room>>>);

#[derive(Debug)]
struct Room {
    /// One for each box in it: whether it has had company.
    boxes: Vec<Arc<AtomicBool>>,
    absent: Vec<String>,
}

/// A box's stay in its folders; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Stay {
    rooms: Rooms,
    /// Protected names that are new if they are there at the end, by folder.
    pub(crate) absent: BTreeMap<PathBuf, Vec<String>>,
    company: Arc<AtomicBool>,
    /// Protected names that it may leave there.
    pub(crate) unprotected: Vec<String>,
}

impl Rooms {
    /// Comes to these folders.
    pub(crate) fn enter<'a>(
        &self,
        folders: impl Iterator<Item = &'a Path>,
        unprotected: &[String],
    ) -> Stay {
        let mut rooms = self.0.lock();
        let mut absent = BTreeMap::new();
        let company = Arc::new(AtomicBool::new(false));
        for folder in folders {
            let meets = |other: &Path| other.starts_with(folder) || folder.starts_with(other);
            let near = rooms.iter().filter(|(other, _)| meets(other));
            for other in near.flat_map(|(_, room)| &room.boxes) {
                if !Arc::ptr_eq(other, &company) {
                    other.store(true, Ordering::Relaxed);
                    company.store(true, Ordering::Relaxed);
                }
            }
            let room = rooms.entry(folder.to_owned()).or_insert_with(|| Room {
                boxes: Vec::new(),
                absent: protected::absent_in(folder),
            });
            room.boxes.push(Arc::clone(&company));
            absent.insert(folder.to_owned(), room.absent.clone());
        }
        drop(rooms);
        Stay { rooms: self.clone(), absent, company, unprotected: unprotected.to_vec() }
    }
}

impl Stay {
    /// Whether other boxes were in its folders, or in folders above or below them, at some time of it.
    pub(crate) fn had_company(&self) -> bool {
        self.company.load(Ordering::Relaxed)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut rooms = self.rooms.0.lock();
        for folder in self.absent.keys() {
            let is_last = rooms.get_mut(folder).is_some_and(|room| {
                room.boxes.retain(|other| !Arc::ptr_eq(other, &self.company));
                room.boxes.is_empty()
            });
            if is_last {
                rooms.remove(folder);
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
        let rooms = Rooms::default();
        let enter = |folder: &Path| rooms.enter([folder].into_iter(), &[]);
        let (first, elsewhere) = (enter(&one), enter(&other));
        let both = rooms.enter([one.as_path(), one.as_path()].into_iter(), &[]);
        assert!(first.had_company() && both.had_company() && !elsewhere.had_company());
        drop((first, both));
        let later = enter(&one);
        assert!(!later.had_company(), "the others are gone");
        drop(enter(&one.join("below")));
        assert!(later.had_company(), "it was in a folder below");
        drop(enter(above.path()));
        assert!(elsewhere.had_company(), "it was in a folder above");
    }

    #[test]
    fn what_one_plants_is_new_to_the_others_too() {
        let folder = tempfile::tempdir().unwrap();
        let rooms = Rooms::default();
        let is_new =
            |stay: &Stay| stay.absent[folder.path()].iter().any(|name| name == ".mcp.json");
        let first = rooms.enter([folder.path()].into_iter(), &[]);
        std::fs::write(folder.path().join(".mcp.json"), "{}").unwrap();
        let second = rooms.enter([folder.path()].into_iter(), &[]);
        assert!(is_new(&first) && is_new(&second));
        drop(first);
        assert!(is_new(&rooms.enter([folder.path()].into_iter(), &[])), "the second is still in");
        drop(second);
        assert!(!is_new(&rooms.enter([folder.path()].into_iter(), &[])), "nobody was in");
    }
}
