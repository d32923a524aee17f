//! The inner process: the first of the box's namespaces. It builds the box, starts the program, and
//! counts what all of it uses.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open,
    set_dumpable_behavior, set_parent_process_death_signal, wait,
};

use super::identity::Identity;
use super::sys::{self, Copy};
use super::usage::Usage;
use super::{mounts, privileges, program};
use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::plan::{PROXY_PORT, Plan};
use crate::sandbox::wire::{self, Enforced, Report};

/// What the outer process hands over.
pub(super) struct Inner {
    pub(super) plan: Plan,
    pub(super) identity: Identity,
    pub(super) trees: Vec<OwnedFd>,
    pub(super) doors: Vec<OwnedFd>,
    pub(super) stdin: OwnedFd,
    pub(super) control: OwnedFd,
    /// Orders of the outer process. Its end is the end of the box.
    pub(super) orders: PipeReader,
    /// Where the program's end is told.
    pub(super) tell: PipeWriter,
    pub(super) enforced: Enforced,
}

pub(super) fn run(inner: Inner) -> ! {
    let control = inner.control.try_clone();
    let outcome = inner.live();
    if let (Err(error), Ok(control)) = (outcome, control) {
        wire::report(control, &Report::Failed(error), &[]);
    }
    sys::exit_now(0)
}

impl Inner {
    fn live(mut self) -> Result<(), SandboxError> {
        let mut go = [0];
        if self.orders.read_exact(&mut go).is_err() || go != [program::GO] {
            return Ok(());
        }
        self.identity.assume()?;
        // A change of user forgets these, so they come after it.
        let failed =
            |error: rustix::io::Errno| SandboxError::build(Part::Identity, "process", error);
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)?;
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
        self.network()?;
        mounts::build(&self.plan, std::mem::take(&mut self.trees))?;
        let _cosmetic = rustix::system::sethostname(b"sandbox");
        let counted = !self.enforced.cgroups.iter().any(|held| held == "memory");
        let (started, starting) = io::pipe().map_err(|error| program_failed(&self.plan, &error))?;
        let child = match sys::copy_process(0) {
            Ok(Copy::Child) => {
                drop(started);
                program::become_program(self, starting);
            }
            Ok(Copy::Parent(child)) => child,
            Err(error) => return Err(program_failed(&self.plan, &error)),
        };
        drop(starting);
        self.after_start(child, started, counted)
    }

    /// The parent's part: it keeps no right and no stream of the program's.
    fn after_start(
        self,
        child: Pid,
        mut started: PipeReader,
        counted: bool,
    ) -> Result<(), SandboxError> {
        let Self { plan, doors, stdin, control, orders, tell, enforced, .. } = self;
        drop((doors, stdin));
        let failed = |error: io::Error| program_failed(&plan, &error);
        program::forget_standard_streams().map_err(failed)?;
        privileges::drop_all()?;
        // Ends when the program is executed, or when that has failed and been reported.
        let mut said = Vec::new();
        started.read_to_end(&mut said).map_err(failed)?;
        if said.is_empty() {
            wire::report(&control, &Report::Started(enforced), &[]);
        }
        let usage = Usage::new(&plan.limits, counted);
        watch(child, &control, orders, tell, usage).map_err(failed)
    }

    fn network(&self) -> Result<(), SandboxError> {
        let failed = |error: io::Error| SandboxError::build(Part::Network, "loopback", error);
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        sys::loopback_up(socket.map_err(|error| failed(error.into()))?.as_fd()).map_err(failed)?;
        if self.plan.proxy {
            let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT);
            let listener = TcpListener::bind(address).map_err(failed)?;
            wire::report(&self.control, &Report::Proxy, &[listener.as_fd()]);
        }
        Ok(())
    }
}

fn program_failed(plan: &Plan, error: &io::Error) -> SandboxError {
    SandboxError::Program { program: plan.program.display().to_string(), reason: error.to_string() }
}

/// Until the program ends, or the box must. Returning ends every process of the namespace.
fn watch(
    child: Pid,
    control: &OwnedFd,
    mut orders: PipeReader,
    mut tell: PipeWriter,
    mut usage: Usage,
) -> io::Result<()> {
    let exit = pidfd_open(child, PidfdFlags::empty())?;
    loop {
        let mut ready = [
            PollFd::new(&exit, PollFlags::IN),
            PollFd::new(&orders, PollFlags::IN | PollFlags::HUP),
        ];
        let pause = Timespec::try_from(usage.pause()).map_err(io::Error::other)?;
        match poll(&mut ready, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ordered = !ready[1].revents().is_empty();
        while let Ok(Some((who, status))) = wait(WaitOptions::NOHANG) {
            if who == child {
                return tell.write_all(&ending(status));
            }
        }
        if ordered {
            let mut order = [0];
            if orders.read(&mut order)? == 0 {
                return Ok(());
            }
            match order {
                [program::TERM] => sys::signal_all(libc::SIGTERM),
                [program::PAUSE] => sys::signal_all(libc::SIGSTOP),
                [program::RESUME] => sys::signal_all(libc::SIGCONT),
                [_] => {}
            }
        }
        if let Some(error) = usage.exceeded() {
            wire::report(control, &Report::Failed(error), &[]);
            return tell.write_all(&[program::STOPPED]);
        }
    }
}

fn ending(status: WaitStatus) -> [u8; 2] {
    let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => [program::EXITED, small(code)],
        (None, Some(signal)) => [program::SIGNALED, small(signal)],
        (None, None) => [program::EXITED, u8::MAX],
    }
}

/// How long a box without a counter sleeps between looking for orphans to reap.
pub(super) const REAP: Duration = Duration::from_secs(1);
