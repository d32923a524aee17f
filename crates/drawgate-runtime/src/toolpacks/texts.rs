//! The texts of a folder's files, for people who compare two versions of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::Stat;

use super::error::ToolpackError;
use super::hash::of_bytes;
use super::walk::{self, MAX_BYTES, Visitor};

/// Bytes of a file that are shown as text.
const SHOWN_FILE: usize = 64 * 1024;
/// Bytes of all files that are.
const SHOWN: usize = 1024 * 1024;

/// The files of a folder by their paths. In place of what is not text or too long there is its hash.
pub(crate) fn texts(folder: &Path) -> Result<BTreeMap<String, String>, ToolpackError> {
    let mut texts = Texts { folder, shown: 0, files: BTreeMap::new() };
    walk::walk(folder, &mut texts)?;
    Ok(texts.files)
}

struct Texts<'a> {
    folder: &'a Path,
    shown: usize,
    files: BTreeMap<String, String>,
}

impl Visitor for Texts<'_> {
    fn folder(&mut self, _path: &str, _stat: &Stat) -> Result<(), ToolpackError> {
        Ok(())
    }

    fn file(&mut self, path: &str, file: File, _executable: bool) -> Result<(), ToolpackError> {
        let mut bytes = Vec::new();
        let failed = ToolpackError::io("read", &self.folder.join(path));
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        let is_short = bytes.len() <= SHOWN_FILE.min(SHOWN.saturating_sub(self.shown));
        let text = match str::from_utf8(&bytes) {
            Ok(text) if is_short => {
                self.shown = self.shown.saturating_add(text.len());
                text.to_owned()
            }
            Ok(_) | Err(_) => format!("[{} bytes, {}]", bytes.len(), of_bytes(&bytes)),
        };
        self.files.insert(path.to_owned(), text);
        Ok(())
    }
}
