//! The files of added plugins: copied into the data folder, so that what runs is what an operator has agreed to.
//!
//! Each copy has its hash in its name. A copy is complete before a record names it, and one that no
//! record names is removed at the next start.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use drawgate_host::store::DataDir;

use crate::toolpacks::{ManifestScope, ToolpackError, content_hash, copy_folder};

/// What begins the name of a copy that is not complete.
const UNFINISHED: &str = ".new-";

/// What begins the name of a plugin's workspace: the id of no source has this character.
const WORKSPACE_PREFIX: &str = "plugin@";

/// The folder of copies.
#[derive(Debug, Clone)]
pub(crate) struct PluginFolder {
    copies: PathBuf,
    workspaces: PathBuf,
}

impl PluginFolder {
    pub(crate) fn new(data: &Path) -> Self {
        Self { copies: data.join(DataDir::PLUGINS), workspaces: data.join(DataDir::SERVERS) }
    }

    /// The hash of a folder's files.
    pub(crate) fn hash(folder: &Path) -> Result<String, ToolpackError> {
        content_hash(folder, ManifestScope::Bytes)
    }

    /// Where the copy of a plugin with this hash is.
    pub(crate) fn path(&self, name: &str, hash: &str) -> PathBuf {
        let digits = hash.strip_prefix("sha256:").unwrap_or(hash);
        self.copies.join(format!("{name}-{digits}"))
    }

    /// Copies a plugin's files; the hash of the copy. A whole copy with that hash stays as it is.
    pub(crate) fn take(&self, name: &str, source: &Path) -> Result<String, ToolpackError> {
        let failed = || ToolpackError::io("make", &self.copies);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.copies).map_err(failed())?;
        let unfinished = self.copies.join(format!("{UNFINISHED}{name}"));
        remove(&unfinished).map_err(failed())?;
        copy_folder(source, &unfinished, &self.copies)?;
        let hash = Self::hash(&unfinished)?;
        let place = self.path(name, &hash);
        // A record may name it, which must find it also if the gateway ends here.
        if Self::hash(&place).is_ok_and(|found| found == hash) {
            remove(&unfinished).map_err(failed())?;
            return Ok(hash);
        }
        remove(&place).map_err(failed())?;
        fs::rename(&unfinished, &place).map_err(ToolpackError::io("write", &place))?;
        Ok(hash)
    }

    /// The folder that a plugin may write, made if it is not there. No server has it, not even one that
    /// had the plugin's name before.
    pub(crate) fn workspace(&self, name: &str) -> Result<PathBuf, ToolpackError> {
        let place = self.workspaces.join(format!("{WORKSPACE_PREFIX}{name}"));
        let place = std::path::absolute(&place).map_err(ToolpackError::io("make", &place))?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&place);
        made.map_err(ToolpackError::io("make", &place))?;
        Ok(place)
    }

    /// Removes copies that nothing names.
    pub(crate) fn sweep(&self, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
        let entries = match fs::read_dir(&self.copies) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            if !kept.contains(&path) {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_copy_stays_and_a_changed_one_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("source");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("main.py"), "pass\n").unwrap();
        let folder = PluginFolder::new(&place.path().join("data"));
        let hash = folder.take("p", &source).unwrap();
        let file = folder.path("p", &hash).join("main.py");
        let number =
            |file: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(file).unwrap());
        let first = number(&file);
        assert_eq!(folder.take("p", &source).unwrap(), hash);
        assert_eq!(number(&file), first, "a record that names it always finds it");
        fs::write(&file, "changed\n").unwrap();
        assert_eq!(folder.take("p", &source).unwrap(), hash);
        assert_eq!(fs::read_to_string(&file).unwrap(), "pass\n");
        assert_eq!(fs::read_dir(&folder.copies).unwrap().count(), 1, "nothing unfinished is left");
    }
}
