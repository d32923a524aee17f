//! How children die with a gateway that is itself killed.
//!
//! The kernel can signal a child when its parent ends, but the child must ask for it, between fork
//! and exec. That place is closed to safe code; so the gateway starts itself, and this function, in
//! the new process, asks and then becomes the wanted program.

#![expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::open_files;

/// The hidden first argument that makes the program a launcher.
pub const SUBCOMMAND: &str = "__spawn";

/// Why the launcher did not become another program.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Not called by a gateway.
    #[error(
        "`{SUBCOMMAND}` is for the gateway's own use: `{SUBCOMMAND} PARENT FILES PROGRAM [ARGUMENT]...`"
    )]
    Usage,
    /// The gateway is gone already.
    #[error("the gateway has ended")]
    Orphan,
    /// The system refused.
    #[error("`{program}` can't be started")]
    Exec {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Becomes the program named in `args` (what follows [`SUBCOMMAND`]: the parent's process id, how many
/// files it may open or `-`, the program, its arguments). Returns only if that fails. Call it first thing in `main`.
#[must_use]
pub fn spawn_main(args: impl IntoIterator<Item = OsString>) -> LaunchError {
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
