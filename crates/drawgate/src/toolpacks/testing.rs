//! Packs and archives for tests, made byte by byte where no program would make them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tempfile::TempDir;

use super::{Code, Downgrade, Download, Folder, Intent, Pinned, Staged, Terms, ToolpackError};

pub(super) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(super) const OTHER_COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";
pub(super) const TOP: &str = "pack-0123456/";

/// A valid manifest.
pub(super) fn manifest(version: &str) -> String {
    let manifest = json!({
        "id": "pack",
        "name": "Pack",
        "version": version,
        "enabled": true,
        "tools": [{
            "name": "pack_say",
            "type": "command",
            "description": "Says something.",
            "command_template": "printf -- '%s' {{words}}",
            "parameters": {
                "type": "object",
                "properties": { "words": { "type": "string" } },
                "required": ["words"]
            }
        }]
    });
    format!("{manifest:#}\n")
}

/// A folder of packs, and beside it whatever a test needs.
pub(super) struct World {
    pub(super) root: TempDir,
    pub(super) folder: Folder,
}

impl World {
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

/// An archive under construction.
#[derive(Clone)]
pub(super) struct Tar(pub(super) Vec<u8>);

impl Tar {
    pub(super) fn empty() -> Self {
        Self(Vec::new())
    }

    /// An archive of a valid pack, but for its end.
    pub(super) fn pack() -> Self {
        Self::empty().entry(TOP, b'5', b"").entry(
            &format!("{TOP}toolpack.json"),
            b'0',
            manifest("1.0.0").as_bytes(),
        )
    }

    pub(super) fn entry(self, name: &str, flag: u8, content: &[u8]) -> Self {
        self.edited(name, flag, content, |_| {})
    }

    /// A file below the top folder.
    pub(super) fn file(self, name: &str) -> Self {
        self.entry(&format!("{TOP}{name}"), b'0', b"content")
    }

    /// An entry whose header is changed before its checksum is made.
    pub(super) fn edited(
        mut self,
        name: &str,
        flag: u8,
        content: &[u8],
        edit: impl FnOnce(&mut [u8; 512]),
    ) -> Self {
        let mut header = [0; 512];
        put(&mut header, 0, name.as_bytes());
        put(&mut header, 100, if flag == b'5' { b"0000755\0" } else { b"0000644\0" });
        put(&mut header, 108, b"0001750\x000001750\0");
        put(&mut header, 124, format!("{:011o}\0", content.len()).as_bytes());
        put(&mut header, 136, b"14000000000\0");
        header[156] = flag;
        put(&mut header, 257, b"ustar\x0000");
        edit(&mut header);
        seal(&mut header);
        self.0.extend(header);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// A link: its target stands in the header.
    pub(super) fn link(self, name: &str, flag: u8, target: &str) -> Self {
        self.edited(&format!("{TOP}{name}"), flag, b"", |header| {
            put(header, 157, target.as_bytes());
        })
    }

    /// Attributes before the next entry, each a key and a value.
    pub(super) fn pax(self, flag: u8, records: &[(&str, &str)]) -> Self {
        let lines: String = records.iter().map(|(key, value)| record(key, value)).collect();
        self.entry("pax_header", flag, lines.as_bytes())
    }

    /// The blocks at the end.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    /// The whole archive, compressed.
    pub(super) fn packed(self) -> Vec<u8> {
        gzip(&self.end())
    }
}

pub(super) fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Makes the checksum right.
pub(super) fn seal(header: &mut [u8]) {
    put(header, 148, b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    put(header, 148, format!("{sum:06o}\0 ").as_bytes());
}

fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let length = (1..20).find(|digits| (rest.len() + digits).to_string().len() == *digits).unwrap();
    format!("{}{rest}", rest.len() + length)
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
