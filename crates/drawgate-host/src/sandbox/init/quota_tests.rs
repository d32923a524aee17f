use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use super::super::count::{DEEPEST, STEP};
use super::*;

/// A box that does nothing, on a file system that says what it is told to.
#[derive(Default)]
struct Still {
    is_called: Cell<bool>,
    used: RefCell<Used>,
    nameless: Amount,
    /// When the walk is over.
    is_called_late: bool,
    walks: Cell<u32>,
}

impl Counted for Still {
    fn is_called(&self) -> bool {
        self.is_called.get()
    }
    fn used(&self, _folders: &[Folder]) -> Used {
        self.used.borrow().clone()
    }
    fn unlinked(&self, _devices: &BTreeSet<u64>) -> Option<Amount> {
        self.walks.set(self.walks.get() + 1);
        (!self.is_called_late).then_some(self.nameless)
    }
}

fn files(used: u64) -> Used {
    Used::told(Amount { files: used, bytes: 0 })
}

fn limits(files: u64, disk_mb: u64) -> ResourceLimits {
    ResourceLimits { disk_mb, files, ..ResourceLimits::default() }
}

/// A counter with a folder of its own.
struct Bench {
    folder: TempDir,
    folders: [Folder; 1],
    quota: Quota,
    program: Still,
}

impl Bench {
    /// On a file system that has 1000 files; by time, nothing is walked.
    fn new(limits: &ResourceLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let folders = [Folder::look(folder.path(), &[], &[]).unwrap()];
        let started = folder.path().metadata().unwrap().ctime();
        let mut quota = Quota::from_use(limits, started, files(1000));
        quota.must_walk = Instant::now() + Duration::from_hours(1);
        Self { folder, folders, quota, program: Still::default() }
    }

    fn make(&self, files: u64) {
        for number in 0..files {
            fs::write(self.folder.path().join(format!("new{number}")), "").unwrap();
        }
    }

    fn look(&mut self, used: u64) -> Verdict {
        *self.program.used.borrow_mut() = files(used);
        self.quota.look(&self.folders, &self.program)
    }

    fn last_look(&mut self, used: u64) -> Verdict {
        *self.program.used.borrow_mut() = files(used);
        self.quota.last_look(&self.folders, &self.program)
    }
}

fn too_many(most: u64) -> Verdict {
    Verdict::Exceeded(SandboxError::Limit { limit: Limit::Files, most })
}

#[test]
fn nothing_is_walked_while_the_limit_can_not_be_exceeded() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    assert_eq!(bench.look(1010), Verdict::Within, "ten are new, and ten are allowed");
    assert_eq!(bench.program.walks.get(), 0);
    assert_eq!(bench.look(1011), too_many(10));
}

#[test]
fn what_was_found_and_what_is_new_since_make_the_next_walk() {
    let mut bench = Bench::new(&limits(100, 100));
    bench.make(20);
    assert_eq!(bench.look(1101), Verdict::Within, "others were it");
    assert_eq!((bench.program.walks.get(), bench.quota.counted.files), (1, 20));
    bench.quota.may_walk = Instant::now();
    assert_eq!(bench.look(1101 + 80), Verdict::Within);
    assert_eq!(bench.program.walks.get(), 1, "it can't be exceeded yet");
    assert_eq!(bench.look(1101 + 81), Verdict::Within);
    assert_eq!(bench.program.walks.get(), 2);
}

#[test]
fn others_who_use_much_do_not_make_it_walk_for_ever() {
    let mut bench = Bench::new(&limits(100, 100));
    assert_eq!(bench.look(1101), Verdict::Within);
    bench.quota.may_walk = Instant::now() + Duration::from_hours(1);
    assert_eq!(bench.look(2000), Verdict::Within);
    assert_eq!(bench.program.walks.get(), 1);
    assert_eq!(bench.last_look(2000), Verdict::Within);
    assert_eq!(bench.program.walks.get(), 2, "the last look does not wait");
}

#[test]
fn the_end_asks_once_more() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    assert_eq!(bench.last_look(1010), Verdict::Within, "nothing was walked");
    assert_eq!(bench.last_look(1011), too_many(10));
}

#[test]
fn a_walk_by_time_finds_what_others_have_hidden() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    bench.quota.must_walk = Instant::now();
    assert_eq!(bench.look(900), too_many(10));
}

#[test]
fn walks_by_time_come_less_often_while_they_find_the_same() {
    let mut bench = Bench::new(&limits(100, 100));
    for pause in [2, 4, 8, 16, 30, 30] {
        bench.quota.must_walk = Instant::now();
        assert_eq!(bench.look(1000), Verdict::Within);
        assert_eq!(bench.quota.pause, Duration::from_secs(pause));
    }
    bench.make(1);
    bench.quota.must_walk = Instant::now();
    assert_eq!(bench.look(1000), Verdict::Within);
    assert_eq!(bench.quota.pause, FIRST_PAUSE);
}

#[test]
fn walking_gives_way_to_orders_and_is_done_again() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    bench.program.is_called.set(true);
    assert_eq!(bench.look(1100), Verdict::Interrupted);
    bench.program.is_called.set(false);
    assert_eq!(bench.look(1100), too_many(10));
}

#[test]
fn half_of_what_has_no_name_is_not_taken_for_all() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.program.is_called_late = true;
    assert_eq!(bench.look(1100), Verdict::Interrupted);
    bench.program.is_called_late = false;
    bench.make(20);
    assert_eq!(bench.look(1100), too_many(10), "the doubt remains");
}

#[test]
fn looks_are_seldom_while_nothing_happens() {
    let mut bench = Bench::new(&limits(100, 100));
    assert_eq!(bench.look(1001), Verdict::Within);
    assert_eq!(bench.quota.tick(), TICK);
    assert_eq!(bench.look(1001), Verdict::Within);
    assert_eq!(bench.quota.tick(), QUIET_TICK);
}

/// What a walk finds after a change.
fn exceeded(limits: &ResourceLimits, change: impl Fn(&Path)) -> Option<Limit> {
    let mut bench = Bench::new(limits);
    change(bench.folder.path());
    match bench.quota.walk(&bench.folders, &bench.program) {
        Verdict::Within => None,
        Verdict::Exceeded(SandboxError::Limit { limit, .. }) => Some(limit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn new_files_are_counted_where_ever_they_are() {
    let make = |folder: &Path| {
        fs::create_dir_all(folder.join("a/b")).unwrap();
        for number in 0..20 {
            fs::write(folder.join(format!("a/b/{number}")), "").unwrap();
        }
    };
    assert_eq!(exceeded(&limits(10, 100), make), Some(Limit::Files));
    assert_eq!(exceeded(&limits(1000, 100), make), None);
}

#[test]
fn new_bytes_are_counted_but_not_holes() {
    let write = |folder: &Path| fs::write(folder.join("new"), vec![1; 3 << 20]).unwrap();
    assert_eq!(exceeded(&limits(1000, 2), write), Some(Limit::Disk));
    let hole = |folder: &Path| {
        fs::File::create(folder.join("new")).unwrap().set_len(1 << 40).unwrap();
    };
    assert_eq!(exceeded(&limits(1000, 2), hole), None);
}

#[test]
fn files_without_a_name_are_counted() {
    let mut bench = Bench::new(&limits(10, 2));
    bench.program.nameless = Amount { files: 1, bytes: 3 << 20 };
    let limit = SandboxError::Limit { limit: Limit::Disk, most: 2 };
    assert_eq!(bench.look(1100), Verdict::Exceeded(limit));
}

/// Makes folders in one another, by descriptors, and a file at the bottom.
fn nest(top: &Path, name: &[u8], depth: usize) {
    use rustix::fs::{mkdirat, openat};
    use std::io::Write as _;
    let name = OsStr::from_bytes(name);
    let open = |at: BorrowedFd<'_>, name: &OsStr, flags| {
        openat(at, name, flags, Mode::from_raw_mode(0o600)).unwrap()
    };
    let mut folder = OwnedFd::from(fs::File::open(top).unwrap());
    for _ in 0..depth {
        mkdirat(&folder, name, Mode::RWXU).unwrap();
        folder = open(folder.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY);
    }
    let file = open(folder.as_fd(), OsStr::new("bottom"), OFlags::CREATE | OFlags::WRONLY);
    fs::File::from(file).write_all(&vec![1; 3 << 20]).unwrap();
}

#[test]
fn nothing_hides_below_long_paths_or_strange_names() {
    let long = [b'd'; 200];
    for (name, depth) in [(&long[..], 5), (&long[..], 30), (&b"\xff\xfe"[..], 3)] {
        let found = exceeded(&limits(1000, 2), |folder| nest(folder, name, depth));
        assert_eq!(found, Some(Limit::Disk), "{depth}");
    }
}

#[test]
fn a_depth_that_nobody_needs_is_an_excess() {
    let long = [b'd'; 250];
    let depth = (DEEPEST + 2) * (STEP / 250 + 1);
    let found = exceeded(&limits(100_000, 1000), |folder| nest(folder, &long, depth));
    assert_eq!(found, Some(Limit::Files));
}
