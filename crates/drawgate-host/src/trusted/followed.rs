//! How a path leads to what it names.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// More links than the kernel follows.
const MOST_LINKS: usize = 40;

/// A path, followed as far as there is something.
pub(crate) struct FollowedPath {
    /// The links on the way: who can replace one of them leads it elsewhere.
    pub(crate) links: Vec<PathBuf>,
    /// Where it ends, without links.
    pub(crate) end: PathBuf,
}

impl FollowedPath {
    pub(crate) fn of(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut followed = Self { links: Vec::new(), end: PathBuf::from("/") };
        let mut rest: VecDeque<OsString> = parts(&path).collect();
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                followed.end.pop();
                continue;
            }
            let next = followed.end.join(part);
            match std::fs::read_link(&next) {
                Ok(target) if followed.links.len() < MOST_LINKS => {
                    if target.is_absolute() {
                        followed.end = PathBuf::from("/");
                    }
                    for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                        rest.push_front(part);
                    }
                    followed.links.push(next);
                }
                Ok(_) | Err(_) => followed.end = next,
            }
        }
        followed
    }

    /// All that decides where it leads.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Path> {
        self.links.iter().chain([&self.end]).map(PathBuf::as_path)
    }
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}
