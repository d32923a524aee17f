//! The few system calls for which there is no safe wrapper.
//!
//! Init is a process of its own with one thread, so a copy of it is a whole copy: what is locked or
//! half done in another thread can't exist.

#![expect(unsafe_code, reason = "raw system calls; each block says why it is sound")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::process::Pid;

/// A copy of this process.
pub(super) enum Copy {
    /// This is the copy.
    Child,
    /// This is the original; the copy has this id.
    Parent(Pid),
}

/// Copies the process, the copy in new namespaces (`CLONE_NEW…`), or in the same ones with 0.
pub(super) fn copy_process(namespaces: libc::c_int) -> io::Result<Copy> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no new stack this is fork(2): the copy has its own memory
    // and goes on at this very place. No pointer is passed.
    let id = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    match i32::try_from(id).ok().map(Pid::from_raw) {
        Some(Some(child)) if id > 0 => Ok(Copy::Parent(child)),
        Some(None) => Ok(Copy::Child),
        Some(Some(_)) | None => Err(io::Error::last_os_error()),
    }
}

/// Lets the kernel reap the children of this process.
pub(super) fn forget_children() {
    // SAFETY: no handler of ours is involved, and nothing else in this process deals with signals.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Leaves them to be waited for.
pub(super) fn await_children() {
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Something to read for every time that some of them have ended. From here on nothing else tells, also
/// not to copies of this process.
pub(super) fn ends_of_children() -> io::Result<OwnedFd> {
    // SAFETY: all bytes zero are a valid `sigset_t`, which is plain numbers.
    let mut ends: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both change the set, which outlives the calls.
    unsafe {
        libc::sigemptyset(&raw mut ends);
        libc::sigaddset(&raw mut ends, libc::SIGCHLD);
    }
    // SAFETY: it reads the set, which outlives the call, and is not asked for the one before.
    let done = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const ends, std::ptr::null_mut()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it reads the set, which outlives the call.
    let made =
        unsafe { libc::signalfd(-1, &raw const ends, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// What service managers and terminals send to everybody at once.
const REQUESTS_TO_END: [libc::c_int; 4] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Stays until there is nothing left to do, whoever asks.
pub(super) fn ignore_requests_to_end() {
    for signal in REQUESTS_TO_END {
        // SAFETY: as above.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ends when asked to, as programs do that say nothing about it.
pub(super) fn heed_requests_to_end() {
    for signal in REQUESTS_TO_END {
        // SAFETY: as above.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes what this process was started with, but for its standard streams and one more. Call it
/// before anything is opened.
pub(super) fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = kept.as_raw_fd().unsigned_abs();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: nothing was opened yet, so nobody in this process owns any of these.
        if unsafe { libc::close_range(first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Changes a mount and all below it: `set` are `MOUNT_ATTR_…` flags, `users` an id mapping.
pub(super) fn set_mount(
    mount: BorrowedFd<'_>,
    path: &CStr,
    whole_tree: bool,
    set: u64,
    users: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let idmap = if users.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let attributes = libc::mount_attr {
        attr_set: set | idmap,
        attr_clr: 0,
        propagation: 0,
        userns_fd: users.map_or(0, |fd| u64::from(fd.as_raw_fd().unsigned_abs())),
    };
    let recursive = if whole_tree { libc::AT_RECURSIVE } else { 0 };
    let empty = if path.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: the path is a C string, the structure is of the size that is passed, and both outlive
    // the call, which only reads them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            path.as_ptr(),
            recursive | empty | libc::AT_SYMLINK_NOFOLLOW,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings the loopback device up, by way of any socket of the network namespace.
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `ifreq`, which is plain numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`, which outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Marks every descriptor from `first` on to be closed when another program is executed.
pub(super) fn close_on_exec_from(first: u32) -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    // SAFETY: nothing is closed now, so no owner of a descriptor in this process is betrayed.
    let done = unsafe { libc::close_range(first, u32::MAX, flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A standard stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Input = 0,
    Output = 1,
    Errors = 2,
}

impl Stream {
    /// In the order of their numbers.
    pub(super) const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Errors];
}

/// Puts another file in the place of a standard stream.
pub(super) fn replace_stream(file: impl AsFd, stream: Stream) -> io::Result<()> {
    // SAFETY: the three streams are owned by nobody, so they may be replaced.
    let done = unsafe { libc::dup2(file.as_fd().as_raw_fd(), stream as libc::c_int) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Bytes of a page of memory.
pub(super) fn page_size() -> u64 {
    // SAFETY: it answers a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Counts the processor time of one process, all of its threads together.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessClock(libc::clockid_t);

impl ProcessClock {
    /// The clock of a process, unless it is gone.
    pub(super) fn of(pid: libc::pid_t) -> Option<Self> {
        let mut clock = 0;
        // SAFETY: it writes the number of the clock, which lives here.
        let done = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
        (done == 0).then_some(Self(clock))
    }

    /// What it shows, unless the process is gone.
    pub(super) fn time(self) -> Option<Duration> {
        let mut shown = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes the time, which lives here.
        let done = unsafe { libc::clock_gettime(self.0, &raw mut shown) };
        let (seconds, rest) = (shown.tv_sec.try_into().ok()?, shown.tv_nsec.try_into().ok()?);
        (done == 0).then(|| Duration::new(seconds, rest))
    }
}

/// The version of Landlock's interface; 0 where the kernel has none, or it is switched off.
pub(super) fn landlock_version() -> u32 {
    const ASK: u32 = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call reads nothing; it answers a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, ASK) };
    u32::try_from(version).unwrap_or_default()
}

/// Sends a signal to every other process of the namespace that this one is the init of.
pub(super) fn signal_all(signal: libc::c_int) {
    // SAFETY: no memory is involved; fails only when nobody is left.
    let _gone = unsafe { libc::kill(-1, signal) };
}

/// Ends the process without running anything more of it.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes a number and does not return.
    unsafe { libc::_exit(code) }
}
