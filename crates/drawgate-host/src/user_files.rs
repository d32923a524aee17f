//! Reading files that a user names: a named pipe that no program writes would be waited for without end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Where shells put the pipes of `<(command)`: these have a writer, and opening them waits for none.
const OF_SHELLS: [&str; 4] = ["/dev/fd", "/proc/self/fd", "/dev/stdin", "/proc/thread-self/fd"];

/// Opens a file for reading, without waiting: not for a named pipe, which is refused.
pub fn open(path: &Path) -> io::Result<File> {
    if OF_SHELLS.iter().any(|folder| path.starts_with(folder)) {
        return File::open(path);
    }
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        return Err(io::Error::other("it is a named pipe, and not a file"));
    }
    Ok(file)
}

/// Reads a whole file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file of text.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_pipe_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        std::fs::write(&file, "text").unwrap();
        let refused = read(&pipe).unwrap_err().to_string();
        assert_eq!(refused, "it is a named pipe, and not a file");
        assert_eq!(read_to_string(&file).unwrap(), "text");
        let (end, mut writer) = std::io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"of a shell").unwrap();
        drop(writer);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&end);
        assert_eq!(read(Path::new(&format!("/dev/fd/{fd}"))).unwrap(), b"of a shell");
    }
}
