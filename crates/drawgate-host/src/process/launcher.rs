//! The launcher: the program by which children are started, whose `main` calls [`main`] here.
//!
//! For a plain child: the kernel can signal it when its parent ends, but the child must ask for it,
//! between fork and exec. That place is closed to safe code; so the launcher, in the new process, asks
//! and then becomes the wanted program. For a sandboxed child it becomes the sandbox's init.

#![expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::open_files;
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
