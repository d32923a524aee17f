//! The launcher: the program by which children are started, whose `main` calls [`main`] here.
//!
//! For a plain child: the kernel can signal it when its parent ends, but the child must ask for it,
//! between fork and exec. That place is closed to safe code; so the launcher, in the new process, asks
//! and then becomes the wanted program. For a sandboxed child it becomes the sandbox's init.

#![expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::open_files;
use crate::ownership::{is_ours, others_replace_in, others_write};
use crate::sandbox::init;

/// The hidden first argument that makes the program a launcher.
pub(super) const SUBCOMMAND: &str = "__spawn";

/// The exit code of a launcher that did not become the program, as of shells.
const NOT_STARTED: u8 = 127;

/// Why the launcher did not become another program.
#[derive(Debug, thiserror::Error)]
enum LaunchError {
    #[error(
        "`{SUBCOMMAND}` is for the gateway's own use: `{SUBCOMMAND} PARENT FILES PROGRAM [ARGUMENT]...`"
    )]
    Usage,
    #[error("the gateway has ended")]
    Orphan,
    #[error("`{program}` can't be started: {source}")]
    Exec { program: String, source: std::io::Error },
}

/// Why a file can't be the launcher.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedLauncher {
    /// It is not there, or can't be looked at.
    #[error("`{}` can't be used as the launcher: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not a file.
    #[error("`{}` can't be used as the launcher: it is not a file", .0.display())]
    NotAFile(PathBuf),
    /// Another user could put another program in its place.
    #[error(
        "`{}` is not used as the launcher: it and its folder must belong to root or to this user, \
         and only the owner may write them",
        .0.display()
    )]
    Foreign(PathBuf),
}

/// The launcher at a path, if no other user can change or replace it.
pub fn trusted(path: &Path) -> Result<PathBuf, UntrustedLauncher> {
    let unreadable = |source| UntrustedLauncher::Unreadable { path: path.to_owned(), source };
    let file = path.canonicalize().map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(UntrustedLauncher::NotAFile(file));
    }
    let folder = file.parent().map(Path::metadata).transpose().map_err(unreadable)?;
    let is_safe = |folder: &Metadata| is_ours(folder) && !others_replace_in(folder);
    if !is_ours(&found) || others_write(&found) || !folder.as_ref().is_some_and(is_safe) {
        return Err(UntrustedLauncher::Foreign(file));
    }
    Ok(file)
}

/// Does the launcher's work if the arguments of this process (without the program's name) ask for it;
/// `None` otherwise. Call it first thing in `main`, before there is a second thread.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter();
    let first = args.next()?;
    if first == init::SUBCOMMAND {
        return Some(init::init_main());
    }
    (first == SUBCOMMAND).then(|| {
        let error = become_program(args);
        eprintln!("{error}");
        ExitCode::from(NOT_STARTED)
    })
}

/// Becomes the program named in `args`: the parent's process id, how many files it may open or `-`, the
/// program, its arguments. Returns only if that fails.
fn become_program(args: impl IntoIterator<Item = OsString>) -> LaunchError {
    let mut args = args.into_iter();
    let parent = args.next().and_then(|text| text.to_str()?.parse::<i32>().ok());
    let (Some(parent), Some(files), Some(program)) = (parent, args.next(), args.next()) else {
        return LaunchError::Usage;
    };
    let shown = program.to_string_lossy().into_owned();
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return LaunchError::Exec { program: shown, source: error.into() };
    }
    // The gateway may have ended before the request above; then no signal will come.
    if getppid().is_none_or(|now| now.as_raw_nonzero().get() != parent) {
        return LaunchError::Orphan;
    }
    open_files::lower(&files.to_string_lossy());
    LaunchError::Exec { program: shown, source: Command::new(program).args(args).exec() }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_what_no_other_user_can_change_is_a_launcher() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drawgate-launch");
        let check = |file_mode: u32, folder_mode: u32| {
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(file_mode)).unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
            trusted(&file).map_err(|error| error.to_string())
        };
        assert_eq!(check(0o755, 0o755).unwrap(), file.canonicalize().unwrap());
        assert!(check(0o555, 0o1777).is_ok(), "in a sticky folder only the owner may replace it");
        for (file_mode, folder_mode) in [(0o775, 0o755), (0o757, 0o755), (0o755, 0o777)] {
            let refused = check(file_mode, folder_mode).unwrap_err();
            assert!(refused.contains("must belong to root"), "{refused}");
        }
        let absent = trusted(&folder.path().join("none")).unwrap_err().to_string();
        assert!(absent.contains("none") && absent.contains("No such file"), "{absent}");
        let no_file = trusted(folder.path()).unwrap_err().to_string();
        assert!(no_file.contains("is not a file"), "{no_file}");
    }
}
