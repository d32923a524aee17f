//! The third process: gives up everything, and becomes the program.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the one place that starts programs in a box"
)]

use std::io::{self, IsTerminal, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, chdir, ioctl_tiocsctty, set_parent_process_death_signal, setsid};

use super::inner::{Groups, Inner};
use super::limits::{self, Uncontrolled};
use super::seccomp::Filter;
use super::sys::{self, Stream};
use super::{landlock, privileges};
use crate::sandbox::cgroup;
use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::wire::{self, Report};

/// Outer to inner: the user mapping is written. What comes after it are the program's groups.
pub(super) const GO: u8 = b'G';
/// Outer to inner: ask all processes to end.
pub(super) const TERM: u8 = b'T';
/// Inner to outer, with a code: the program has exited.
pub(super) const EXITED: u8 = b'E';
/// Inner to outer, with a number: a signal has ended it.
pub(super) const SIGNALED: u8 = b'S';

/// Inner to outer: it used too much, and ends with the box.
pub(super) const STOPPED: u8 = b'X';

/// Becomes the program, or says why not.
pub(super) fn become_program(inner: Inner, groups: Groups, mut starting: PipeWriter) -> ! {
    let control = inner.control.try_clone();
    let error = start(inner, groups);
    if let Ok(control) = control {
        wire::report(control, &Report::Failed(error));
    }
    let _gone = starting.write_all(b"x");
    sys::exit_now(127)
}

fn start(inner: Inner, groups: Groups) -> SandboxError {
    let Inner { plan, streams, .. } = inner;
    let rest = Uncontrolled { memory: !groups.hold("memory"), cpu: !groups.hold("cpu") };
    let prepared = cgroup::enter(groups.group_files)
        .map_err(|error| SandboxError::build(Part::Limits, "control group", error))
        .and_then(|()| {
            prepare(&streams, &plan.working_dir)
                .map_err(|error| SandboxError::build(Part::Program, "working folder", error))
        })
        .and_then(|()| limits::apply(&plan.limits, rest))
        .and_then(|()| privileges::drop_all())
        .and_then(|()| landlock::apply(&plan));
    if let Err(error) = prepared {
        return error;
    }
    let mut command = Command::new(&plan.program);
    command.args(&plan.args).env_clear().envs(&plan.env);
    let filter = Filter { no_loose_memory: rest.memory, no_affinity: rest.cpu };
    if let Err(error) = filter.apply() {
        return error;
    }
    let error = command.exec();
    SandboxError::Program { program: plan.program.display().to_string(), reason: error.to_string() }
}

fn prepare(streams: &[OwnedFd; 3], working_dir: &Path) -> io::Result<()> {
    sys::heed_requests_to_end();
    setsid()?;
    // Only a terminal that was made for this box gets here, and then Ctrl-C and job control are the
    // program's own.
    if streams.iter().all(IsTerminal::is_terminal) {
        ioctl_tiocsctty(&streams[0])?;
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (file, stream) in streams.iter().zip(Stream::ALL) {
        sys::replace_stream(file, stream)?;
    }
    chdir(working_dir)?;
    sys::close_on_exec_from(3)
}

/// Has streams that lead nowhere.
pub(super) fn forget_standard_streams() -> io::Result<()> {
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    Stream::ALL.into_iter().try_for_each(|stream| sys::replace_stream(&nothing, stream))
}
