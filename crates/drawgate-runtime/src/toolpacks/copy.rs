//! Takes a pack over from a folder of this machine.

use std::ffi::CStr;
use std::fs::File;
use std::path::Path;

use rustix::fs::Stat;

use super::error::{Code, ToolpackError};
use super::paths;
use super::tree::Tree;
use super::walk::{self, Visitor};

/// Copies regular files and folders, and says what it left out. `home` is where packs are kept: a
/// pack that contains it would contain itself.
pub(crate) fn copy(source: &Path, to: &Path, home: &Path) -> Result<Vec<String>, ToolpackError> {
    let home = rustix::fs::stat(home).map_err(ToolpackError::io("read", home))?;
    let mut copier = Copier { tree: Tree::create(to)?, home, left_out: Vec::new() };
    walk::walk(source, &mut copier)?;
    copier.tree.finish()?;
    Ok(copier.left_out)
}

/// Whether a folder could be taken over: it has nothing but regular files and folders, and not too many.
pub fn check_files(source: &Path) -> Result<(), ToolpackError> {
    walk::walk(source, &mut FileChecker)
}

struct FileChecker;

impl Visitor for FileChecker {
    fn skips(&mut self, _path: &[u8], name: &CStr) -> bool {
        name.to_str().is_ok_and(paths::is_git)
    }

    fn folder(&mut self, _path: &str, _stat: &Stat) -> Result<(), ToolpackError> {
        Ok(())
    }

    fn file(&mut self, _path: &str, _file: File, _executable: bool) -> Result<(), ToolpackError> {
        Ok(())
    }
}

struct Copier {
    tree: Tree,
    home: Stat,
    left_out: Vec<String>,
}

impl Visitor for Copier {
    fn skips(&mut self, path: &[u8], name: &CStr) -> bool {
        let is_git = name.to_str().is_ok_and(paths::is_git);
        if is_git {
            self.left_out.push(paths::shown(path));
        }
        is_git
    }

    fn folder(&mut self, path: &str, stat: &Stat) -> Result<(), ToolpackError> {
        if (stat.st_dev, stat.st_ino) == (self.home.st_dev, self.home.st_ino) {
            let message = format!(
                "`{path}` is the folder of installed toolpacks; name the pack's own folder instead"
            );
            return Err(ToolpackError::rejected(Code::Path, message));
        }
        self.tree.folder(path)
    }

    fn file(&mut self, path: &str, file: File, executable: bool) -> Result<(), ToolpackError> {
        self.tree.file(path, executable, file)
    }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
