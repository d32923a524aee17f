//! Which folders boxes are in at the moment.
//!
//! What one program plants must not look to the next as if it had always been there. So a box that
//! comes to a folder where others are takes over what was missing when the first of them came.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::protected;

/// The folders. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rooms(Arc<Mutex<BTreeMap<PathBuf, Room>>>);

#[derive(Debug)]
struct Room {
    boxes: usize,
    absent: Vec<String>,
}

/// A box's stay in its folders; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Stay {
    rooms: Rooms,
    /// Protected names that are new if they are there at the end, by folder.
    pub(crate) absent: BTreeMap<PathBuf, Vec<String>>,
}

impl Rooms {
    /// Comes to these folders.
    pub(crate) fn enter<'a>(&self, folders: impl Iterator<Item = &'a Path>) -> Stay {
        let mut rooms = self.0.lock();
        let mut absent = BTreeMap::new();
        for folder in folders {
            let room = rooms
                .entry(folder.to_owned())
                .or_insert_with(|| Room { boxes: 0, absent: protected::absent_in(folder) });
            room.boxes += 1;
            absent.insert(folder.to_owned(), room.absent.clone());
        }
        drop(rooms);
        Stay { rooms: self.clone(), absent }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut rooms = self.rooms.0.lock();
        for folder in self.absent.keys() {
            let is_last = rooms.get_mut(folder).is_some_and(|room| {
                room.boxes = room.boxes.saturating_sub(1);
                room.boxes == 0
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
    fn what_one_plants_is_new_to_the_others_too() {
        let folder = tempfile::tempdir().unwrap();
        let rooms = Rooms::default();
        let is_new =
            |stay: &Stay| stay.absent[folder.path()].iter().any(|name| name == ".mcp.json");
        let first = rooms.enter([folder.path()].into_iter());
        std::fs::write(folder.path().join(".mcp.json"), "{}").unwrap();
        let second = rooms.enter([folder.path()].into_iter());
        assert!(is_new(&first) && is_new(&second));
        drop(first);
        assert!(is_new(&rooms.enter([folder.path()].into_iter())), "the second is still in");
        drop(second);
        assert!(!is_new(&rooms.enter([folder.path()].into_iter())), "nobody was in");
    }
}
