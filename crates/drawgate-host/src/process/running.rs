//! A started child and its process group.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::sandbox::SandboxError;
use crate::sandbox::launch::Boxed;

/// A child with its descendants. Dropping it kills them all.
#[derive(Debug)]
pub struct Running {
    child: Child,
    group: Pid,
    exit: AsyncFd<OwnedFd>,
    reaped: bool,
    /// The box, if it is in one. Then the child is its init, which ends as the program did, and only
    /// after all others in the box.
    boxed: Option<Boxed>,
}

impl Running {
    pub(super) fn new(child: Child, boxed: Option<Boxed>) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = id.ok_or_else(|| io::Error::other("the child has no process id"))?;
        let exit = pidfd_open(group, PidfdFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "sound for an `OwnedFd`, which stays open; the successor is unsafe code"
        )]
        let exit = AsyncFd::with_interest(exit, Interest::READABLE)?;
        Ok(Self { child, group, exit, reaped: false, boxed })
    }

    /// The child's process id, which is its group's id too.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    /// The pipe into the child; `None` once taken.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The pipe out of the child; `None` once taken.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The child's complaints; `None` once taken.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the child has exited, kills what it left behind, and reaps it. May be dropped and
    /// called again.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if !self.reaped {
            // The unreaped child keeps its id, and thereby the group's, from being given to others;
            // so the group is killed first.
            let _ready = self.exit.readable().await?;
            self.kill_tree();
        }
        self.reaped = true;
        self.child.wait().await
    }

    /// Why a sandbox was not built after all, or ended the program for what it used. Waits for the end
    /// of the program; ask after [`wait`](Self::wait).
    pub async fn box_failure(&mut self) -> Option<SandboxError> {
        match &mut self.boxed {
            Some(boxed) => boxed.failure().await,
            None => None,
        }
    }

    /// Asks the whole group to end, and after a grace period kills it.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        match &self.boxed {
            Some(boxed) => boxed.ask(),
            None => self.signal(Signal::TERM),
        }
        if let Ok(status) = timeout(grace, self.wait()).await {
            return status;
        }
        self.kill_tree();
        self.wait().await
    }

    /// Kills the whole group at once.
    pub fn kill_tree(&self) {
        match &self.boxed {
            Some(boxed) => boxed.kill(),
            None => self.signal(Signal::KILL),
        }
    }

    fn signal(&self, signal: Signal) {
        if !self.reaped {
            // It fails only when nobody is left.
            let _gone = kill_process_group(self.group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The runtime reaps the child itself, since its handle is dropped after this.
        self.kill_tree();
    }
}
