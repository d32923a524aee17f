//! The gateway's side of a box: has it built, follows what becomes of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::error::{Part, SandboxError};
use super::fork_server::{self, ForkServer, ForkedBox};
use super::init::sweep::Folder;
use super::memory::MemoryShare;
use super::plan::Plan;
use super::shared_folders::FolderUse;
use super::wire::{self, Enforced, KILL, Report, Swept, TERM};
use crate::egress::proxy::{self, ProxyAccess};
use crate::process::Streams;

/// How long a box may take until its program runs, where that is waited for.
const BUILD_TIME: Duration = Duration::from_secs(20);

/// A socket with init at the other end.
type Control = Arc<AsyncFd<OwnedFd>>;

/// Called with what a box set aside in a folder.
pub(crate) type SweepListener = Box<dyn Fn(Swept) + Send + Sync>;

/// How a box ended, with the first failure.
#[derive(Debug, Clone)]
struct Outcome {
    status: ExitStatus,
    failure: Option<SandboxError>,
}

/// A box with a program in it. Dropped, it ends with all that is in it.
#[derive(Debug)]
pub(crate) struct Boxed {
    pid: u32,
    control: Control,
    outcome: watch::Receiver<Option<Outcome>>,
    _proxy: DropGuard,
}

impl Boxed {
    /// The process id of its init.
    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks all processes to end.
    pub(crate) fn ask(&self) {
        self.order(TERM);
    }

    /// Ends them.
    pub(crate) fn kill(&self) {
        self.order(KILL);
    }

    fn order(&self, order: u8) {
        // It fails only when init is gone, and all others with it.
        let _gone = wire::send(self.control.get_ref().as_fd(), &[order], &[]);
    }

    /// Waits until nobody is left in it, and says how the program ended.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        Ok(self.outcome().await?.status)
    }

    /// Why the box was not built, or was ended; known once it has ended.
    pub(crate) async fn failure(&mut self) -> Option<SandboxError> {
        self.outcome().await.ok()?.failure
    }

    async fn outcome(&mut self) -> io::Result<Outcome> {
        let ended = self.outcome.wait_for(Option::is_some).await.map_err(io::Error::other)?;
        ended.clone().ok_or_else(|| io::Error::other("the sandbox has no end"))
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A box that is being built.
pub(crate) struct Started {
    forked: ForkedBox,
    streams: Streams,
    listener: Option<OwnedFd>,
    folder_use: FolderUse,
    memory: MemoryShare,
}

/// What to start.
pub(crate) struct Order<'a> {
    pub(crate) plan: &'a Plan,
    /// The program's streams, if they are not pipes.
    pub(crate) terminal: Option<BorrowedFd<'a>>,
}

/// Has a box built.
pub(crate) fn start(
    server: &ForkServer,
    launcher: &Path,
    order: &Order<'_>,
    folder_use: FolderUse,
    memory: MemoryShare,
) -> io::Result<Started> {
    let text = memfd_create("plan", MemfdFlags::CLOEXEC)?;
    let mut text = std::fs::File::from(text);
    io::Write::write_all(&mut text, &serde_json::to_vec(order.plan)?)?;
    let plan = text.as_fd();
    let (forked, streams) = match order.terminal {
        Some(terminal) => {
            let (stdin, stdout, stderr) = (terminal, terminal, terminal);
            let order = fork_server::Order { plan, stdin, stdout, stderr };
            let streams = Streams { stdin: None, stdout: None, stderr: None };
            (server.order(launcher, &order)?, streams)
        }
        None => on_pipes(server, launcher, plan)?,
    };
    Ok(Started { forked, streams, listener: None, folder_use, memory })
}

fn on_pipes(
    server: &ForkServer,
    launcher: &Path,
    plan: BorrowedFd<'_>,
) -> io::Result<(ForkedBox, Streams)> {
    let (stdin, writer) = io::pipe()?;
    let (out_reader, stdout) = io::pipe()?;
    let (err_reader, stderr) = io::pipe()?;
    let order = fork_server::Order {
        plan,
        stdin: stdin.as_fd(),
        stdout: stdout.as_fd(),
        stderr: stderr.as_fd(),
    };
    let forked = server.order(launcher, &order)?;
    let writer = std::process::ChildStdin::from(OwnedFd::from(writer));
    let out_reader = std::process::ChildStdout::from(OwnedFd::from(out_reader));
    let err_reader = std::process::ChildStderr::from(OwnedFd::from(err_reader));
    let streams = Streams {
        stdin: Some(ChildStdin::from_std(writer)?),
        stdout: Some(ChildStdout::from_std(out_reader)?),
        stderr: Some(ChildStderr::from_std(err_reader)?),
    };
    Ok((forked, streams))
}

impl Started {
    /// Waits until the program runs, or can't.
    pub(crate) fn wait(&mut self) -> Result<Enforced, SandboxError> {
        let failed = |what: &str| SandboxError::build(Part::Program, "init", what);
        let most = Timespec::try_from(BUILD_TIME).map_err(|_| failed("time"))?;
        let control = &self.forked.control;
        loop {
            let mut ready = [PollFd::new(control, PollFlags::IN | PollFlags::HUP)];
            match poll(&mut ready, Some(&most)) {
                Ok(0) => return Err(failed("the box was not built in time")),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(failed(&error.to_string())),
            }
            let packet = wire::receive(control.as_fd());
            let packet = packet.map_err(|error| failed(&error.to_string()))?;
            let packet = packet.ok_or_else(|| failed("it ended without a word"))?;
            match serde_json::from_slice(&packet.bytes)
                .map_err(|error| failed(&error.to_string()))?
            {
                Report::Started(enforced) => return Ok(enforced),
                Report::Failed(error) => return Err(error),
                Report::Proxy => {
                    let listener = packet.descriptors.into_iter().next();
                    self.listener = Some(listener.ok_or_else(|| failed("its proxy is missing"))?);
                }
                Report::Ended(_) => return Err(failed("it ended without a reason")),
                Report::Forked(_) | Report::Uses(_) | Report::Swept(_) => {}
            }
        }
    }

    /// Has it taken down; its folders are its own until that is done.
    pub(crate) fn end(self) {
        // Without a runtime's part in it, init ends by the end of the socket.
        drop(self.run(None, None));
    }

    /// Hands init over to the runtime.
    pub(crate) fn run(
        self,
        access: Option<ProxyAccess>,
        listener: Option<SweepListener>,
    ) -> io::Result<(Streams, Boxed)> {
        let ForkedBox { control, pid } = self.forked;
        #[expect(
            deprecated,
            reason = "sound for an `OwnedFd`, which stays open; the successor is unsafe code"
        )]
        let control = Arc::new(AsyncFd::with_interest(control, Interest::READABLE)?);
        let stop = CancellationToken::new();
        let mut listening = Listening { access, stop: stop.clone() };
        if let Some(listener) = self.listener {
            listening.begin(listener);
        }
        let (told, outcome) = watch::channel(None);
        let held = Held { folder_use: self.folder_use, memory: self.memory };
        tokio::spawn(follow_reports(Arc::clone(&control), listening, told, listener, held));
        Ok((self.streams, Boxed { pid, control, outcome, _proxy: stop.drop_guard() }))
    }
}

/// The proxy of a box, until it runs.
struct Listening {
    access: Option<ProxyAccess>,
    stop: CancellationToken,
}

impl Listening {
    fn begin(&mut self, listener: OwnedFd) {
        let Some(access) = self.access.take() else { return };
        let listener = std::net::TcpListener::from(listener);
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener));
        match listener {
            Ok(listener) => {
                let stop = self.stop.clone();
                tokio::spawn(proxy::serve(listener, access, stop));
            }
            Err(error) => tracing::warn!(%error, "the proxy of a sandbox can't be started"),
        }
    }
}

/// What a box has in common with others, until it has ended.
struct Held {
    folder_use: FolderUse,
    memory: MemoryShare,
}

/// Follows the reports of init to its end. The first failure is the reason of all others.
async fn follow_reports(
    control: Control,
    mut listening: Listening,
    told: watch::Sender<Option<Outcome>>,
    listener: Option<SweepListener>,
    Held { folder_use, memory }: Held,
) {
    let mut failure = None;
    let mut ended = None;
    loop {
        let heard = tokio::select! {
            heard = next(&control) => heard,
            () = memory.stop.cancelled(), if failure.is_none() => {
                failure = memory.failure();
                let _gone = wire::send(control.get_ref().as_fd(), &[KILL], &[]);
                continue;
            }
        };
        let Some((report, descriptors)) = heard else { break };
        match report {
            Report::Failed(error) => failure = failure.or(Some(error)),
            Report::Proxy => {
                if let Some(listener) = descriptors.into_iter().next() {
                    listening.begin(listener);
                } else {
                    let missing = "the gateway can't open more files";
                    failure =
                        failure.or(Some(SandboxError::build(Part::Network, "proxy", missing)));
                    let _gone = wire::send(control.get_ref().as_fd(), &[KILL], &[]);
                }
            }
            Report::Uses(mib) => memory.uses(mib),
            Report::Swept(swept) => report_swept(listener.as_ref(), swept),
            Report::Ended(how) => {
                ended = Some(how);
                break;
            }
            Report::Forked(_) | Report::Started(_) => {}
        }
    }
    if ended.is_none() {
        // An init that says nothing at its end was killed, and the kernel has killed the rest.
        sweep(&folder_use)
            .await
            .into_iter()
            .for_each(|swept| report_swept(listener.as_ref(), swept));
    }
    if folder_use.was_shared() {
        failure = failure.map(SandboxError::into_shared);
    }
    // It has left its folders: whoever comes now finds there what others have put there since.
    drop((folder_use, memory));
    let status = ExitStatus::from_raw(ended.unwrap_or(libc::SIGKILL));
    let _nobody_waits = told.send(Some(Outcome { status, failure }));
}

fn report_swept(listener: Option<&SweepListener>, swept: Swept) {
    let Swept { folder, removed, left } = &swept;
    if !removed.is_empty() {
        tracing::warn!(?folder, names = ?removed, "moved away what a program in the sandbox had planted");
    }
    if !left.is_empty() {
        tracing::error!(
            ?folder,
            names = ?left,
            "what a program in the sandbox planted can't be moved away; look at it, and remove it"
        );
    }
    if let Some(listener) = listener {
        listener(swept);
    }
}

/// What an init does that is not killed.
async fn sweep(folder_use: &FolderUse) -> Vec<Swept> {
    let (absent, unprotected) = (folder_use.absent.clone(), folder_use.unprotected.clone());
    let all = move || {
        let each = absent.into_iter().map(|(folder, absent)| {
            Folder::look(&folder, &absent, &unprotected).map_or_else(
                |_| Swept { folder: folder.clone(), left: absent.clone(), ..Swept::default() },
                |found| found.sweep(),
            )
        });
        each.filter(Swept::has_findings).collect()
    };
    tokio::task::spawn_blocking(all).await.unwrap_or_default()
}

/// What init says next; `None` when it is gone.
async fn next(control: &Control) -> Option<(Report, Vec<OwnedFd>)> {
    loop {
        let mut ready = control.readable().await.ok()?;
        let Ok(packet) = ready.try_io(|fd| wire::receive(fd.get_ref().as_fd())) else { continue };
        let report = match packet {
            Ok(packet) => {
                let packet = packet?;
                serde_json::from_slice(&packet.bytes)
                    .map(|report| (report, packet.descriptors))
                    .map_err(io::Error::from)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
            Err(_gone) => return None,
        };
        match report {
            Ok(report) => return Some(report),
            Err(error) => tracing::warn!(%error, "a word of a sandbox's init can't be read"),
        }
    }
}
