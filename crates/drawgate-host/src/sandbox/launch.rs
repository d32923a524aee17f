//! The gateway's side of a box: starts init, gives it the plan, hears what became of it.

#![expect(clippy::disallowed_methods, reason = "this is the one place that starts init")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::error::{Part, SandboxError};
use super::init;
use super::plan::Plan;
use super::rooms::Stay;
use super::wire::{self, Enforced, KILL, Report, START, TERM};
use crate::egress::{Egress, Reach, proxy};

/// How long a box may take until its program runs, where that is waited for.
const BUILD_TIME: Duration = Duration::from_secs(20);

/// A socket with init at the other end.
type Control = Arc<AsyncFd<OwnedFd>>;

/// Whom the program may reach, and by whom.
pub(crate) struct Way {
    pub(crate) egress: Arc<Egress>,
    pub(crate) reach: Reach,
}

/// What init has said.
#[derive(Debug)]
enum Heard {
    NotYet,
    /// To its end, with the first failure.
    All(Option<SandboxError>),
}

/// A box with a program in it. Dropped, it ends with all that is in it.
#[derive(Debug)]
pub(crate) struct Boxed {
    control: Control,
    reports: JoinHandle<Option<SandboxError>>,
    heard: Heard,
    _proxy: DropGuard,
}

impl Boxed {
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

    /// Why the box was not built, or was ended; known once it has ended.
    pub(crate) async fn failure(&mut self) -> Option<SandboxError> {
        if let Heard::NotYet = self.heard {
            self.heard = Heard::All((&mut self.reports).await.ok().flatten());
        }
        match &self.heard {
            Heard::All(failure) => failure.clone(),
            Heard::NotYet => None,
        }
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A started init that has its plan.
pub(crate) struct Started {
    child: Child,
    control: OwnedFd,
    listener: Option<OwnedFd>,
    stay: Stay,
}

/// Starts init, and gives it the plan.
pub(crate) fn start(launcher: &Path, plan: &Plan, stay: Stay) -> io::Result<Started> {
    let text = memfd_create("plan", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(text);
    io::Write::write_all(&mut file, &serde_json::to_vec(plan)?)?;
    io::Seek::rewind(&mut file)?;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let (reader, writer) = io::pipe()?;
    let mut child = Command::new(launcher)
        .arg(init::SUBCOMMAND)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        // Init ends when the socket does, and cleans up first.
        .kill_on_drop(false)
        .spawn()?;
    wire::send(ours.as_fd(), &[START], &[file.as_fd(), reader.as_fd()])?;
    let stdin = std::process::ChildStdin::from(OwnedFd::from(writer));
    child.stdin = Some(ChildStdin::from_std(stdin)?);
    Ok(Started { child, control: ours, listener: None, stay })
}

impl Started {
    /// Waits until the program runs, or can't.
    pub(crate) fn wait(&mut self) -> Result<Enforced, SandboxError> {
        let failed = |what: &str| SandboxError::build(Part::Program, "init", what);
        let most = Timespec::try_from(BUILD_TIME).map_err(|_| failed("time"))?;
        loop {
            let mut ready = [PollFd::new(&self.control, PollFlags::IN | PollFlags::HUP)];
            match poll(&mut ready, Some(&most)) {
                Ok(0) => return Err(failed("the box was not built in time")),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(failed(&error.to_string())),
            }
            let packet = wire::receive(self.control.as_fd());
            let packet = packet.map_err(|error| failed(&error.to_string()))?;
            let packet = packet.ok_or_else(|| failed("it ended without a word"))?;
            match serde_json::from_slice(&packet.bytes)
                .map_err(|error| failed(&error.to_string()))?
            {
                Report::Started(enforced) => return Ok(enforced),
                Report::Failed(error) => return Err(error),
                Report::Proxy => self.listener = packet.descriptors.into_iter().next(),
                Report::Removed(_) => {}
            }
        }
    }

    /// Hands init over to the runtime.
    pub(crate) fn run(self, way: Option<Way>) -> io::Result<(Child, Boxed)> {
        #[expect(
            deprecated,
            reason = "sound for an `OwnedFd`, which stays open; the successor is unsafe code"
        )]
        let control = Arc::new(AsyncFd::with_interest(self.control, Interest::READABLE)?);
        let stop = CancellationToken::new();
        let mut listening = Listening { way, stop: stop.clone() };
        if let Some(listener) = self.listener {
            listening.begin(listener);
        }
        let reports = tokio::spawn(hear(Arc::clone(&control), listening, self.stay));
        Ok((
            self.child,
            Boxed { control, reports, heard: Heard::NotYet, _proxy: stop.drop_guard() },
        ))
    }
}

/// The proxy of a box, until it runs.
struct Listening {
    way: Option<Way>,
    stop: CancellationToken,
}

impl Listening {
    fn begin(&mut self, listener: OwnedFd) {
        let Some(way) = self.way.take() else { return };
        let listener = std::net::TcpListener::from(listener);
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener));
        match listener {
            Ok(listener) => {
                let stop = self.stop.clone();
                tokio::spawn(proxy::serve(listener, way.egress, way.reach, stop));
            }
            Err(error) => tracing::warn!(%error, "a sandbox has no way out"),
        }
    }
}

/// Hears init to its end, which is when the box has left its folders. The first failure is the reason
/// of all others.
async fn hear(control: Control, mut listening: Listening, _stay: Stay) -> Option<SandboxError> {
    let mut failure = None;
    loop {
        let Ok(mut ready) = control.readable().await else { return failure };
        let packet = match ready.try_io(|fd| wire::receive(fd.get_ref().as_fd())) {
            Err(_would_block) => continue,
            Ok(Ok(Some(packet))) => packet,
            Ok(Ok(None) | Err(_)) => return failure,
        };
        match serde_json::from_slice(&packet.bytes) {
            Ok(Report::Failed(error)) => failure = failure.or(Some(error)),
            Ok(Report::Proxy) => packet.descriptors.into_iter().for_each(|fd| listening.begin(fd)),
            Ok(Report::Removed(names)) => {
                tracing::warn!(?names, "moved away what a program in the sandbox had planted");
            }
            Ok(Report::Started(_)) | Err(_) => {}
        }
    }
}
