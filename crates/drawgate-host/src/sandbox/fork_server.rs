//! The gateway's side of the fork server: one process, started with the first box, that forks for every
//! box.
//!
//! Starting the launcher takes longer than building a box. So it is done once; that process has one
//! thread and never runs other programs itself.

#![expect(clippy::disallowed_methods, reason = "this is the one place that starts init")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::init;
use super::wire::{self, Report, START};
use crate::process::without_blocking_others;

/// How long the init of a box takes until its first report, as a rule much less.
const SOON: Duration = Duration::from_millis(200);
/// How long it may take. A fork server that takes longer hangs, and is replaced.
const FORK_TIMEOUT: Duration = Duration::from_secs(5);

/// How many fork servers are tried for one box.
const ATTEMPTS: usize = 2;

/// The allocator of the launcher would start a thread, and a process that forks must have one only.
const ONE_THREAD: (&str, &str) = ("MALLOC_CONF", "background_thread:false");

/// What a box is made from. Beside it, init gets a socket to talk over.
pub(crate) struct Order<'a> {
    pub(crate) plan: BorrowedFd<'a>,
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
}

/// The init of a box that is being built.
pub(crate) struct ForkedBox {
    pub(crate) control: OwnedFd,
    pub(crate) pid: u32,
}

/// The fork server. Cheap to clone; clones are the same. Its process ends with the last.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForkServer(Arc<Mutex<Option<Arc<ServerProcess>>>>);

impl ForkServer {
    /// Has a box built.
    pub(crate) fn order(&self, launcher: &Path, order: &Order<'_>) -> io::Result<ForkedBox> {
        for _ in 0..ATTEMPTS {
            let server = self.server(launcher)?;
            if let Some(forked) = server.ask(order)? {
                return Ok(forked);
            }
            // It was ended or stopped, perhaps by the kernel for want of memory.
            self.forget(&server);
        }
        Err(io::Error::other("the sandbox's init ended at once, or does not answer"))
    }

    fn server(&self, launcher: &Path) -> io::Result<Arc<ServerProcess>> {
        let mut now = self.0.lock();
        if let Some(server) = now.as_ref() {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(ServerProcess::start(launcher)?);
        *now = Some(Arc::clone(&server));
        Ok(server)
    }

    fn forget(&self, gone: &Arc<ServerProcess>) {
        let mut now = self.0.lock();
        if now.as_ref().is_some_and(|server| Arc::ptr_eq(server, gone)) {
            *now = None;
        }
    }
}

#[derive(Debug)]
struct ServerProcess {
    socket: OwnedFd,
    /// Reaped by the runtime.
    child: Child,
}

impl ServerProcess {
    fn start(launcher: &Path) -> io::Result<Self> {
        let (socket, theirs) = pair()?;
        let child = Command::new(launcher)
            .arg(init::SUBCOMMAND)
            .env_clear()
            .env(ONE_THREAD.0, ONE_THREAD.1)
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            // It ends when the socket does.
            .kill_on_drop(false)
            .spawn()?;
        Ok(Self { socket, child })
    }

    /// `None` if it is gone, which it is if it does not answer.
    fn ask(&self, order: &Order<'_>) -> io::Result<Option<ForkedBox>> {
        let (control, theirs) = pair()?;
        let Order { plan, stdin, stdout, stderr } = *order;
        match wire::send(
            self.socket.as_fd(),
            &[START],
            &[plan, stdin, stdout, stderr, theirs.as_fd()],
        ) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        drop(theirs);
        let pid = match first_report(&control) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.kill();
                return Ok(None);
            }
            pid => pid?,
        };
        rustix::io::ioctl_fionbio(&control, true)?;
        Ok(pid.map(|pid| ForkedBox { control, pid }))
    }

    /// A server that hangs must not build the box later, when it is not waited for any more.
    fn kill(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            let _gone = kill_process(id, Signal::KILL);
        }
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The process id of a box's init; `None` if the fork server is gone.
fn first_report(control: &OwnedFd) -> io::Result<Option<u32>> {
    let comes = await_report(control, SOON)?
        || without_blocking_others(|| await_report(control, FORK_TIMEOUT))?;
    if !comes {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let packet = match wire::receive(control.as_fd()) {
        Ok(Some(packet)) => packet,
        Ok(None) => return Ok(None),
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice(&packet.bytes)? {
        Report::Forked(pid) => Ok(u32::try_from(pid).ok()),
        Report::Failed(error) => Err(io::Error::other(error)),
        Report::Proxy
        | Report::Started(_)
        | Report::Uses(_)
        | Report::Swept(_)
        | Report::Ended(_) => Err(io::Error::other("the sandbox's init spoke out of turn")),
    }
}

/// Whether init says something, or ends, in this time.
fn await_report(control: &OwnedFd, most: Duration) -> io::Result<bool> {
    let most = Timespec::try_from(most).map_err(io::Error::other)?;
    let mut ready = [PollFd::new(control, PollFlags::IN | PollFlags::HUP)];
    loop {
        match poll(&mut ready, Some(&most)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
