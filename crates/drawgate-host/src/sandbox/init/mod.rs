//! Init: the launcher as a process that builds boxes, runs one program in each and cleans up.
//!
//! The first process, the fork server, does nothing but fork for every box. A box has three. The
//! outer one stays outside with the gateway's rights: it makes control groups,
//! watches the writable folders and removes what was planted there. The inner one is the first
//! process of the box's namespaces: when it ends, the kernel ends all others in them. The third
//! becomes the program. They are told what to do over a socket, so no argument and no environment of
//! the program ever reaches the outer one's own loader.

mod accessible;
mod activity;
mod count;
pub(crate) mod etc;
mod fork_server;
mod identity;
mod inner;
mod landlock;
mod limits;
mod mapping;
mod mounts;
mod outer;
mod privileges;
mod program;
mod protect;
mod quota;
mod seccomp;
mod sockets;
pub(super) mod sweep;
mod sys;
mod trees;
mod unlinked;
mod usage;
mod watch;

use std::process::ExitCode;

/// The hidden first argument that makes the program an init.
pub(crate) const SUBCOMMAND: &str = "__sandbox-init";

/// The exit code of an init whose box was not built; the reason went to the gateway.
pub(crate) const NOT_BUILT: u8 = 125;

/// Builds the boxes that the gateway asks for on standard input, until it is gone. This process must
/// have one thread.
pub(crate) fn init_main() -> ExitCode {
    fork_server::run()
}
