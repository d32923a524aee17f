//! Who the program is: always one user without rights, in a user namespace of its own.
//!
//! An ordinary gateway's user is mapped there. A gateway that is root gives the program a user that
//! owns nothing on the machine, and maps the owner of each folder to it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::sys::{self, Copy};
use super::trees;
use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::plan::{Access, Bind, Plan};

/// The user and group inside the box.
pub(super) const INSIDE: u32 = 1000;

/// Users that no system gives to anybody, outside of the ranges for people, services and containers;
/// the second is for a root that is itself in a container with few users.
const UNUSED: [u32; 2] = [1_996_488_704, 60_999];

/// Who the program is, seen from outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    user: u32,
    group: u32,
    /// Whether that is another user than the gateway's.
    is_other: bool,
}

impl Identity {
    /// Another user for root, itself for everybody else.
    pub(super) fn choose() -> io::Result<Self> {
        let own = (geteuid().as_raw(), getegid().as_raw());
        if own.0 == 0 {
            let (users, groups) = (mapping("uid_map")?, mapping("gid_map")?);
            let known = |id: &u32| is_mapped(&users, *id) && is_mapped(&groups, *id);
            if let Some(id) = UNUSED.into_iter().find(known) {
                return Ok(Self { user: id, group: id, is_other: true });
            }
            // The initial namespace maps every id; so this root is somebody else's ordinary user.
        }
        Ok(Self { user: own.0, group: own.1, is_other: false })
    }

    /// Whether the plan's folders must be opened, and mapped, before the process is somebody else.
    pub(super) const fn needs_mapping(self) -> bool {
        self.is_other
    }

    /// Tells the kernel whom the box's user is outside; done by the parent of the new namespace.
    pub(super) fn write(self, child: Pid) -> Result<(), SandboxError> {
        let write = |file: &str, text: &str| {
            fs::write(format!("/proc/{}/{file}", child.as_raw_nonzero()), text)
                .map_err(|error| SandboxError::build(Part::Identity, file, error))
        };
        if !self.is_other {
            write("setgroups", "deny")?;
        }
        write("uid_map", &format!("{INSIDE} {} 1\n", self.user))?;
        write("gid_map", &format!("{INSIDE} {} 1\n", self.group))
    }

    /// Becomes that user; done in the new namespace.
    pub(super) fn assume(self) -> Result<(), SandboxError> {
        let failed = |error: rustix::io::Errno| SandboxError::build(Part::Identity, "user", error);
        if self.is_other {
            set_thread_groups(&[]).map_err(failed)?;
        }
        let group = rustix::process::Gid::from_raw(INSIDE);
        set_thread_res_gid(Some(group), Some(group), Some(group)).map_err(failed)?;
        let user = rustix::process::Uid::from_raw(INSIDE);
        set_thread_res_uid(Some(user), Some(user), Some(user)).map_err(failed)
    }

    /// Copies of the plan's folders in which their owner is the box's user; none where this root may
    /// not make them, and the box's user must do with what everybody may.
    pub(super) fn mapped_trees(self, plan: &Plan) -> Result<Vec<OwnedFd>, SandboxError> {
        if !has_mount_rights() {
            return Ok(Vec::new());
        }
        let mut mappings: Vec<((u32, u32), OwnedFd)> = Vec::new();
        plan.binds.iter().map(|bind| self.mapped_tree(bind, &mut mappings)).collect()
    }

    fn mapped_tree(
        self,
        bind: &Bind,
        mappings: &mut Vec<((u32, u32), OwnedFd)>,
    ) -> Result<OwnedFd, SandboxError> {
        let refused =
            |reason: String| SandboxError::Folder { path: bind.path.display().to_string(), reason };
        let tree = trees::open(&bind.path).map_err(|error| refused(error.to_string()))?;
        let rights = super::mounts::rights(bind.access);
        let owner = rustix::fs::fstat(&tree).map(|found| (found.st_uid, found.st_gid));
        let owner = owner.map_err(|error| refused(error.to_string()))?;
        if !mappings.iter().any(|(known, _)| *known == owner) {
            let made = self.mapping_of(owner);
            mappings.push((owner, made.map_err(|error| refused(format!("mapping: {error}")))?));
        }
        let users = mappings.iter().find(|(known, _)| *known == owner).map(|(_, users)| users);
        match trees::restrict(&tree, rights, users.map(std::os::fd::AsFd::as_fd)) {
            Ok(()) => Ok(tree),
            // It can still be read, as far as everybody may.
            Err(_) if bind.access == Access::Read => {
                let plain = trees::restrict(&tree, rights, None);
                plain.map(|()| tree).map_err(|error| refused(error.to_string()))
            }
            Err(error) => Err(refused(format!(
                "its owner can't be mapped to the sandbox's user on this file system ({error}); use \
                 ext4, xfs, btrfs or tmpfs, or run the gateway as an ordinary user"
            ))),
        }
    }

    /// A user namespace in which the owner is this identity.
    fn mapping_of(self, owner: (u32, u32)) -> io::Result<OwnedFd> {
        let child = match sys::copy_process(libc::CLONE_NEWUSER)? {
            Copy::Child => loop {
                std::thread::park();
            },
            Copy::Parent(child) => child,
        };
        let id = child.as_raw_nonzero();
        let users =
            fs::write(format!("/proc/{id}/uid_map"), format!("{} {} 1\n", owner.0, self.user))
                .and_then(|()| {
                    fs::write(
                        format!("/proc/{id}/gid_map"),
                        format!("{} {} 1\n", owner.1, self.group),
                    )
                })
                .and_then(|()| fs::File::open(format!("/proc/{id}/ns/user")));
        // It is reaped with the others, when the box has ended.
        let _gone = kill_process(child, Signal::KILL);
        users.map(OwnedFd::from)
    }
}

fn has_mount_rights() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}

/// Ranges of ids that exist in this namespace: first, and how many.
fn mapping(file: &str) -> io::Result<Vec<(u32, u32)>> {
    let text = fs::read_to_string(Path::new("/proc/self").join(file))?;
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
        Some((numbers.next()??, numbers.nth(1)??))
    };
    Ok(text.lines().filter_map(range).collect())
}

fn is_mapped(ranges: &[(u32, u32)], id: u32) -> bool {
    ranges.iter().any(|(first, count)| id >= *first && id - first < *count)
}
