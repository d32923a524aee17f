//! The outer process: prepares the box, watches over it from outside, and cleans up after it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open,
    set_dumpable_behavior, wait,
};

use super::identity::Identity;
use super::inner::{self, Inner};
use super::quota::{Counted, Quota};
use super::sweep::Folder;
use super::sys::{self, Copy};
use super::{NOT_BUILT, program};
use crate::sandbox::cgroup::Groups;
use crate::sandbox::error::{Limit, Part, SandboxError};
use crate::sandbox::plan::Plan;
use crate::sandbox::wire::{self, Enforced, KILL, Report, START, TERM};

/// How often the writable folders are looked at.
const TICK: Duration = Duration::from_millis(50);

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

pub(super) fn run() -> ExitCode {
    let Ok(control) = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3) else {
        return ExitCode::from(NOT_BUILT);
    };
    match live(&control) {
        Ok(Ended::Code(code)) => ExitCode::from(code),
        Ok(Ended::Signal(signal)) => die_of(signal),
        Ok(Ended::Box) => ExitCode::from(NOT_BUILT),
        Err(error) => {
            wire::report(&control, &Report::Failed(error), &[]);
            ExitCode::from(NOT_BUILT)
        }
    }
}

/// How the program ended.
enum Ended {
    Code(u8),
    Signal(i32),
    /// It never ran.
    Box,
}

fn live(control: &OwnedFd) -> Result<Ended, SandboxError> {
    kernel_is_new_enough()?;
    let (plan, stdin) = plan(control)?;
    let io_failed = |error: io::Error| SandboxError::build(Part::Namespaces, "preparation", error);
    let identity = Identity::choose().map_err(io_failed)?;
    let trees = if identity.needs_mapping() { identity.mapped_trees(&plan)? } else { Vec::new() };
    let folders = folders(&plan)?;
    let quota = Quota::new(&plan.limits, &folders);
    let most = plan.limits.memory_mb;
    let mut groups = Groups::make(&plan.limits);
    let enforced = Enforced {
        cgroups: groups.held.clone(),
        landlock: sys::landlock_version(),
        mapped: identity.needs_mapping(),
    };
    let (orders, order) = io::pipe().map_err(io_failed)?;
    let (status, tell) = io::pipe().map_err(io_failed)?;
    let doors = std::mem::take(&mut groups.doors);
    let child = match sys::copy_process(NAMESPACES) {
        Ok(Copy::Child) => {
            drop((order, status));
            let control = control.try_clone().map_err(io_failed)?;
            inner::run(Inner {
                plan,
                identity,
                trees,
                doors,
                stdin,
                control,
                orders,
                tell,
                enforced,
            })
        }
        Ok(Copy::Parent(child)) => child,
        Err(error) => return Err(SandboxError::build(Part::Namespaces, "clone", error)),
    };
    drop((orders, tell, trees, doors, stdin));
    let inner = Watched { child, control, order, status: status.into() };
    let begun = identity.write(child).and_then(|()| {
        let _private = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        program::forget_standard_streams().map_err(io_failed)?;
        inner.tell(program::GO).map_err(io_failed)
    });
    let ended = match begun {
        Ok(()) => inner.watch(&folders, quota),
        Err(error) => {
            inner.end();
            Err(error)
        }
    };
    sweep(&folders, control);
    let failed = !matches!(ended, Ok(Ended::Code(0)) | Err(_));
    if failed && groups.ran_out_of_memory() {
        let error = SandboxError::Limit { limit: Limit::Memory, most };
        wire::report(control, &Report::Failed(error), &[]);
    }
    ended
}

/// Mounts can be changed as needed since 5.12, and processes are counted by user namespace since 5.14.
fn kernel_is_new_enough() -> Result<(), SandboxError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next().and_then(Result::ok), numbers.next().and_then(Result::ok));
    if version >= (Some(5), Some(14)) {
        return Ok(());
    }
    Err(SandboxError::build(Part::Kernel, "version", release))
}

/// Reads what the gateway wants.
fn plan(control: &OwnedFd) -> Result<(Plan, OwnedFd), SandboxError> {
    let wrong = |what: &str| SandboxError::build(Part::Program, "plan", what);
    let packet = wire::receive(control.as_fd()).map_err(|error| wrong(&error.to_string()))?;
    let packet = packet.filter(|packet| packet.bytes.as_slice() == [START]);
    let packet = packet.ok_or_else(|| wrong("only the gateway starts this"))?;
    let [text, stdin]: [OwnedFd; 2] =
        packet.descriptors.try_into().map_err(|_| wrong("descriptors are missing"))?;
    let mut bytes = Vec::new();
    File::from(text).read_to_end(&mut bytes).map_err(|error| wrong(&error.to_string()))?;
    let plan = serde_json::from_slice(&bytes).map_err(|error| wrong(&error.to_string()))?;
    Ok((plan, stdin))
}

fn folders(plan: &Plan) -> Result<Vec<Folder>, SandboxError> {
    let look = |path: &std::path::Path| {
        let absent = plan.absent.get(path).map_or(&[][..], Vec::as_slice);
        Folder::look(path, absent).map_err(|error| SandboxError::Folder {
            path: path.display().to_string(),
            reason: error.to_string(),
        })
    };
    plan.writable().map(look).collect()
}

fn sweep(folders: &[Folder], control: &OwnedFd) {
    let removed: Vec<String> = folders.iter().flat_map(Folder::sweep).collect();
    if !removed.is_empty() {
        wire::report(control, &Report::Removed(removed), &[]);
    }
}

/// The inner process, seen from outside.
struct Watched<'a> {
    child: Pid,
    control: &'a OwnedFd,
    order: io::PipeWriter,
    status: OwnedFd,
}

impl Watched<'_> {
    fn tell(&self, order: u8) -> io::Result<()> {
        (&self.order).write_all(&[order])
    }

    /// Until the box is empty: passes orders on, and looks after the folders.
    fn watch(self, folders: &[Folder], mut quota: Quota) -> Result<Ended, SandboxError> {
        let failed =
            |error: rustix::io::Errno| SandboxError::build(Part::Namespaces, "watch", error);
        let exit = pidfd_open(self.child, PidfdFlags::empty()).map_err(failed)?;
        let mut next = Instant::now() + TICK;
        loop {
            let mut ready = [
                PollFd::new(&exit, PollFlags::IN),
                PollFd::new(self.control, PollFlags::IN | PollFlags::HUP),
            ];
            let rest = next.saturating_duration_since(Instant::now());
            let rest = Timespec::try_from(rest).map_err(|_| failed(rustix::io::Errno::INVAL))?;
            match poll(&mut ready, Some(&rest)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    self.end();
                    return Err(failed(error));
                }
            }
            let [exited, ordered] = ready.map(|fd| !fd.revents().is_empty());
            if exited {
                return Ok(self.end());
            }
            if ordered && self.obey().is_none() {
                self.end();
                return Ok(Ended::Signal(libc::SIGKILL));
            }
            if Instant::now() >= next {
                let outside = Outside { watched: &self, exit: exit.as_fd() };
                if let Some(error) = quota.exceeded(folders, &outside) {
                    wire::report(self.control, &Report::Failed(error), &[]);
                    self.end();
                    return Ok(Ended::Signal(libc::SIGKILL));
                }
                next = Instant::now() + quota.pause(TICK);
            }
        }
    }

    /// Does what the gateway says; `None` is the end, which a gateway that is gone wants, too.
    fn obey(&self) -> Option<()> {
        let packet = wire::receive(self.control.as_fd()).ok().flatten()?;
        match packet.bytes.as_slice() {
            [TERM] => self.tell(program::TERM).ok(),
            [KILL] | [_, ..] | [] => None,
        }
    }

    /// Ends the inner process, and thereby all others of its namespace, and says how the program
    /// ended.
    fn end(self) -> Ended {
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
            [program::SIGNALED, signal, ..] => Ended::Signal(i32::from(*signal)),
            [program::STOPPED, ..] => Ended::Signal(libc::SIGKILL),
            [] | [..] => Ended::Box,
        }
    }
}

/// What counting needs of the box.
struct Outside<'a> {
    watched: &'a Watched<'a>,
    exit: BorrowedFd<'a>,
}

impl Counted for Outside<'_> {
    fn is_called(&self) -> bool {
        let mut ready = [
            PollFd::from_borrowed_fd(self.exit, PollFlags::IN),
            PollFd::new(self.watched.control, PollFlags::IN | PollFlags::HUP),
        ];
        poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn pause(&self) {
        let _gone = self.watched.tell(program::PAUSE);
    }

    fn resume(&self) {
        let _gone = self.watched.tell(program::RESUME);
    }
}

/// Ends this process as the program ended, so that the gateway sees the signal.
fn die_of(signal: i32) -> ExitCode {
    let core = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _unlimited = rustix::process::setrlimit(rustix::process::Resource::Core, core);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _alive = kill_process(getpid(), signal);
    }
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}
