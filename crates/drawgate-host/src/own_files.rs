//! Opening the gateway's own files in its data folder. Such a file is never a link and never a pipe: a link
//! would have another file read or written in its place, and a pipe would be waited for without end.
//!
//! Files that a user names are opened by [`user_files`](crate::user_files).

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Why a path is not opened.
const NOT_A_FILE: &str =
    "it is not a regular file; move it away, or put the file back from a backup";

/// Opens a regular file, without following a link and without waiting. One that is made is readable by its
/// owner alone.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let opened = options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = match opened {
        // A link, a pipe without a reader or a socket, a folder.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO | libc::EISDIR)) =>
        {
            return Err(not_a_file());
        }
        opened => opened?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
}

/// Opens a file for reading.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Reads a whole file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file of text.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_to_read(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Checks a database that `SQLite` will open, and the files beside it. They are not opened: closing one
/// would release the locks that other connections of this process have on it.
pub(crate) fn check_database(path: &Path) -> io::Result<()> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        let name = PathBuf::from(name);
        match name.symlink_metadata() {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(not_a_file()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn not_a_file() -> io::Error {
    io::Error::other(NOT_A_FILE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("elsewhere"), at("dangling")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let append = || OpenOptions::new().append(true).create(true).clone();
        for name in ["folder", "link", "dangling", "pipe", "socket"] {
            assert_eq!(read(&at(name)).unwrap_err().to_string(), NOT_A_FILE, "{name}");
            let refused = open(&at(name), &mut append()).unwrap_err();
            // A pipe that its owner may not write is refused for that.
            let is_denied = refused.kind() == io::ErrorKind::PermissionDenied;
            assert!(is_denied || refused.to_string() == NOT_A_FILE, "{name}: {refused}");
            assert!(check_database(&at(name)).is_err(), "{name}");
        }
        assert!(!at("elsewhere").exists());
        assert_eq!(read_to_string(&at("file")).unwrap(), "text");
        open(&at("new"), &mut append()).unwrap();
        assert_eq!(at("new").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        check_database(&at("new")).unwrap();
        check_database(&at("absent")).unwrap();
        symlink(at("file"), at("new-wal")).unwrap();
        assert!(check_database(&at("new")).is_err());
    }
}
