//! A started child with all that comes from it.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::group::Group;
use crate::sandbox::SandboxError;
use crate::sandbox::launch::Boxed;

/// A child with its descendants. Dropping it kills them all.
#[derive(Debug)]
pub struct Running {
    streams: Streams,
    place: Place,
}

/// The pipes of a child; each `None` once taken.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// What holds a child and its descendants together.
#[derive(Debug)]
enum Place {
    Group(Group),
    Box(Boxed),
}

impl Running {
    pub(super) fn in_group(mut child: Child) -> io::Result<Self> {
        let streams = Streams {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        Ok(Self { streams, place: Place::Group(Group::new(child)?) })
    }

    pub(super) const fn in_box(streams: Streams, boxed: Boxed) -> Self {
        Self { streams, place: Place::Box(boxed) }
    }

    /// The child's process id, which is its group's id too; of a sandbox, its init's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.place {
            Place::Group(group) => group.pid(),
            Place::Box(boxed) => boxed.pid(),
        }
    }

    /// The pipe into the child; `None` once taken.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.streams.stdin.take()
    }

    /// The pipe out of the child; `None` once taken.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.streams.stdout.take()
    }

    /// The child's complaints; `None` once taken.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.streams.stderr.take()
    }

    /// Waits until the child has exited and nothing of it is left. May be dropped and called again.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.place {
            Place::Group(group) => group.wait().await,
            Place::Box(boxed) => boxed.wait().await,
        }
    }

    /// Why a sandbox was not built after all, or ended the program for what it used. Waits for the end
    /// of the program; ask after [`wait`](Self::wait).
    pub async fn box_failure(&mut self) -> Option<SandboxError> {
        match &mut self.place {
            Place::Group(_) => None,
            Place::Box(boxed) => boxed.failure().await,
        }
    }

    /// Asks the whole group to end, and after a grace period kills it.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        match &self.place {
            Place::Group(group) => group.signal(Signal::TERM),
            Place::Box(boxed) => boxed.ask(),
        }
        if let Ok(status) = timeout(grace, self.wait()).await {
            return status;
        }
        self.kill_tree();
        self.wait().await
    }

    /// Kills the whole group at once.
    pub fn kill_tree(&self) {
        match &self.place {
            Place::Group(group) => group.signal(Signal::KILL),
            Place::Box(boxed) => boxed.kill(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The runtime reaps the child itself, since its handle is dropped after this.
        self.kill_tree();
    }
}
