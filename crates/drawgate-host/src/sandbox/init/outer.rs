//! The outer process: prepares the box, watches over it from outside, and cleans up after it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::getpid;

use super::fork_server::{Order, Ready};
use super::inner::{self, Inner};
use super::quota::Quota;
use super::sweep::Folder;
use super::sys::{self, Copy};
use super::unlinked::Namespace;
use super::watch::{Ended, Watched, failed};
use crate::sandbox::cgroup::Groups;
use crate::sandbox::error::{Limit, Part, SandboxError};
use crate::sandbox::plan::Plan;
use crate::sandbox::wire::{self, Enforced, Report, Swept};

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Builds a box, and is there until it is empty.
pub(super) fn run(order: Order, ready: Result<Ready, SandboxError>) -> ! {
    let Order { plan, streams, control } = order;
    sys::await_children();
    wire::report(&control, &Report::Forked(getpid().as_raw_nonzero().get()));
    if let Err(error) = ready.and_then(|ready| live(plan, streams, &control, ready)) {
        wire::report(&control, &Report::Failed(error));
        wire::report(&control, &Report::Ended(Ended::Box.status()));
    }
    sys::exit_now(0)
}

fn live(
    plan: OwnedFd,
    streams: [OwnedFd; 3],
    control: &OwnedFd,
    ready: Ready,
) -> Result<(), SandboxError> {
    let plan = read(plan)?;
    let Ready { identity, mut mappings, landlock } = ready;
    let trees = mappings.trees(&plan, identity)?;
    drop(mappings);
    let (orders, order) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(failed("preparation"))?;
    let (status, tell) = io::pipe().map_err(failed("preparation"))?;
    let child = match sys::copy_process(NAMESPACES) {
        Ok(Copy::Child) => {
            drop((order, status));
            let control = control.try_clone().map_err(failed("preparation"))?;
            inner::run(Inner { plan, identity, trees, streams, control, orders, tell })
        }
        Ok(Copy::Parent(child)) => child,
        Err(error) => return Err(failed("clone")(error)),
    };
    drop((orders, tell, trees, streams));
    // Before it closes itself to others.
    let namespace = Namespace::of(child);
    let inner = Watched { child, namespace, control, order, status: status.into() };
    // Held so that the end of the box need not wait for the end of its mounts.
    let mounts = File::open(format!("/proc/{}/ns/mnt", child.as_raw_nonzero()));
    let prepared = inner.begin(identity).and_then(|()| {
        // Meanwhile the inner one builds.
        let mut prepared = Prepared::make(&plan)?;
        if inner.is_called() {
            return Ok(None);
        }
        let cgroups = prepared.groups.held.clone();
        let enforced = Enforced { cgroups, landlock, mapped: identity.needs_mapping() };
        let group_files = std::mem::take(&mut prepared.groups.group_files);
        inner.let_program_start(&group_files, &enforced)?;
        Ok(Some(prepared))
    });
    let Prepared { folders, quota, groups } = match prepared {
        Ok(Some(prepared)) => prepared,
        // Whatever the gateway says before there is a program, it wants none any more.
        Ok(None) => {
            inner.end();
            wire::report(control, &Report::Ended(Ended::KILLED.status()));
            return Ok(());
        }
        Err(error) => {
            inner.end();
            return Err(error);
        }
    };
    let ended = inner.watch(&folders, quota, &groups);
    sweep(&folders, control);
    let ended = ended?;
    if !matches!(ended, Ended::Code(0)) && groups.ran_out_of_memory() {
        let limit = SandboxError::Limit { limit: Limit::Memory, most: plan.limits.memory_mb };
        wire::report(control, &Report::Failed(limit));
    }
    wire::report(control, &Report::Ended(ended.status()));
    // Nobody waits for the rest: the mounts and the control groups.
    drop((mounts, groups));
    Ok(())
}

/// What is needed to watch over a program, from before it starts.
struct Prepared {
    folders: Vec<Folder>,
    quota: Quota,
    groups: Groups,
}

impl Prepared {
    fn make(plan: &Plan) -> Result<Self, SandboxError> {
        let folders = folders(plan)?;
        let quota = Quota::new(&plan.limits, &folders);
        let groups = Groups::make(&plan.limits);
        match plan.cgroups.iter().find(|wanted| !groups.held.contains(wanted)) {
            None => Ok(Self { folders, quota, groups }),
            Some(missing) => Err(SandboxError::build(
                Part::Limits,
                "control group",
                format!("`{missing}` can't be held, as it was for earlier programs"),
            )),
        }
    }
}

/// Reads what the gateway wants.
fn read(plan: OwnedFd) -> Result<Plan, SandboxError> {
    let wrong = |error: &dyn std::fmt::Display| SandboxError::build(Part::Program, "plan", error);
    let mut file = File::from(plan);
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_err(|error| wrong(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(&error))
}

fn folders(plan: &Plan) -> Result<Vec<Folder>, SandboxError> {
    let look = |path: &std::path::Path| {
        let absent = plan.absent.get(path).map_or(&[][..], Vec::as_slice);
        Folder::look(path, absent, &plan.unprotected).map_err(|error| SandboxError::Folder {
            path: path.display().to_string(),
            reason: error.to_string(),
        })
    };
    plan.writable().map(look).collect()
}

fn sweep(folders: &[Folder], control: &OwnedFd) {
    for swept in folders.iter().map(Folder::sweep).filter(Swept::has_findings) {
        wire::report(control, &Report::Swept(swept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::ResourceLimits;

    fn prepared(cgroups: &[String]) -> Result<Prepared, SandboxError> {
        let plan = serde_json::json!({
            "program": "/bin/true", "args": [], "env": {}, "home": "/", "working_dir": "/",
            "binds": [], "links": [], "hidden": [], "absent": {}, "unprotected": [], "proxy": false,
            "limits": ResourceLimits::default(), "cgroups": cgroups,
        });
        Prepared::make(&serde_json::from_value(plan).unwrap())
    }

    #[test]
    fn a_box_that_holds_less_than_earlier_ones_is_refused() {
        let mut cgroups = prepared(&[]).ok().unwrap().groups.held.clone();
        assert!(prepared(&cgroups).is_ok(), "{cgroups:?}");
        cgroups.push("a_controller_that_is_gone".to_owned());
        match prepared(&cgroups) {
            Err(SandboxError::Build { part: Part::Limits, reason }) => {
                assert!(reason.contains("`a_controller_that_is_gone` can't be held"), "{reason}");
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was built"),
        }
    }
}
