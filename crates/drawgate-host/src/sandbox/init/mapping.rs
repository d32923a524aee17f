//! Folders of somebody else's, whose owner is mapped to the box's user.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::identity::Identity;
use super::sys::{self, Copy};
use super::{mounts, trees};
use crate::sandbox::error::SandboxError;
use crate::sandbox::plan::{Access, Bind, Plan};

/// A user and a group.
type Owner = (u32, u32);

/// User namespaces in which an owner is the box's user.
#[derive(Default)]
pub(super) struct Mappings(Vec<(Owner, OwnedFd)>);

impl Mappings {
    /// The one for an owner; made if there is none yet.
    pub(super) fn of(&mut self, owner: Owner, identity: Identity) -> io::Result<BorrowedFd<'_>> {
        if !self.0.iter().any(|(known, _)| *known == owner) {
            self.0.push((owner, make(owner, identity.outside())?));
        }
        let found = self.0.iter().find(|(known, _)| *known == owner);
        found.map(|(_, users)| users.as_fd()).ok_or_else(|| io::Error::other("no mapping"))
    }

    /// Copies of the plan's folders in which their owner is the box's user; none where this root may
    /// not make them, and the box's user must do with what everybody may.
    pub(super) fn trees(
        &mut self,
        plan: &Plan,
        identity: Identity,
    ) -> Result<Vec<OwnedFd>, SandboxError> {
        if !identity.needs_mapping() || !has_mount_rights() {
            return Ok(Vec::new());
        }
        plan.binds.iter().map(|bind| self.tree(bind, identity)).collect()
    }

    fn tree(&mut self, bind: &Bind, identity: Identity) -> Result<OwnedFd, SandboxError> {
        let refused =
            |reason: String| SandboxError::Folder { path: bind.path.display().to_string(), reason };
        let tree = trees::open(&bind.path).map_err(|error| refused(error.to_string()))?;
        let rights = mounts::rights(bind.access);
        let owner = rustix::fs::fstat(&tree).map(|found| (found.st_uid, found.st_gid));
        let owner = owner.map_err(|error| refused(error.to_string()))?;
        let users = self.of(owner, identity);
        let users = users.map_err(|error| refused(format!("mapping: {error}")))?;
        match trees::restrict(&tree, rights, Some(users)) {
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
}

/// A user namespace in which the owner is this user.
fn make(owner: Owner, (user, group): Owner) -> io::Result<OwnedFd> {
    // The namespace needs somebody in it until it is open; who ends with this pipe, at the latest with
    // this process.
    let (mut wait, hold) = io::pipe()?;
    let child = match sys::copy_process(libc::CLONE_NEWUSER)? {
        Copy::Child => {
            drop(hold);
            let _end = wait.read(&mut [0]);
            sys::exit_now(0)
        }
        Copy::Parent(child) => child,
    };
    let id = child.as_raw_nonzero();
    let users = fs::write(format!("/proc/{id}/uid_map"), format!("{} {user} 1\n", owner.0))
        .and_then(|()| fs::write(format!("/proc/{id}/gid_map"), format!("{} {group} 1\n", owner.1)))
        .and_then(|()| fs::File::open(format!("/proc/{id}/ns/user")));
    // It is reaped with the others, when the box has ended.
    drop(hold);
    users.map(OwnedFd::from)
}

fn has_mount_rights() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}
