//! What an installed package's folder holds, in one number: names, links, which files are programs, and
//! all bytes. Times and owners do not count.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use drawgate_core::canonical;
use sha2::{Digest, Sha256};

/// Precedes everything that is hashed, so that no other hash can be mistaken for one of these.
const PREFIX: &[u8] = b"drawgate package 1\0";
/// How much a package may be, with all that it needs.
struct Bounds {
    /// Files, folders and links.
    entries: usize,
    /// Folders in one another. Packages of npm that hold others of their own need the most.
    depth: usize,
    /// Bytes of all paths together, which are in memory at once.
    names: usize,
    /// Bytes of all files together.
    bytes: u64,
}

const BOUNDS: Bounds = Bounds { entries: 200_000, depth: 100, names: 64 << 20, bytes: 4 << 30 };

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
    #[error("it is larger than a package may be: {} files, {} bytes, {} bytes of names", BOUNDS.entries, BOUNDS.bytes, BOUNDS.names)]
    TooLarge,
    /// It has too many folders in one another.
    #[error("it has more than {} folders in one another", BOUNDS.depth)]
    TooDeep,
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
    walk(folder, &BOUNDS, |path, found| {
        lines.push(describe(folder, path, found)?);
        Ok(())
    })?;
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
    walk(&top, &BOUNDS, |path, found| {
        if found.is_symlink() && !leads_within(&top, path) {
            let target = fs::read_link(path).map_err(|source| failed(path, source))?;
            out.insert(path.to_owned(), target);
        }
        Ok(())
    })?;
    Ok(out)
}

/// Visits all that is in a folder. It is the one place that says how much that may be, for every ecosystem.
fn walk(
    folder: &Path,
    bounds: &Bounds,
    mut visit: impl FnMut(&Path, &Metadata) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let (mut entries, mut names, mut bytes) = (0_usize, 0_usize, 0_u64);
    let mut folders = vec![(folder.to_owned(), 0_usize)];
    while let Some((next, depth)) = folders.pop() {
        let failed_here = |source| failed(&next, source);
        for entry in fs::read_dir(&next).map_err(failed_here)? {
            let path = entry.map_err(failed_here)?.path();
            let found = path.symlink_metadata().map_err(|source| failed(&path, source))?;
            entries = entries.saturating_add(1);
            names = names.saturating_add(path.as_os_str().len());
            bytes = bytes.saturating_add(found.len());
            if entries > bounds.entries || names > bounds.names || bytes > bounds.bytes {
                return Err(TreeError::TooLarge);
            }
            visit(&path, &found)?;
            if found.is_dir() {
                if depth >= bounds.depth {
                    return Err(TreeError::TooDeep);
                }
                folders.push((path, depth.saturating_add(1)));
            }
        }
    }
    Ok(())
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

/// What counts of one entry.
fn describe(folder: &Path, path: &Path, found: &Metadata) -> Result<Vec<u8>, TreeError> {
    let failed = |source| failed(path, source);
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
    Ok(line)
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

    #[test]
    fn files_folders_depth_names_and_bytes_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/file"), "text").unwrap();
        let bytes = 1 << 20;
        let enough = || Bounds { entries: 3, depth: 2, names: 1 << 20, bytes };
        for (name, bounds, expected) in [
            ("all", enough(), None),
            ("entries", Bounds { entries: 2, ..enough() }, Some("larger")),
            ("depth", Bounds { depth: 1, ..enough() }, Some("in one another")),
            ("names", Bounds { names: 8, ..enough() }, Some("larger")),
            ("bytes", Bounds { bytes: 3, ..enough() }, Some("larger")),
        ] {
            let refused = walk(folder.path(), &bounds, |_, _| Ok(())).err();
            let refused = refused.map(|error| error.to_string());
            assert_eq!(refused.is_some(), expected.is_some(), "{name}: {refused:?}");
            assert!(refused.unwrap_or_default().contains(expected.unwrap_or_default()), "{name}");
        }
    }
}
