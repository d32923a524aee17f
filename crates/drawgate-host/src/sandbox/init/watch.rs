//! The outer process's watch over the inner one: orders go in, the writable folders are counted, and
//! its end is the end of the box.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open,
    set_dumpable_behavior, wait,
};

use super::identity::Identity;
use super::quota::{Quota, Verdict};
use super::sweep::Folder;
use super::unlinked::Namespace;
use super::usage::Told;
use super::{NOT_BUILT, program};
use crate::sandbox::cgroup::Groups;
use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::wire::{self, Enforced, KILL, Report, TERM};

/// How often a control group is asked what the program uses; it holds the limit by itself.
const TELL_MEMORY: Duration = Duration::from_secs(1);

/// How the program ended.
pub(super) enum Ended {
    Code(u8),
    Signal(u8),
    /// It never ran.
    Box,
}

impl Ended {
    /// By init.
    pub(super) const KILLED: Self = Self::Signal(9);

    /// As `wait` tells it.
    pub(super) fn status(&self) -> i32 {
        match self {
            Self::Code(code) => i32::from(*code) << 8,
            Self::Signal(signal) => i32::from(*signal),
            Self::Box => i32::from(NOT_BUILT) << 8,
        }
    }
}

/// The inner process, seen from outside.
pub(super) struct Watched<'a> {
    pub(super) child: Pid,
    /// Whose first process it is.
    pub(super) namespace: Option<Namespace>,
    pub(super) control: &'a OwnedFd,
    /// Where it takes orders.
    pub(super) order: OwnedFd,
    /// Where it tells how the program ended.
    pub(super) status: OwnedFd,
}

impl Watched<'_> {
    fn tell(&self, order: &[u8]) -> io::Result<()> {
        wire::send(self.order.as_fd(), order, &[])
    }

    /// Gives the inner process its user, and lets it build.
    pub(super) fn begin(&self, identity: Identity) -> Result<(), SandboxError> {
        identity.write(self.child)?;
        let _private = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        self.tell(&[program::GO]).map_err(failed("preparation"))
    }

    /// Gives it the files of the program's control groups.
    pub(super) fn let_program_start(
        &self,
        group_files: &[OwnedFd],
        enforced: &Enforced,
    ) -> Result<(), SandboxError> {
        let wrong = |error: io::Error| SandboxError::build(Part::Limits, "control group", error);
        let text = serde_json::to_vec(enforced).map_err(|error| wrong(error.into()))?;
        let group_files: Vec<BorrowedFd<'_>> = group_files.iter().map(AsFd::as_fd).collect();
        match wire::send(self.order.as_fd(), &text, &group_files) {
            // It has ended, and said why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map_err(wrong),
        }
    }

    /// Whether the gateway has something to say, or is gone.
    pub(super) fn is_called(&self) -> bool {
        is_called(&mut [PollFd::new(self.control, PollFlags::IN | PollFlags::HUP)])
    }

    /// Until the box is empty: passes orders on, and looks after the folders.
    pub(super) fn watch(
        self,
        folders: &[Folder],
        quota: Quota,
        groups: &Groups,
    ) -> Result<Ended, SandboxError> {
        let over = self.until_over(folders, quota, groups);
        // Whatever has happened, nobody may be left.
        let ended = self.end();
        Ok(match over? {
            Over::Exited => ended,
            Over::Stopped => Ended::KILLED,
        })
    }

    fn until_over(
        &self,
        folders: &[Folder],
        mut quota: Quota,
        groups: &Groups,
    ) -> Result<Over, SandboxError> {
        let mut told = Told::default();
        let failed = failed::<rustix::io::Errno>("watch");
        let exit = pidfd_open(self.child, PidfdFlags::empty()).map_err(&failed)?;
        let mut next = Instant::now() + quota.tick();
        let mut tell_memory = Instant::now();
        loop {
            let mut ready = self.events(&exit);
            let rest = next.saturating_duration_since(Instant::now());
            let rest = Timespec::try_from(rest).map_err(|_| failed(rustix::io::Errno::INVAL))?;
            match poll(&mut ready, Some(&rest)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
            let [exited, ordered] = ready.map(|fd| !fd.revents().is_empty());
            if exited {
                return Ok(self.after_exit(folders, &mut quota));
            }
            if ordered && self.obey().is_none() {
                return Ok(Over::Stopped);
            }
            if Instant::now() >= next {
                let interrupted = || is_called(&mut self.events(&exit));
                let verdict = quota.look(folders, self.namespace, &interrupted);
                if let Verdict::Exceeded(error) = verdict {
                    wire::report(self.control, &Report::Failed(error));
                    return Ok(Over::Stopped);
                }
                if Instant::now() >= tell_memory {
                    // Where there is no group, the inner process counts.
                    if let Some(mib) = groups.memory_mib().filter(|mib| told.is_news(*mib)) {
                        wire::report(self.control, &Report::Uses(mib));
                    }
                    tell_memory = Instant::now() + TELL_MEMORY;
                }
                next = Instant::now() + quota.tick();
            }
        }
    }

    /// The end of the box, and what the gateway says.
    fn events<'a>(&'a self, exit: &'a OwnedFd) -> [PollFd<'a>; 2] {
        [
            PollFd::new(exit, PollFlags::IN),
            PollFd::new(self.control, PollFlags::IN | PollFlags::HUP),
        ]
    }

    /// Nobody is left. What they have added stays, and success is none if that is too much.
    fn after_exit(&self, folders: &[Folder], quota: &mut Quota) -> Over {
        loop {
            match quota.last_look(folders, &|| self.is_called()) {
                Verdict::Within => return Over::Exited,
                Verdict::Exceeded(error) => {
                    wire::report(self.control, &Report::Failed(error));
                    return Over::Stopped;
                }
                Verdict::Interrupted => {
                    let packet = wire::receive(self.control.as_fd()).ok().flatten();
                    // Who asks for the end has it already; who wants it now does not wait for more.
                    if packet.is_none_or(|packet| packet.bytes.as_slice() != [TERM]) {
                        return Over::Exited;
                    }
                }
            }
        }
    }

    /// Does what the gateway says; `None` is the end, which a gateway that is gone wants, too.
    fn obey(&self) -> Option<()> {
        let packet = wire::receive(self.control.as_fd()).ok().flatten()?;
        match packet.bytes.as_slice() {
            [TERM] => self.tell(&[program::TERM]).ok(),
            [KILL] | [_, ..] | [] => None,
        }
    }

    /// Ends the inner process, and thereby all others of its namespace, and says how the program
    /// ended.
    pub(super) fn end(self) -> Ended {
        let _gone = kill_process(self.child, Signal::KILL);
        while let Ok(Some((who, _))) = wait(WaitOptions::empty()) {
            if who == self.child {
                break;
            }
        }
        let mut told = Vec::new();
        let _none = File::from(self.status).read_to_end(&mut told);
        match told.as_slice() {
            [program::EXITED, code, ..] => Ended::Code(*code),
            [program::SIGNALED, signal, ..] => Ended::Signal(*signal),
            [program::STOPPED, ..] => Ended::KILLED,
            [] | [..] => Ended::Box,
        }
    }
}

/// Why a box is over.
enum Over {
    /// Its first process has ended.
    Exited,
    /// The gateway wants it, or it used too much.
    Stopped,
}

fn is_called(by: &mut [PollFd<'_>]) -> bool {
    poll(by, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// An error of what holds the box together.
pub(super) fn failed<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> SandboxError {
    move |error| SandboxError::build(Part::Namespaces, what, error.into())
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::sandbox::ResourceLimits;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn watched(control: &OwnedFd, order: OwnedFd) -> Watched<'_> {
        let child = rustix::process::getpid();
        Watched { child, namespace: None, control, order, status: pair().0 }
    }

    #[test]
    fn an_order_is_noticed_before_the_program_starts() {
        for order in [Some([KILL]), Some([TERM]), None] {
            let (gateway, control) = pair();
            let watched = watched(&control, pair().0);
            assert!(!watched.is_called(), "nobody has said anything");
            match order {
                Some(order) => wire::send(gateway.as_fd(), &order, &[]).unwrap(),
                None => drop(gateway),
            }
            assert!(watched.is_called(), "{order:?}");
        }
    }

    #[test]
    fn who_is_told_to_stop_after_the_end_has_exited() {
        for order in [Some([KILL]), None] {
            let (gateway, control) = pair();
            let watched = watched(&control, pair().0);
            let folder = tempfile::tempdir().unwrap();
            let folders = [Folder::look(folder.path(), &[], &[]).unwrap()];
            let limits = ResourceLimits { disk_mb: 0, files: 0, ..ResourceLimits::default() };
            let mut quota = Quota::new(&limits, &folders);
            std::fs::write(folder.path().join("newer"), vec![1; 4096]).unwrap();
            match order {
                Some(order) => wire::send(gateway.as_fd(), &order, &[]).unwrap(),
                None => drop(gateway),
            }
            assert!(matches!(watched.after_exit(&folders, &mut quota), Over::Exited));
        }
    }
}
