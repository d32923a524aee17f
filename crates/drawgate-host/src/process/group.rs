//! A process group that dies as a whole.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

/// A child that leads a group of its own.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    id: Pid,
    exit: AsyncFd<OwnedFd>,
    reaped: bool,
}

impl Group {
    pub(super) fn new(child: Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the child has no process id"))?;
        let exit = pidfd_open(id, PidfdFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "sound for an `OwnedFd`, which stays open; the successor is unsafe code"
        )]
        let exit = AsyncFd::with_interest(exit, Interest::READABLE)?;
        Ok(Self { child, id, exit, reaped: false })
    }

    pub(super) fn pid(&self) -> u32 {
        self.id.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the leader has exited, kills what it left behind, and reaps it.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if !self.reaped {
            // The unreaped child keeps its id, and thereby the group's, from being given to others;
            // so the group is killed first.
            let _ready = self.exit.readable().await?;
            self.signal(Signal::KILL);
        }
        self.reaped = true;
        self.child.wait().await
    }

    pub(super) fn signal(&self, signal: Signal) {
        if !self.reaped {
            // It fails only when nobody is left.
            let _gone = kill_process_group(self.id, signal);
        }
    }
}
