//! What an installed package's folder holds, in one number: names, links, which files are programs, and
//! all bytes. Times and owners do not count.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use drawgate_core::canonical;
use sha2::{Digest, Sha256};

/// Precedes everything that is hashed, so that no other hash can be mistaken for one of these.
const PREFIX: &[u8] = b"drawgate package 1\0";
/// Most files and folders of a package with all that it needs.
const MAX_ENTRIES: usize = 200_000;
/// Most bytes of them together.
const MAX_BYTES: u64 = 4 << 30;

/// Why a folder is not what was pinned.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// It holds something else.
    #[error("its files are not those that were fetched")]
    Changed,
    /// It is not there.
    #[error("its files are gone")]
    Gone,
    /// It is larger than any package.
    #[error("it has more than {MAX_ENTRIES} files or {MAX_BYTES} bytes")]
    TooLarge,
    /// It holds something that no package has.
    #[error("`{}` is neither a file, a folder nor a link", .0.display())]
    Special(PathBuf),
    /// It can't be read.
    #[error("`{}` can't be read", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The hash of all that is in a folder: `sha256:` and 64 digits. Links are not followed.
pub fn content_hash(folder: &Path) -> Result<String, TreeError> {
    let mut lines = Vec::new();
    let mut bytes = 0_u64;
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let failed = |source| failed(&next, source);
        for entry in fs::read_dir(&next).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let (line, size) = describe(folder, &path)?;
            bytes = bytes.saturating_add(size);
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
            lines.push(line);
            if lines.len() > MAX_ENTRIES || bytes > MAX_BYTES {
                return Err(TreeError::TooLarge);
            }
        }
    }
    lines.sort_unstable();
    let mut digest = Sha256::new();
    digest.update(PREFIX);
    for line in &lines {
        digest.update((line.len() as u64).to_be_bytes());
        digest.update(line);
    }
    Ok(format!("sha256:{}", canonical::hex(&digest.finalize())))
}

/// The links in a folder that lead out of it, and where they lead.
pub fn links_out(folder: &Path) -> Result<BTreeMap<PathBuf, PathBuf>, TreeError> {
    let top = folder.canonicalize().map_err(|source| failed(folder, source))?;
    let mut out = BTreeMap::new();
    let mut folders = vec![top.clone()];
    while let Some(next) = folders.pop() {
        let failed = |source| failed(&next, source);
        for entry in fs::read_dir(&next).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (kind, path) = (entry.file_type().map_err(failed)?, entry.path());
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() && !leads_within(&top, &path) {
                let target = fs::read_link(&path).map_err(failed)?;
                out.insert(path, target);
            }
        }
    }
    Ok(out)
}

/// Whether a link leads to something in the folder. One that leads nowhere yet is taken at its word.
fn leads_within(top: &Path, link: &Path) -> bool {
    match link.canonicalize() {
        Ok(end) => end.starts_with(top),
        Err(_) => fs::read_link(link).is_ok_and(|target| {
            target.components().all(|part| matches!(part, Component::Normal(_)))
        }),
    }
}

/// What counts of one entry, and its size.
fn describe(folder: &Path, path: &Path) -> Result<(Vec<u8>, u64), TreeError> {
    let failed = |source| failed(path, source);
    let found = path.symlink_metadata().map_err(failed)?;
    let mut line = path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes().to_vec();
    line.push(0);
    if found.is_dir() {
        line.extend_from_slice(b"folder");
    } else if found.is_symlink() {
        line.extend_from_slice(b"link ");
        line.extend_from_slice(fs::read_link(path).map_err(failed)?.as_os_str().as_bytes());
    } else if found.is_file() {
        let kind = if found.permissions().mode() & 0o111 == 0 { "file" } else { "program" };
        let mut digest = Sha256::new();
        io::copy(&mut File::open(path).map_err(failed)?, &mut digest).map_err(failed)?;
        line.extend_from_slice(format!("{kind} {}", canonical::hex(&digest.finalize())).as_bytes());
    } else {
        return Err(TreeError::Special(path.to_owned()));
    }
    Ok((line, found.len()))
}

fn failed(path: &Path, source: io::Error) -> TreeError {
    match source.kind() {
        io::ErrorKind::NotFound => TreeError::Gone,
        _ => TreeError::Io { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A change of a folder.
    type Change = fn(&Path);

    #[test]
    fn every_change_is_another_content() {
        let make = || {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("a/b")).unwrap();
            fs::write(folder.path().join("a/file"), "text").unwrap();
            symlink("file", folder.path().join("a/link")).unwrap();
            folder
        };
        let (one, other) = (make(), make());
        let before = content_hash(one.path()).unwrap();
        assert_eq!(before, content_hash(other.path()).unwrap());
        let changes: [Change; 6] = [
            |folder| fs::write(folder.join("a/file"), "next").unwrap(),
            |folder| fs::write(folder.join("a/more"), "").unwrap(),
            |folder| fs::rename(folder.join("a/b"), folder.join("a/c")).unwrap(),
            |folder| fs::remove_file(folder.join("a/link")).unwrap(),
            |folder| {
                fs::remove_file(folder.join("a/link")).unwrap();
                symlink("other", folder.join("a/link")).unwrap();
            },
            |folder| {
                fs::set_permissions(folder.join("a/file"), fs::Permissions::from_mode(0o755))
                    .unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let folder = make();
            change(folder.path());
            assert_ne!(content_hash(folder.path()).unwrap(), before, "change {number}");
        }
        assert!(matches!(content_hash(&one.path().join("none")), Err(TreeError::Gone)));
    }
}
