//! The file system of the box: a root of its own with what the plan shows, and nothing else.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, access};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, unmount,
};
use rustix::process::{fchdir, pivot_root};

use super::trees::{self, Rights};
use super::{etc, protect, sys};
use crate::sandbox::error::{Part, SandboxError};
use crate::sandbox::plan::{Access, Plan};
use crate::sandbox::view::{SYSTEM, is_system};

/// Devices without a memory or a machine behind them.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What the kernel tells about itself and about others.
const MASKED: [&str; 10] = [
    "/proc/kcore",
    "/proc/kallsyms",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/vmallocinfo",
];

/// The root holds folders and a few small files.
const ROOT_SIZE: &str = "16m";

/// Links and their targets.
type Links = Vec<(PathBuf, PathBuf)>;
type Step<T = ()> = Result<T, SandboxError>;

/// A copy of part of the machine, and where it goes.
struct Tree {
    path: PathBuf,
    copy: OwnedFd,
}

/// Builds the root and makes it this process's own. `mapped` are trees of the plan, in its order, that
/// were opened with more rights than this process has.
pub(super) fn build(plan: &Plan, mapped: Vec<OwnedFd>) -> Step {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| SandboxError::build(Part::Mounts, &what, error)
    };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| failed("private mounts")(error.into()))?;
    let (system, links) = system().map_err(failed("system folders"))?;
    let devices = copies(&DEVICES, Rights::Devices).map_err(failed("/dev"))?;
    let etc = etc::Etc::read(plan).map_err(failed("/etc"))?;
    let binds = binds(plan, mapped)?;
    let proc = processes().map_err(failed("/proc"))?;
    own_root().map_err(failed("root"))?;
    for tree in system.iter().chain(&devices) {
        trees::attach(&tree.copy, &tree.path).map_err(failed(&tree.path.to_string_lossy()))?;
    }
    for (path, target) in &links {
        link(path, target).map_err(failed(&path.to_string_lossy()))?;
    }
    trees::attach(&proc, Path::new("/proc")).map_err(failed("/proc"))?;
    mask().map_err(failed("masks in /proc"))?;
    private_folders(plan).map_err(failed("/tmp"))?;
    etc.write().map_err(failed("/etc"))?;
    attach_binds(plan, &binds).map_err(failed("folders"))?;
    writable_is_writable(plan)?;
    for (path, target) in &plan.links {
        // Another spelling; where it can't be, the real path still works.
        let _taken = link(path, target);
    }
    protect::mount(plan).map_err(failed("protected files"))?;
    let root = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    sys::set_mount(CWD, c"/", false, root, None).map_err(failed("read-only root"))
}

/// The system's folders: copies of those that are folders, the targets of those that are links.
fn system() -> io::Result<(Vec<Tree>, Links)> {
    let (mut folders, mut links) = (Vec::new(), Vec::new());
    for path in SYSTEM.iter().map(Path::new) {
        match fs::read_link(path) {
            Ok(target) => links.push((path.to_owned(), target)),
            Err(_) if path.is_dir() => {
                // A folder above may be a link.
                folders.push(copy(&path.canonicalize()?, Rights::Read)?);
            }
            Err(_) => {}
        }
    }
    Ok((folders, links))
}

fn copy(path: &Path, rights: Rights) -> io::Result<Tree> {
    let copy = trees::open(path)?;
    trees::restrict(&copy, rights, None)?;
    Ok(Tree { path: path.to_owned(), copy })
}

fn copies(paths: &[&str], rights: Rights) -> io::Result<Vec<Tree>> {
    paths.iter().map(|path| copy(Path::new(path), rights)).collect()
}

fn binds(plan: &Plan, mapped: Vec<OwnedFd>) -> Step<Vec<Tree>> {
    if !mapped.is_empty() {
        let paths = plan.binds.iter().map(|bind| bind.path.clone());
        return Ok(paths.zip(mapped).map(|(path, copy)| Tree { path, copy }).collect());
    }
    let bind = |bind: &crate::sandbox::plan::Bind| {
        copy(&bind.path, rights(bind.access)).map_err(|error| SandboxError::Folder {
            path: bind.path.display().to_string(),
            reason: error.to_string(),
        })
    };
    plan.binds.iter().map(bind).collect()
}

/// Attaches what the plan shows, and hides what it hides. A visible folder may lie in a hidden one that
/// lies in a visible one.
fn attach_binds(plan: &Plan, binds: &[Tree]) -> io::Result<()> {
    let is_shown = |path: &&PathBuf| {
        is_system(path) || plan.binds.iter().any(|bind| path.starts_with(&bind.path))
    };
    let mut hidden: Vec<&PathBuf> = plan.hidden.iter().filter(is_shown).collect();
    hidden.sort();
    let mut covered = Vec::new();
    for tree in binds {
        let (above, rest) = hidden.into_iter().partition(|path| tree.path.starts_with(path));
        let above: Vec<&PathBuf> = above;
        for path in above.into_iter().filter(|path| path.is_dir()) {
            trees::attach(memory("0555", "1m", "4096")?, path)?;
            covered.push(path);
        }
        trees::attach(&tree.copy, &tree.path)?;
        hidden = rest;
    }
    for path in hidden.into_iter().filter(|path| path.exists()) {
        hide(path)?;
    }
    for path in covered {
        let path = CString::new(path.as_os_str().as_bytes())?;
        sys::set_mount(CWD, &path, false, libc::MOUNT_ATTR_RDONLY, None)?;
    }
    Ok(())
}

/// A box whose program can't write its workspace is not what was asked for.
fn writable_is_writable(plan: &Plan) -> Step {
    let denied = plan.writable().find(|path| {
        access(*path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err()
    });
    denied.map_or(Ok(()), |path| {
        Err(SandboxError::Folder {
            path: path.display().to_string(),
            reason: "the sandbox's user can't write it; give it to the gateway's user, or let a \
                     gateway that is root have `CAP_SYS_ADMIN`"
                .to_owned(),
        })
    })
}

pub(super) const fn rights(access: Access) -> Rights {
    match access {
        Access::Read => Rights::Read,
        Access::Write => Rights::Write,
    }
}

/// Processes of the box only. It must be made while the machine's own is still to be seen: the kernel
/// asks for that.
fn processes() -> io::Result<OwnedFd> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// An empty file system in memory.
fn memory(mode: &str, size: &str, files: &str) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "mode", mode)?;
    fsconfig_set_string(&context, "size", size)?;
    fsconfig_set_string(&context, "nr_inodes", files)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// From here on nothing of the machine can be looked up.
fn own_root() -> io::Result<()> {
    let root = memory("0755", ROOT_SIZE, "65536")?;
    // Any folder will do, since this mount namespace has nobody else in it.
    let place = ["/tmp", "/mnt", "/usr", "/"].into_iter().find(|place| Path::new(place).is_dir());
    let place = place.ok_or_else(|| io::Error::other("no folder to mount at"))?;
    move_mount(&root, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    fchdir(&root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

fn link(path: &Path, target: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(target, path)
}

fn mask() -> io::Result<()> {
    for path in MASKED.iter().map(Path::new).filter(|path| path.exists()) {
        let empty = trees::open(Path::new("/dev/null"))?;
        trees::attach(&empty, path)?;
    }
    Ok(())
}

/// Folders that die with the box. They live in memory, so they have a part of it.
fn private_folders(plan: &Plan) -> io::Result<()> {
    let size = format!("{}m", (plan.limits.memory_mb / 2).clamp(8, plan.limits.disk_mb.max(8)));
    let files = plan.limits.files.max(64).to_string();
    for path in ["/tmp", "/dev/shm"] {
        trees::attach(memory("1777", &size, &files)?, Path::new(path))?;
    }
    // Not a link: a folder of the plan may lie in it, and is attached through no link.
    trees::attach(trees::open(Path::new("/tmp"))?, Path::new("/var/tmp"))?;
    fs::create_dir_all("/run")?;
    for (name, target) in
        [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        symlink(target, Path::new("/dev").join(name))?;
    }
    fs::set_permissions("/dev", Permissions::from_mode(0o755))
}

/// Hides a file or folder behind an empty one.
pub(super) fn hide(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        let empty = memory("0555", "4k", "2")?;
        trees::restrict(&empty, Rights::Read, None)?;
        trees::attach(&empty, path)
    } else {
        trees::attach(trees::open(Path::new("/dev/null"))?, path)
    }
}
