//! Who the program is: always one user without rights, in a user namespace of its own.
//!
//! An ordinary gateway's user is mapped there. A gateway that is root gives the program a user that
//! owns nothing on the machine, and maps the owner of each folder to it.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, getegid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::sandbox::error::{Part, SandboxError};

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

    /// The user and group whose rights the program has on the machine.
    pub(super) const fn outside(self) -> (u32, u32) {
        (self.user, self.group)
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
