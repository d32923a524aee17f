//! What decides about programs: files and folders that none of them may reach.
//!
//! Whoever can write such a file, replace it, or rename a folder above it, decides in the gateway's
//! place. So a folder that somebody else may write is never above one of them, nor in it. They are
//! told apart by what they are and not by how they are called: through links, through mounts, and by
//! their numbers in the file system.

pub(crate) mod followed;
pub(crate) mod granted;
mod mounts;
mod watched;
mod writable;

use std::cell::OnceCell;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use self::followed::FollowedPath;
pub use self::granted::Misled;
use self::mounts::{Mounts, Place};
pub use self::watched::WatchedFolder;
use self::writable::WritableFolders;

/// Something that decides about programs. It need not be there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedPath {
    /// What it is to people: `the data folder`.
    pub what: String,
    /// Where it is, as it was named; absolute.
    pub path: PathBuf,
    /// How far it is closed.
    pub kind: Kind,
}

/// How far something is closed to programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is neither written nor read, but for these folders in it, which are made to be given away.
    Secret(&'static [&'static str]),
    /// It may be read.
    Setting,
    /// It may be read, and have other names.
    Program,
}

/// Why a folder can't be given to a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// It is above something that decides.
    #[error(
        "{0} lies in it, and who may write the folder could replace that; name a folder that does not \
         hold it, or move it elsewhere"
    )]
    Holds(Named),
    /// It is in something that decides, or the same.
    #[error("it belongs to {0}; name another")]
    Within(Named),
    /// What decides has a second name, which may be anywhere.
    #[error(
        "{0} has a second name (a hard link), by which a program could reach it; put a copy in its \
         place with `cp` and `mv`"
    )]
    Linked(Named),
}

/// A trusted path in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    what: String,
    path: PathBuf,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.what, self.path.display())
    }
}

/// The list, and beside it the folders that others may write. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Trusted(Arc<Lists>);

#[derive(Debug, Default)]
struct Lists {
    paths: RwLock<Arc<[TrustedPath]>>,
    writable: WritableFolders,
}

impl Trusted {
    /// Puts another list in its place.
    pub fn replace(&self, paths: Vec<TrustedPath>) {
        *self.0.paths.write() = paths.into();
    }

    /// Takes over which folders a configuration lets others write, as they are named there.
    pub fn declare_writable(&self, folders: Vec<PathBuf>) {
        self.0.writable.declare(folders);
    }

    /// Reads which folders others could write before, and keeps the list of them there.
    pub fn keep_writable_in(&self, file: &Path) -> io::Result<()> {
        self.0.writable.keep_in(file)
    }

    /// Reads the same, and writes nothing down there.
    pub fn read_writable_from(&self, file: &Path) -> io::Result<()> {
        self.0.writable.read_from(file)
    }

    /// Remembers a folder, which need not be there yet, that others may write from now on.
    pub fn add_writable(&self, folder: &Path) -> io::Result<()> {
        self.0.writable.add(&FollowedPath::of(folder).end)
    }

    /// Whether a folder, which need not be there yet, may be written by somebody else.
    pub fn check_writable(&self, folder: &Path) -> Result<(), Conflict> {
        self.survey().check_writable(folder)
    }

    /// Whether a file or folder may be read by somebody else.
    pub fn check_readable(&self, path: &Path) -> Result<(), Conflict> {
        self.survey().check_readable(path)
    }

    /// Whether this is one of them, by whatever name it was opened.
    #[must_use]
    pub fn is(&self, file: &Metadata) -> bool {
        let paths = Arc::clone(&self.0.paths.read());
        let id = Some(id_of(file));
        paths.iter().any(|trusted| {
            let end = FollowedPath::of(&trusted.path).end;
            id_at(&end) == id
                || file.nlink() > 1 && trusted.files(&end).any(|own| Some(id_of(&own.1)) == id)
        })
    }

    /// The machine as it is now, for several questions.
    pub(crate) fn survey(&self) -> Survey {
        self.survey_with(Vec::new())
    }

    /// The same for a program that is about to be given these folders to write.
    pub(crate) fn survey_with(&self, own: Vec<PathBuf>) -> Survey {
        Survey {
            paths: Arc::clone(&self.0.paths.read()),
            mounts: Mounts::read(),
            trusted: self.clone(),
            own,
            writable: OnceCell::new(),
        }
    }
}

/// The list, and the mounts of this moment.
pub(crate) struct Survey {
    paths: Arc<[TrustedPath]>,
    mounts: Mounts,
    trusted: Trusted,
    own: Vec<PathBuf>,
    /// Looked at only where a path has links, which few have.
    writable: OnceCell<Vec<Ground>>,
}

/// A folder that is about to be given to somebody.
struct Ground {
    real: PathBuf,
    /// Its own number, and those of the folders above it.
    ids: Vec<Id>,
    is_there: bool,
    /// What can be reached in it: itself, and what is mounted below.
    places: Vec<(PathBuf, Place)>,
}

impl Survey {
    pub(crate) fn check_writable(&self, folder: &Path) -> Result<(), Conflict> {
        let ground = self.ground(folder);
        self.paths.iter().try_for_each(|trusted| {
            let followed = FollowedPath::of(&trusted.path);
            self.check_within(trusted, &followed.end, &ground)?;
            if followed.entries().any(|entry| self.holds(&ground, entry)) {
                return Err(Conflict::Holds(trusted.named()));
            }
            match trusted.linked(&followed.end, &ground) {
                Some(path) => Err(Conflict::Linked(Named { path, ..trusted.named() })),
                None => Ok(()),
            }
        })
    }

    /// Whether a file or folder may be read; what is secret below it is hidden instead.
    pub(crate) fn check_readable(&self, path: &Path) -> Result<(), Conflict> {
        let mut ground = self.ground(path);
        self.secret().try_for_each(|trusted| {
            let end = FollowedPath::of(&trusted.path).end;
            let own = self.mounts.place(&end);
            ground.places.retain(|(top, seen)| *top == ground.real || *seen != own);
            self.check_within(trusted, &end, &ground)
        })
    }

    /// Where what is secret really is.
    pub(crate) fn secrets(&self) -> Vec<PathBuf> {
        let ends = self.secret().map(|trusted| FollowedPath::of(&trusted.path).end);
        ends.filter(|end| end.exists()).collect()
    }

    /// The names of all that is secret, those in these folders among them.
    pub(crate) fn secrets_in<'a>(&self, folders: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
        let mut names = self.secrets();
        let places: Vec<Place> = names.iter().map(|end| self.mounts.place(end)).collect();
        for (top, seen) in folders.flat_map(|folder| self.ground(folder).places) {
            let below = places.iter().filter_map(|secret| secret.below(&seen));
            // Not joined where there is nothing to join: a file's name must not end in `/`.
            let is_same = |rest: &Path| rest.as_os_str().is_empty();
            let below = below.map(|rest| if is_same(rest) { top.clone() } else { top.join(rest) });
            names.extend(below.filter(|name| name.exists()));
        }
        names.sort();
        names.dedup();
        names
    }

    /// The folders that others may write.
    fn writable(&self) -> &[Ground] {
        self.writable.get_or_init(|| {
            let (given, declared) = self.trusted.0.writable.all();
            // Not followed: they had no links, so one that is there now may be a program's.
            let mut grounds: Vec<Ground> =
                given.into_iter().map(|real| self.ground_at(real)).collect();
            for folder in self.own.iter().chain(&declared) {
                let followed = FollowedPath::of(folder);
                // A folder behind a link that a program could have made is not given to any program.
                let is_held =
                    |link: &PathBuf| grounds.iter().any(|ground| self.holds(ground, link));
                if !followed.links.iter().any(is_held) {
                    grounds.push(self.ground_at(followed.end));
                }
            }
            grounds
        })
    }

    fn secret(&self) -> impl Iterator<Item = &TrustedPath> {
        self.paths.iter().filter(|trusted| matches!(trusted.kind, Kind::Secret(_)))
    }

    fn ground(&self, folder: &Path) -> Ground {
        self.ground_at(FollowedPath::of(folder).end)
    }

    /// The same for a folder that is named without links.
    fn ground_at(&self, real: PathBuf) -> Ground {
        let ids: Vec<Id> = real.ancestors().filter_map(id_at).collect();
        let is_there = id_at(&real).is_some();
        let own = (real.clone(), self.mounts.place(&real));
        let below = self.mounts.below(&real).map(|(point, place)| (point.to_owned(), place));
        let places = std::iter::once(own).chain(below).collect();
        Ground { real, ids, is_there, places }
    }

    /// Whether an entry is in a folder, or the same.
    fn holds(&self, ground: &Ground, entry: &Path) -> bool {
        let own = ground.ids.first().filter(|_| ground.is_there);
        let by_number =
            own.is_some_and(|own| entry.ancestors().filter_map(id_at).any(|above| above == *own));
        by_number
            || self
                .mounts
                .places(entry)
                .iter()
                .any(|place| ground.places.iter().any(|(_, seen)| place.below(seen).is_some()))
    }

    fn check_within(
        &self,
        trusted: &TrustedPath,
        end: &Path,
        ground: &Ground,
    ) -> Result<(), Conflict> {
        let own = self.mounts.place(end);
        let open_folders: Vec<Place> =
            trusted.open_folders().iter().map(|folder| own.join(folder)).collect();
        let in_open_folder =
            |place: &Place| open_folders.iter().any(|folder| place.below(folder).is_some());
        let by_place = ground
            .places
            .iter()
            .any(|(_, seen)| seen.below(&own).is_some() && !in_open_folder(seen));
        let by_number = id_at(end).is_some_and(|id| ground.ids.contains(&id))
            && !trusted
                .open_folders()
                .iter()
                .any(|folder| ground.real.starts_with(end.join(folder)));
        if by_place || by_number { Err(Conflict::Within(trusted.named())) } else { Ok(()) }
    }
}

impl TrustedPath {
    fn named(&self) -> Named {
        Named { what: self.what.clone(), path: self.path.clone() }
    }

    const fn open_folders(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Secret(open_folders) => open_folders,
            Kind::Setting | Kind::Program => &[],
        }
    }

    /// The file that it is; of a secret folder, the files in it.
    fn files(&self, end: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> {
        let inner = matches!(self.kind, Kind::Secret(_)).then(|| std::fs::read_dir(end).ok());
        let inner = inner.flatten().into_iter().flatten().flatten().map(|entry| entry.path());
        let all = std::iter::once(end.to_owned()).chain(inner);
        let found = all.filter_map(|path| Some((path.clone(), path.symlink_metadata().ok()?)));
        found.filter(|(_, found)| found.is_file())
    }

    /// A file of it that has another name on the same file system. What comes with the system can't be
    /// written, whatever its names.
    fn linked(&self, end: &Path, ground: &Ground) -> Option<PathBuf> {
        if self.kind == Kind::Program || crate::sandbox::is_system(end) {
            return None;
        }
        let (device, _) = ground.ids.first()?;
        let mut files = self.files(end);
        files.find(|(_, file)| file.nlink() > 1 && file.dev() == *device).map(|(path, _)| path)
    }
}

/// A file's numbers: its device's and its own.
type Id = (u64, u64);

fn id_of(file: &Metadata) -> Id {
    (file.dev(), file.ino())
}

fn id_at(path: &Path) -> Option<Id> {
    path.symlink_metadata().ok().map(|found| id_of(&found))
}

#[cfg(test)]
#[path = "trusted_tests.rs"]
mod tests;
