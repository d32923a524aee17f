//! Packs and archives for tests, made byte by byte where no program would make them.

pub(super) mod hostile;
mod tar;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub(super) use self::tar::{COMMIT, TOP, Tar, gzip, manifest, put, seal};
use super::{Code, Downgrade, Download, Folder, Intent, Pinned, Staged, Terms, ToolpackError};

pub(super) const OTHER_COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// A folder of packs, and beside it whatever a test needs.
pub(super) struct TestFolder {
    pub(super) root: TempDir,
    pub(super) folder: Folder,
}

impl TestFolder {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(&root.path().join("toolpacks")).unwrap();
        Self { root, folder }
    }

    /// A folder with a pack to install.
    pub(super) fn source(&self, version: &str) -> PathBuf {
        let source = self.root.path().join("source");
        fs::create_dir_all(source.join("data")).unwrap();
        fs::write(source.join("toolpack.json"), manifest(version)).unwrap();
        fs::write(source.join("data/words.txt"), format!("words of {version}\n")).unwrap();
        source
    }

    pub(super) fn stage(&self, version: &str) -> Staged {
        self.folder.stage_folder(&self.source(version), &UPDATE).unwrap()
    }

    pub(super) fn install(&self, version: &str) {
        self.folder.commit(self.stage(version)).unwrap();
    }

    /// The versions by the lock file and by the folder, which must agree.
    #[track_caller]
    pub(super) fn version(&self) -> Option<String> {
        let packs = self.folder.list().unwrap();
        for finding in self.folder.verify().unwrap() {
            assert!(finding.ok, "{finding:?}");
        }
        assert!(packs.len() <= 1, "{packs:?}");
        let pack = packs.first()?;
        let version = pack.manifest.as_ref().unwrap().version.clone();
        assert_eq!(pack.entry.as_ref().unwrap().version, version);
        let words = fs::read_to_string(pack.folder.join("data/words.txt")).unwrap();
        assert_eq!(words, format!("words of {version}\n"));
        Some(version)
    }
}

pub(super) const INSTALL: Terms =
    Terms { intent: Intent::Install, downgrade: Downgrade::Refuse, now_ms: 0 };
pub(super) const UPDATE: Terms =
    Terms { intent: Intent::Update, downgrade: Downgrade::Refuse, now_ms: 0 };

pub(super) fn pinned(reference: &str, commit: &str) -> Pinned {
    let source = format!("owner/repo@{reference}").parse().unwrap();
    Pinned { source, reference: reference.to_owned(), commit: commit.to_owned() }
}

pub(super) fn download(archive: Vec<u8>) -> Download {
    Download { pinned: pinned("v1", COMMIT), archive }
}

#[track_caller]
pub(super) fn code<T: std::fmt::Debug>(result: Result<T, ToolpackError>) -> Option<Code> {
    let error = result.unwrap_err();
    error.code().or_else(|| panic!("{error:?}"))
}

/// Every file and folder below a folder, with its mode; links are no exception.
pub(super) fn everything_in(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let data = path.symlink_metadata().unwrap();
            let kind = if data.is_symlink() {
                "link"
            } else if data.is_dir() {
                "folder"
            } else {
                "file"
            };
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.push(format!("{name} {kind} {:o}", data.permissions().mode() & 0o7777));
            if data.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}
