//! Limits that hold for each process by itself, whatever the control groups do.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::sandbox::ResourceLimits;
use crate::sandbox::error::{Part, SandboxError};

const MIB: u64 = 1024 * 1024;

/// Without a control group, the memory that one process may map for itself, in times of what all
/// may use: programs map more than they touch, but a single one must not outrun init's counting.
const MAPPED_PER_PROCESS: u64 = 4;

/// How many open files the gateway has more than any program: what can be in one packet, and some.
const KEPT_OPEN_FILES: u64 = 300;
/// Fewer than these are of no use to a program.
const FEWEST_OPEN_FILES: u64 = 64;

/// What a user may have only so many of, counted for all of its namespaces together. A box has a part,
/// or it could take them all from the gateway's user.
const SHARES: [(&str, &str); 2] = [
    ("/proc/sys/user/max_inotify_instances", "16"),
    ("/proc/sys/user/max_inotify_watches", "16384"),
];

/// Sets the shares of the user namespace that this process is in. Call it while the machine's `/proc`
/// is still to be seen: the box's own can't be written.
pub(super) fn share() {
    for (file, most) in SHARES {
        // In a container, these may be read-only.
        let _unlimited = std::fs::write(file, most);
    }
}

/// What is not held by a control group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uncontrolled {
    pub(super) memory: bool,
    pub(super) cpu: bool,
}

/// Sets the limits of this process and all that come from it.
pub(super) fn apply(limits: &ResourceLimits, rest: Uncontrolled) -> Result<(), SandboxError> {
    set(limits, rest).map_err(|error| SandboxError::build(Part::Limits, "limits", error))
}

fn set(limits: &ResourceLimits, rest: Uncontrolled) -> io::Result<()> {
    at_most(Resource::Core, 0)?;
    at_most(Resource::Fsize, limits.file_mb.saturating_mul(MIB))?;
    at_most(Resource::Nofile, limits.open_files.min(open_files_left()?))?;
    at_most(Resource::Rtprio, 0)?;
    at_most(Resource::Nice, 0)?;
    at_most(Resource::Memlock, 8 * MIB)?;
    at_most(Resource::Msgqueue, MIB)?;
    at_most(Resource::Sigpending, 4096)?;
    // Counted in the box's own user namespace, where init is one of them.
    at_most(Resource::Nproc, u64::from(limits.processes).saturating_add(1))?;
    if rest.memory {
        let most = limits.memory_mb.saturating_mul(MIB).saturating_mul(MAPPED_PER_PROCESS);
        at_most(Resource::Data, most)?;
    }
    if rest.cpu {
        fewer_processors(limits.cpu_percent)?;
    }
    Ok(())
}

/// The kernel counts descriptors that are on their way through sockets by user, and refuses to send
/// more to whoever may open fewer. So a program may always open fewer than the gateway, or it could
/// keep the gateway from sending any.
fn open_files_left() -> io::Result<u64> {
    let Some(gateway) = getrlimit(Resource::Nofile).current else { return Ok(u64::MAX) };
    let left = gateway.saturating_sub(KEPT_OPEN_FILES);
    if left < FEWEST_OPEN_FILES {
        return Err(io::Error::other(format!(
            "the gateway may open only {gateway} files; allow it 1024 or more (`ulimit -n`)"
        )));
    }
    Ok(left)
}

/// Both limits, but never more than there was.
fn at_most(resource: Resource, most: u64) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
    setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) })?;
    Ok(())
}

/// Whole processors are the finest measure without a control group.
fn fewer_processors(percent: u32) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    let most = usize::try_from(percent.div_ceil(100)).unwrap_or(1).max(1);
    let chosen = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(most);
    chosen.for_each(|cpu| wanted.set(cpu));
    sched_setaffinity(None, &wanted)?;
    Ok(())
}
