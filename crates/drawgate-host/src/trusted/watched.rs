//! A folder that the gateway's own tools write, looked at again whenever something was mounted.

use std::fs::File;
use std::path::PathBuf;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Conflict, Trusted};

/// A folder that tools may write as long as nothing that decides about programs can be reached in it.
#[derive(Debug)]
pub struct WatchedFolder {
    folder: PathBuf,
    trusted: Trusted,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The kernel's table of mounts, which says when it has changed; absent where the kernel has no such table.
    table: Option<File>,
    verdict: Result<(), Conflict>,
}

impl WatchedFolder {
    /// Looks at a folder for the first time.
    #[must_use]
    pub fn new(folder: PathBuf, trusted: Trusted) -> Self {
        // Opened before the folder is looked at, so that no change is missed.
        let table = File::open("/proc/self/mountinfo").ok();
        let verdict = trusted.check_writable(&folder);
        Self { folder, trusted, state: Mutex::new(State { table, verdict }) }
    }

    /// Whether it may be written now.
    pub fn check(&self) -> Result<(), Conflict> {
        let mut state = self.state.lock();
        if state.table.as_ref().is_none_or(has_changed) {
            state.verdict = self.trusted.check_writable(&self.folder);
        }
        state.verdict.clone()
    }
}

/// Whether something was mounted or unmounted since this was asked last.
fn has_changed(table: &File) -> bool {
    let mut ready = [PollFd::new(table, PollFlags::PRI)];
    // What can't be told counts as a change.
    poll(&mut ready, Some(&Timespec::default())) != Ok(0)
}
