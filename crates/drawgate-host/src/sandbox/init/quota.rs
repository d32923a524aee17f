//! What the program adds to the folders that it may write.
//!
//! No file system counts that for a folder. So the free space of the file system says when to look,
//! and the folders' files that are newer than the program say how much is its own.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstatvfs, openat2, statx,
};

use super::sweep::Folder;
use crate::sandbox::ResourceLimits;
use crate::sandbox::error::{Limit, SandboxError};

const MIB: u64 = 1024 * 1024;
/// Until a limit is near, counting takes one part in so many of the time.
const SHARE: u32 = 20;
/// But it is not put off for longer than this, or so many times what it takes.
const LONGEST: (Duration, u32) = (Duration::from_millis(200), 8);
/// Entries of a folder between two looks for orders.
const AT_ONCE: usize = 1024;
/// A path longer than this is opened in two steps: the kernel takes no longer ones than 4096 bytes.
const STEP: usize = 2048;
/// So many steps below a folder nobody has work to do, but somebody who hides files from the counting.
const DEEPEST: usize = 64;

/// Files and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    files: u64,
    bytes: u64,
}

/// The box that is counted.
pub(super) trait Counted {
    /// Whether there is something more urgent to do than to count.
    fn is_called(&self) -> bool;
    /// Stops its processes, so that they can't outrun the counting.
    fn pause(&self);
    /// Lets them go on.
    fn resume(&self);
}

/// The counter.
pub(super) struct Quota {
    most: Amount,
    disk_mb: u64,
    started: i64,
    first: Vec<Amount>,
    last: Vec<Amount>,
    quiet: u32,
    next_count: Instant,
    /// Whether the last count was above half of a limit.
    is_near: bool,
}

impl Quota {
    /// Begins now.
    pub(super) fn new(limits: &ResourceLimits, folders: &[Folder]) -> Self {
        let first: Vec<Amount> = folders.iter().map(free).collect();
        Self {
            most: Amount { files: limits.files, bytes: limits.disk_mb.saturating_mul(MIB) },
            disk_mb: limits.disk_mb,
            // The kernel gives this folder the time at which it is looked at.
            started: std::fs::metadata("/proc/self").map_or(0, |now| now.ctime()),
            last: first.clone(),
            first,
            quiet: 0,
            next_count: Instant::now(),
            is_near: false,
        }
    }

    /// How long until the next look: longer while nothing happens.
    pub(super) fn pause(&self, tick: Duration) -> Duration {
        tick.saturating_mul(1 + self.quiet.min(40) / 10)
    }

    /// Which limit is exceeded. Counting stops when this process has something more urgent to do.
    pub(super) fn exceeded(
        &mut self,
        folders: &[Folder],
        program: &dyn Counted,
    ) -> Option<SandboxError> {
        let now: Vec<Amount> = folders.iter().map(free).collect();
        if now == self.last {
            self.quiet = self.quiet.saturating_add(1);
            return None;
        }
        let grown = self.grown(&now);
        self.last = now;
        self.quiet = 0;
        let begun = Instant::now();
        if begun < self.next_count {
            return None;
        }
        let suspicious = grown.files > self.most.files || grown.bytes > self.most.bytes;
        let paused = suspicious || self.is_near;
        if paused {
            program.pause();
        }
        let count = Count::of(folders, self.started, self.most, program);
        if paused && count.as_ref().is_none_or(|count| !count.is_over()) {
            program.resume();
        }
        let count = count?;
        self.next_count = Instant::now() + self.put_off(begun.elapsed(), count.new);
        let hides = |grown: u64, most: u64| count.is_partial && grown > most;
        let limit = |limit, most| Some(SandboxError::Limit { limit, most });
        if count.is_too_deep {
            return limit(Limit::Files, self.most.files);
        }
        if count.new.files > self.most.files || hides(grown.files, self.most.files) {
            return limit(Limit::Files, self.most.files);
        }
        if count.new.bytes > self.most.bytes || hides(grown.bytes, self.most.bytes) {
            return limit(Limit::Disk, self.disk_mb);
        }
        None
    }

    /// How long until the next count. Others may free space meanwhile, so the file system alone does
    /// not tell when a limit is near.
    fn put_off(&mut self, took: Duration, counted: Amount) -> Duration {
        self.is_near = counted.files > self.most.files / 2 || counted.bytes > self.most.bytes / 2;
        if self.is_near {
            return took;
        }
        took.saturating_mul(SHARE).min(LONGEST.0.max(took.saturating_mul(LONGEST.1)))
    }

    /// What the file systems have less than at the start, by whomever.
    fn grown(&self, now: &[Amount]) -> Amount {
        self.first.iter().zip(now).fold(Amount::default(), |sum, (first, now)| Amount {
            files: sum.files.max(first.files.saturating_sub(now.files)),
            bytes: sum.bytes.max(first.bytes.saturating_sub(now.bytes)),
        })
    }
}

fn free(folder: &Folder) -> Amount {
    fstatvfs(folder.handle()).map_or(Amount::default(), |found| Amount {
        files: found.f_ffree,
        bytes: found.f_bfree.saturating_mul(found.f_frsize),
    })
}

/// What is newer than the program.
struct Count {
    new: Amount,
    started: i64,
    most: Amount,
    /// Whether some of it could not be looked at.
    is_partial: bool,
    /// Whether there are folders so deep that they are not even looked for.
    is_too_deep: bool,
}

/// A folder that is still to be counted.
struct Left {
    /// The folder from which its path leads; the top if there is none, and how many steps below it.
    from: Option<Rc<OwnedFd>>,
    steps: usize,
    path: PathBuf,
}

impl Count {
    /// `None` if it was interrupted.
    fn of(folders: &[Folder], started: i64, most: Amount, program: &dyn Counted) -> Option<Self> {
        let new = Amount::default();
        let mut count = Self { new, started, most, is_partial: false, is_too_deep: false };
        for folder in folders {
            count.walk(folder.handle(), program)?;
        }
        Some(count)
    }

    fn is_over(&self) -> bool {
        self.is_too_deep || self.new.files > self.most.files || self.new.bytes > self.most.bytes
    }

    fn walk(&mut self, top: BorrowedFd<'_>, program: &dyn Counted) -> Option<()> {
        let mut left = vec![Left { from: None, steps: 0, path: PathBuf::from(".") }];
        while let Some(next) = left.pop().filter(|_| !self.is_over()) {
            if program.is_called() {
                return None;
            }
            let Ok((folder, entries)) = open(top, &next) else {
                self.is_partial = true;
                continue;
            };
            let next = next.shortened(&folder);
            self.is_too_deep |= next.steps > DEEPEST;
            for (number, entry) in entries.filter_map(Result::ok).enumerate() {
                if number % AT_ONCE == AT_ONCE - 1 && program.is_called() {
                    return None;
                }
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                self.add(folder.as_fd(), name);
                if entry.file_type() == FileType::Directory {
                    left.push(next.child(OsStr::from_bytes(name.to_bytes())));
                }
            }
        }
        Some(())
    }

    fn add(&mut self, folder: BorrowedFd<'_>, name: &std::ffi::CStr) {
        let wanted = StatxFlags::BTIME | StatxFlags::CTIME | StatxFlags::BLOCKS;
        let Ok(found) = statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted) else { return };
        if found.stx_ctime.tv_sec < self.started {
            return;
        }
        self.new.bytes = self.new.bytes.saturating_add(found.stx_blocks.saturating_mul(512));
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        if !has_birth || found.stx_btime.tv_sec >= self.started {
            self.new.files = self.new.files.saturating_add(1);
        }
    }
}

impl Left {
    /// The same, so that paths from here are short again if this one was long.
    fn shortened(self, folder: &Rc<OwnedFd>) -> Self {
        if self.path.as_os_str().len() < STEP {
            return self;
        }
        Self { from: Some(Rc::clone(folder)), steps: self.steps + 1, path: PathBuf::from(".") }
    }

    fn child(&self, name: &OsStr) -> Self {
        Self { from: self.from.clone(), steps: self.steps, path: self.path.join(name) }
    }
}

fn open(top: BorrowedFd<'_>, left: &Left) -> rustix::io::Result<(Rc<OwnedFd>, Dir)> {
    let from = left.from.as_ref().map_or(top, |from| from.as_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let folder = openat2(from, &left.path, flags, Mode::empty(), within)?;
    let entries = Dir::read_from(&folder)?;
    Ok((Rc::new(folder), entries))
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
