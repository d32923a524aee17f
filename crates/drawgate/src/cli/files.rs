//! Files of the user's that commands read and change: all of a file or nothing of it.
//!
//! They lie in folders that may have come with a project, so nothing there is trusted to be a file: no link is
//! followed, nothing is waited for, and what is not the user's own plain file is left as it is.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use drawgate_host::store::DataDir;
use rustix::fs::OFlags;
use rustix::process::geteuid;

/// The folder in the data folder with what files held before they were changed.
const BACKUPS: &str = "backups";
/// The largest file that is read.
const MAX_FILE: u64 = 64 << 20;
/// How many copies are kept of files of one name.
const MAX_COPIES: usize = 9999;
/// For its owner alone.
const PRIVATE: u32 = 0o600;
/// Why a link is not followed.
const IS_LINK: &str = "it is a link, which is not followed: it may have come with a project; change the file \
     that it leads to by hand";
/// Whether its owner may write it.
const OWNER_WRITES: u32 = 0o200;

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing, since it was up to date.
    None,
    /// It was made.
    Created,
    /// It was changed; what it held is in this copy.
    Updated(PathBuf),
}

/// Changes a file of another program's: what it holds, or nothing if it is not there, becomes what `edit` makes
/// of it. A copy is kept in the data folder.
pub(super) fn change(
    path: &Path,
    data: &Path,
    edit: impl FnOnce(Option<&str>) -> anyhow::Result<String>,
) -> anyhow::Result<Change> {
    let shown = path.display();
    let read = check_folders(path).and_then(|()| read(path));
    let before = read.with_context(|| format!("can't read `{shown}`"))?;
    let after = edit(before.as_deref()).with_context(|| format!("`{shown}` was left as it is"))?;
    let change = match before {
        Some(before) if before == after => return Ok(Change::None),
        Some(before) => {
            check_own(&path.symlink_metadata()?)
                .with_context(|| format!("`{shown}` was left as it is"))?;
            Change::Updated(keep_copy(data, path, &before)?)
        }
        None => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            Change::Created
        }
    };
    put(path, after).with_context(|| format!("can't write `{shown}`"))?;
    Ok(change)
}

/// Reads a file; `None` if nothing is there.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    if present(path)?.is_none() {
        return Ok(None);
    }
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check_kind(&file.metadata()?)?;
    let mut text = String::new();
    if file.take(MAX_FILE + 1).read_to_string(&mut text)? as u64 > MAX_FILE {
        return Err(io::Error::other("it is too large"));
    }
    Ok(Some(text))
}

/// Puts this content into a file, whole or not at all. One that is there keeps its permissions.
pub(super) fn put(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace(path, content.as_ref(), None)
}

/// The same for a file that only its owner may read.
pub(super) fn put_private(path: &Path, content: &str) -> io::Result<()> {
    replace(path, content.as_bytes(), Some(Permissions::from_mode(PRIVATE)))
}

/// Makes a file that is not there yet.
pub(super) fn create(path: &Path, content: &str) -> io::Result<()> {
    fill(path, content.as_bytes(), None)
}

/// Makes a folder, with those above it, for its owner alone. One that is there stays as it is.
pub(super) fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Keeps what a file held, in the data folder: it may hold secrets, and must not lie where a project would
/// publish it.
fn keep_copy(data: &Path, path: &Path, content: &str) -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(DataDir::open(data)?.file(BACKUPS))?;
    make_private_folder(&folder)?;
    let name = path.file_name().unwrap_or_default();
    for number in 1..=MAX_COPIES {
        let mut numbered = OsString::from(name);
        numbered.push(format!(".{number}"));
        let copy = folder.join(numbered);
        match fill(&copy, content.as_bytes(), Some(Permissions::from_mode(PRIVATE))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return Ok(done.map(|()| copy)?),
        }
    }
    bail!("there are too many copies in `{}`; remove some", folder.display())
}

fn replace(path: &Path, content: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let now = present(path)?;
    if let Some(found) = &now {
        check_own(found)?;
    }
    let permissions = permissions.or_else(|| now.map(|found| found.permissions()));
    let temporary = beside(path, &format!(".{}.tmp", std::process::id()));
    let done = fill(&temporary, content, permissions).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        // The error that matters is the one above.
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// What is there, if it is a file.
fn present(path: &Path) -> io::Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => {
            let found = found?;
            check_kind(&found)?;
            Ok(Some(found))
        }
    }
}

fn check_kind(found: &Metadata) -> io::Result<()> {
    if found.is_symlink() {
        return refused(IS_LINK);
    }
    if found.is_file() { Ok(()) } else { refused("it is not a file") }
}

/// Refuses links among the folders that lead from the current one, a project's, to a file.
fn check_folders(path: &Path) -> io::Result<()> {
    let (Ok(project), Some(folder)) = (std::env::current_dir(), path.parent()) else {
        return Ok(());
    };
    let mut below = folder.ancestors().take_while(|it| it.starts_with(&project) && *it != project);
    if below.any(Path::is_symlink) { refused(IS_LINK) } else { Ok(()) }
}

fn check_own(found: &Metadata) -> io::Result<()> {
    if found.uid() != geteuid().as_raw() {
        return refused("it belongs to another user; run this as that user");
    }
    if found.mode() & OWNER_WRITES == 0 {
        return refused("it is read-only");
    }
    Ok(())
}

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::other(why))
}

fn fill(path: &Path, content: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if permissions.is_some() {
        options.mode(PRIVATE);
    }
    let mut file: File = options.open(path)?;
    file.write_all(content)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(suffix);
    path.with_file_name(name)
}
