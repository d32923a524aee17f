//! What an archive holds, below its one top folder.

use std::collections::BTreeMap;

use super::header::{Header, Kind};
use super::malformed;
use crate::toolpacks::error::{Code, ToolpackError};
use crate::toolpacks::paths;
use crate::toolpacks::walk::{MAX_DEPTH, MAX_ENTRIES};

/// Files and folders, by their names with the case folded: those that would be one on a file system
/// without capitals can't both be here.
#[derive(Debug, Default)]
pub(super) struct Layout<'a> {
    top: Option<String>,
    entries: BTreeMap<String, Entry<'a>>,
}

#[derive(Debug)]
enum Entry<'a> {
    /// A folder, with its name as it is.
    Folder(String),
    File {
        path: String,
        executable: bool,
        content: &'a [u8],
    },
}

/// A file of the pack.
#[derive(Debug)]
pub(super) struct File<'b> {
    pub(super) path: &'b str,
    pub(super) executable: bool,
    pub(super) content: &'b [u8],
}

impl<'a> Layout<'a> {
    /// Adds a file or a folder by its path in the archive.
    pub(super) fn add(
        &mut self,
        header: &Header<'_>,
        path: &[u8],
        content: &'a [u8],
    ) -> Result<(), ToolpackError> {
        let bare = path.strip_suffix(b"/").unwrap_or(path);
        let checked = paths::check(bare)?;
        if header.kind == Kind::File && bare.len() < path.len() {
            return Err(refused(checked, "it is a file, but named as a folder"));
        }
        match (self.below_top(checked)?, header.kind) {
            (None, Kind::Folder) => Ok(()),
            (None, _) => Err(refused(checked, "it is beside the archive's top folder")),
            (Some(inner), Kind::Folder) => self.folders_to(inner),
            (Some(inner), _) => self.file(inner, header.executable, content),
        }
    }

    /// After the last entry: an archive without any is none.
    pub(super) fn finish(self) -> Result<Self, ToolpackError> {
        if self.top.is_some() { Ok(self) } else { Err(malformed("it is empty")) }
    }

    /// Folders, each after those above it.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::Folder(path) => Some(path.as_str()),
            Entry::File { .. } => None,
        })
    }

    /// Files.
    pub(super) fn files(&self) -> impl Iterator<Item = File<'_>> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::File { path, executable, content } => {
                Some(File { path, executable: *executable, content })
            }
            Entry::Folder(_) => None,
        })
    }

    /// The path below the top folder, which the first entry decides; `None` for the top itself.
    fn below_top<'p>(&mut self, path: &'p str) -> Result<Option<&'p str>, ToolpackError> {
        let (top, inner) =
            path.split_once('/').map_or((path, None), |(top, inner)| (top, Some(inner)));
        if self.top.get_or_insert_with(|| top.to_owned()) == top {
            Ok(inner)
        } else {
            Err(refused(path, "it is beside the archive's top folder"))
        }
    }

    fn file(
        &mut self,
        path: &str,
        executable: bool,
        content: &'a [u8],
    ) -> Result<(), ToolpackError> {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folders_to(parent)?;
        }
        let file = Entry::File { path: path.to_owned(), executable, content };
        if self.entries.insert(paths::folded(path), file).is_some() {
            return Err(refused(path, "it is there twice, perhaps with other capitals"));
        }
        self.check_size()
    }

    /// A folder and those above it, whether the archive names them or not.
    fn folders_to(&mut self, path: &str) -> Result<(), ToolpackError> {
        if path.split('/').count() > MAX_DEPTH {
            let message = format!("the toolpack's folders are nested deeper than {MAX_DEPTH}");
            return Err(ToolpackError::rejected(Code::Limit, message));
        }
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for above in ends.filter_map(|end| path.get(..end)) {
            let entry = self.entries.entry(paths::folded(above));
            match entry.or_insert_with(|| Entry::Folder(above.to_owned())) {
                Entry::Folder(known) if known == above => {}
                Entry::Folder(_) | Entry::File { .. } => {
                    return Err(refused(above, "it is there twice, perhaps with other capitals"));
                }
            }
        }
        self.check_size()
    }

    fn check_size(&self) -> Result<(), ToolpackError> {
        if self.entries.len() <= MAX_ENTRIES {
            return Ok(());
        }
        let message =
            format!("the toolpack is too large: it has more than {MAX_ENTRIES} files and folders");
        Err(ToolpackError::rejected(Code::Limit, message))
    }
}

fn refused(path: &str, reason: &str) -> ToolpackError {
    let shown = paths::shown(path.as_bytes());
    ToolpackError::rejected(Code::Path, format!("a toolpack can't hold `{shown}`: {reason}"))
}
