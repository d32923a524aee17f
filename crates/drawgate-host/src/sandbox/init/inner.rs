//! The inner process: the first of the box's namespaces. It builds the box, starts the program, and
//! counts what all of it uses.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open,
    set_dumpable_behavior, set_parent_process_death_signal, wait,
};

use super::identity::Identity;
use super::sys::{self, Copy};
use super::usage::Usage;
use super::{limits, mounts, privileges, program};
use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::plan::{PROXY_PORT, Plan};
use crate::sandbox::wire::{self, Enforced, Packet, Report};

/// What the outer process hands over.
pub(super) struct Inner {
    pub(super) plan: Plan,
    pub(super) identity: Identity,
    pub(super) trees: Vec<OwnedFd>,
    /// The program's input, output and errors.
    pub(super) streams: [OwnedFd; 3],
    pub(super) control: OwnedFd,
    /// Orders of the outer process. Its end is the end of the box.
    pub(super) orders: OwnedFd,
    /// Where the program's end is told.
    pub(super) tell: PipeWriter,
}

/// What the outer process has prepared meanwhile.
pub(super) struct Groups {
    pub(super) enforced: Enforced,
    pub(super) group_files: Vec<OwnedFd>,
}

impl Groups {
    pub(super) fn hold(&self, controller: &str) -> bool {
        self.enforced.cgroups.iter().any(|held| held == controller)
    }
}

pub(super) fn run(inner: Inner) -> ! {
    let control = inner.control.try_clone();
    let outcome = inner.live();
    if let (Err(error), Ok(control)) = (outcome, control) {
        wire::report(control, &Report::Failed(error));
    }
    sys::exit_now(0)
}

impl Inner {
    fn live(mut self) -> Result<(), SandboxError> {
        if self.next_order().is_none_or(|order| order.bytes.as_slice() != [program::GO]) {
            return Ok(());
        }
        self.identity.assume()?;
        // A change of user forgets these, so they come after it.
        let failed =
            |error: rustix::io::Errno| SandboxError::build(Part::Identity, "process", error);
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)?;
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
        self.network()?;
        limits::share();
        mounts::build(&self.plan, std::mem::take(&mut self.trees))?;
        let _cosmetic = rustix::system::sethostname(b"sandbox");
        let Some(order) = self.next_order() else { return Ok(()) };
        let enforced = serde_json::from_slice(&order.bytes);
        let enforced =
            enforced.map_err(|error| SandboxError::build(Part::Limits, "control group", error))?;
        let groups = Groups { enforced, group_files: order.descriptors };
        let (started, starting) = io::pipe().map_err(|error| program_failed(&self.plan, &error))?;
        let child = match sys::copy_process(0) {
            Ok(Copy::Child) => {
                drop(started);
                program::become_program(self, groups, starting);
            }
            Ok(Copy::Parent(child)) => child,
            Err(error) => return Err(program_failed(&self.plan, &error)),
        };
        drop(starting);
        self.after_start(child, started, groups)
    }

    /// What the outer process says; `None` when it is gone.
    fn next_order(&self) -> Option<Packet> {
        loop {
            match wire::receive(self.orders.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                order => return order.ok().flatten(),
            }
        }
    }

    /// The parent's part: it keeps no right and no stream of the program's.
    fn after_start(
        self,
        child: Pid,
        mut started: PipeReader,
        groups: Groups,
    ) -> Result<(), SandboxError> {
        let Self { plan, streams, control, orders, tell, .. } = self;
        let counted = !groups.hold("memory");
        let Groups { enforced, group_files } = groups;
        drop((group_files, streams));
        let failed = |error: io::Error| program_failed(&plan, &error);
        privileges::drop_all()?;
        // Ends when the program is executed, or when that has failed and been reported.
        let mut said = Vec::new();
        started.read_to_end(&mut said).map_err(failed)?;
        if said.is_empty() {
            wire::report(&control, &Report::Started(enforced));
        }
        let usage = Usage::new(&plan.limits, counted);
        watch(child, &control, &orders, tell, usage).map_err(failed)
    }

    fn network(&self) -> Result<(), SandboxError> {
        let failed = |error: io::Error| SandboxError::build(Part::Network, "loopback", error);
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        sys::loopback_up(socket.map_err(|error| failed(error.into()))?.as_fd()).map_err(failed)?;
        if self.plan.proxy {
            let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT);
            let listener = TcpListener::bind(address).map_err(failed)?;
            // Without it there is no way out, and nobody would know why.
            wire::report_with(&self.control, &Report::Proxy, &[listener.as_fd()])
                .map_err(|error| SandboxError::build(Part::Network, "proxy", error))?;
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
    orders: &OwnedFd,
    mut tell: PipeWriter,
    mut usage: Usage,
) -> io::Result<()> {
    let exit = pidfd_open(child, PidfdFlags::empty())?;
    // Who is dead and not reaped counts as a process, and there may be many in no time.
    let ends = sys::ends_of_children()?;
    // Nothing tells about those who have ended before.
    if let Some(status) = reap(child) {
        return tell.write_all(&ending(status));
    }
    let mut next = Instant::now() + usage.pause();
    loop {
        let mut ready = [
            PollFd::new(&exit, PollFlags::IN),
            PollFd::new(&ends, PollFlags::IN),
            PollFd::new(orders, PollFlags::IN | PollFlags::HUP),
        ];
        let pause = next.saturating_duration_since(Instant::now());
        let pause = Timespec::try_from(pause).map_err(io::Error::other)?;
        match poll(&mut ready, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [_, _, ordered] = ready.map(|fd| !fd.revents().is_empty());
        // Before they are reaped: who ends after that is told about once more.
        let _none = rustix::io::read(&ends, &mut [0; SIGNAL]);
        if let Some(status) = reap(child) {
            return tell.write_all(&ending(status));
        }
        if ordered && obey(orders)?.is_none() {
            return Ok(());
        }
        if Instant::now() >= next {
            if let Some(error) = usage.exceeded() {
                wire::report(control, &Report::Failed(error));
                return tell.write_all(&[program::STOPPED]);
            }
            if let Some(mib) = usage.news() {
                wire::report(control, &Report::Uses(mib));
            }
            next = Instant::now() + usage.pause();
        }
    }
}

/// Takes note of all who have ended; how the program has, if it is among them.
fn reap(program: Pid) -> Option<WaitStatus> {
    while let Ok(Some((who, status))) = wait(WaitOptions::NOHANG) {
        if who == program {
            return Some(status);
        }
    }
    None
}

/// Does what the outer process says; `None` when it is gone.
fn obey(orders: &OwnedFd) -> io::Result<Option<()>> {
    let Some(order) = wire::receive(orders.as_fd())? else { return Ok(None) };
    if order.bytes == [program::TERM] {
        sys::signal_all(libc::SIGTERM);
    }
    Ok(Some(()))
}

fn ending(status: WaitStatus) -> [u8; 2] {
    let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => [program::EXITED, small(code)],
        (None, Some(signal)) => [program::SIGNALED, small(signal)],
        (None, None) => [program::EXITED, u8::MAX],
    }
}

/// Bytes in which the kernel tells about a signal.
const SIGNAL: usize = size_of::<libc::signalfd_siginfo>();

/// How long a box without a counter sleeps if nothing happens.
pub(super) const REAP: Duration = Duration::from_secs(1);
