//! The fork server: it forks for each box, and runs no programs.
//!
//! What is the same for every box is found out here, once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{getegid, geteuid};

use super::identity::Identity;
use super::mapping::Mappings;
use super::sys::{self, Copy};
use super::{NOT_BUILT, outer, program};
use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::wire::{self, Packet, Report, START};

/// What the gateway sends for a box.
pub(super) struct Order {
    pub(super) plan: OwnedFd,
    /// The program's input, output and errors.
    pub(super) streams: [OwnedFd; 3],
    pub(super) control: OwnedFd,
}

/// What every box begins with.
pub(super) struct Ready {
    pub(super) identity: Identity,
    pub(super) mappings: Mappings,
    pub(super) landlock: u32,
}

/// Until the gateway is gone.
pub(super) fn run() -> ExitCode {
    let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3) else {
        return ExitCode::from(NOT_BUILT);
    };
    let alone = sys::close_all_but(socket.as_fd());
    if alone.and_then(|()| program::forget_standard_streams()).is_err() {
        return ExitCode::from(NOT_BUILT);
    }
    // The end of the socket is the only end: what the programs planted must be cleaned up after them.
    sys::ignore_requests_to_end();
    sys::forget_children();
    let ready = Ready::make();
    loop {
        match wire::receive(socket.as_fd()) {
            Ok(Some(packet)) => {
                let Some(order) = Order::of(packet) else { continue };
                match sys::copy_process(0) {
                    Ok(Copy::Child) => {
                        // The gateway must notice when the other one is gone.
                        drop(socket);
                        outer::run(order, ready)
                    }
                    // It may be better next time; the gateway starts another.
                    Ok(Copy::Parent(_)) if ready.is_err() => return ExitCode::from(NOT_BUILT),
                    Ok(Copy::Parent(_)) => {}
                    Err(error) => refuse(&order, &error),
                }
            }
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return ExitCode::from(NOT_BUILT),
        }
    }
}

fn refuse(order: &Order, error: &io::Error) {
    let error = SandboxError::build(Part::Namespaces, "copy", error);
    wire::report(&order.control, &Report::Failed(error));
}

impl Order {
    fn of(packet: Packet) -> Option<Self> {
        let descriptors: [OwnedFd; 5] = packet.descriptors.try_into().ok()?;
        let [plan, stdin, stdout, stderr, control] = descriptors;
        let is_known = packet.bytes.as_slice() == [START];
        is_known.then_some(Self { plan, streams: [stdin, stdout, stderr], control })
    }
}

impl Ready {
    fn make() -> Result<Self, SandboxError> {
        kernel_is_new_enough()?;
        has_one_thread()?;
        let failed = |error: io::Error| SandboxError::build(Part::Identity, "user", error);
        let identity = Identity::choose().map_err(failed)?;
        let mut mappings = Mappings::default();
        if identity.needs_mapping() {
            // Most folders are the gateway's user's own. Whatever is wrong comes up with the first.
            let own = (geteuid().as_raw(), getegid().as_raw());
            let _later = mappings.of(own, identity);
        }
        Ok(Self { identity, mappings, landlock: sys::landlock_version() })
    }
}

/// What another thread holds at the moment of a copy would stay locked in the copy for ever.
fn has_one_thread() -> Result<(), SandboxError> {
    let failed = |error: io::Error| SandboxError::build(Part::Program, "threads", error);
    match std::fs::read_dir("/proc/self/task").map_err(failed)?.count() {
        1 => Ok(()),
        more => Err(failed(io::Error::other(format!("init has {more}, not one")))),
    }
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
