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
    pauses: Cell<u32>,
    resumes: Cell<u32>,
}

impl Still {
    fn with_free(files: u64) -> Self {
        Self { used: RefCell::new(free(files)), ..Self::default() }
    }
}

impl Counted for Still {
    fn is_called(&self) -> bool {
        self.is_called.get()
    }
    fn pause(&self) {
        self.pauses.set(self.pauses.get() + 1);
    }
    fn resume(&self) {
        self.resumes.set(self.resumes.get() + 1);
    }
    fn used(&self, _folders: &[Folder]) -> Used {
        self.used.borrow().clone()
    }
    fn unlinked(&self, _devices: &BTreeSet<u64>) -> Option<Amount> {
        (!self.is_called_late).then_some(self.nameless)
    }
}

/// What is used if so many files of 2000 are free.
fn free(files: u64) -> Used {
    Used::told(1, Amount { files: 2000 - files, bytes: 0 })
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
    /// On a file system with 1000 free files; by time, nothing is counted.
    fn new(limits: &ResourceLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old"), vec![0; 4096]).unwrap();
        let folders = [Folder::look(folder.path(), &[], &[]).unwrap()];
        let mut quota = Quota::new(limits, &folders);
        quota.losses = Losses::new(free(1000));
        quota.rest = Rest::endless();
        Self { folder, folders, quota, program: Still::with_free(1000) }
    }

    fn make(&self, files: u64) {
        for number in 0..files {
            fs::write(self.folder.path().join(format!("new{number}")), "").unwrap();
        }
    }

    fn look(&mut self, free_files: u64) -> Verdict {
        *self.program.used.borrow_mut() = free(free_files);
        self.quota.look(&self.folders, &self.program)
    }

    fn last_look(&mut self, used: Used) -> Verdict {
        *self.program.used.borrow_mut() = used;
        self.quota.last_look(&self.folders, &self.program)
    }
}

fn too_many(most: u64) -> Verdict {
    Verdict::Exceeded(SandboxError::Limit { limit: Limit::Files, most })
}

#[test]
fn counting_waits_only_while_the_limit_can_not_be_exceeded() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    assert_eq!(bench.look(990), Verdict::Within, "ten are lost, and ten are allowed");
    assert_eq!(bench.program.pauses.get(), 0);
    assert_eq!(bench.look(989), too_many(10));
    assert_eq!((bench.program.pauses.get(), bench.program.resumes.get()), (1, 0));
}

#[test]
fn what_was_counted_and_what_is_lost_since_make_the_next_count() {
    let mut bench = Bench::new(&limits(100, 100));
    bench.make(20);
    assert_eq!(bench.look(899), Verdict::Within, "others were it");
    assert_eq!((bench.program.pauses.get(), bench.program.resumes.get()), (1, 1));
    // The file from before the start may be of the same second.
    assert!(matches!(bench.quota.counted.files, 20 | 21));
    let rest = 100 - bench.quota.counted.files;
    assert_eq!(bench.look(899 - rest), Verdict::Within);
    assert_eq!(bench.program.pauses.get(), 1, "it can't be exceeded yet");
    bench.quota.spared = Instant::now();
    assert_eq!(bench.look(899 - rest - 1), Verdict::Within);
    assert_eq!(bench.program.pauses.get(), 2);
}

#[test]
fn what_comes_back_does_not_make_up_for_what_went() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    for free in [994, 1000] {
        assert_eq!(bench.look(free), Verdict::Within);
    }
    assert_eq!(bench.look(994), too_many(10), "twice six were lost");
}

#[test]
fn the_end_asks_once_more() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    assert_eq!(bench.last_look(free(990)), Verdict::Within, "nothing was counted");
    assert_eq!(bench.last_look(free(989)), too_many(10));
    assert_eq!(bench.program.pauses.get(), 0, "nobody is left");
}

#[test]
fn a_file_system_that_does_not_tell_is_counted_at_the_end() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    assert_eq!(bench.last_look(Used::silent(0)), too_many(10));
}

#[test]
fn a_count_of_what_runs_on_absolves_nobody() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.quota.rest = Rest::none();
    assert_eq!(bench.look(994), Verdict::Within, "six files are where nobody looked");
    assert_eq!(bench.program.pauses.get(), 0);
    bench.make(11);
    bench.quota.rest = Rest::endless();
    assert_eq!(bench.look(989), too_many(10));
}

#[test]
fn a_count_by_time_finds_what_others_have_hidden() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    bench.quota.rest = Rest::none();
    assert_eq!(bench.look(1001), too_many(10), "nothing is lost, but something has changed");
}

#[test]
fn counting_gives_way_to_orders_and_is_done_again() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.make(20);
    bench.program.is_called.set(true);
    assert_eq!(bench.look(900), Verdict::Interrupted);
    assert_eq!((bench.program.pauses.get(), bench.program.resumes.get()), (1, 1));
    bench.program.is_called.set(false);
    assert_eq!(bench.look(900), too_many(10));
}

#[test]
fn half_of_what_has_no_name_is_not_taken_for_all() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.program.is_called_late = true;
    assert_eq!(bench.look(900), Verdict::Interrupted);
    assert_eq!(bench.quota.losses.since.files, 100, "the doubt remains");
    bench.program.is_called_late = false;
    bench.make(20);
    assert_eq!(bench.look(900), too_many(10));
}

#[test]
fn who_has_others_beside_it_goes_on_for_a_while() {
    let mut bench = Bench::new(&limits(100, 100));
    let before = Instant::now();
    bench.make(60);
    assert_eq!(bench.look(899), Verdict::Within, "others were it");
    assert!(bench.quota.spared > before);
    bench.quota.spared = Instant::now() + Duration::from_hours(1);
    assert_eq!(bench.look(899 - 90), Verdict::Within);
    assert_eq!(bench.program.pauses.get(), 1, "it is spared");
    assert_eq!(bench.look(899 - 101), Verdict::Within);
    assert_eq!(bench.program.pauses.get(), 2, "it could have added a whole limit meanwhile");
}

#[test]
fn only_others_win_time() {
    let quota = Bench::new(&limits(100, 100)).quota;
    let files = |files: u64| Amount { files, bytes: 0 };
    for (known, counted, expected) in [
        (files(100), files(0), false),
        (files(101), files(100), true),
        (files(101), files(101), false),
        (Amount { files: 101, bytes: 101 << 20 }, Amount { files: 0, bytes: 101 << 20 }, false),
        (Amount { files: 101, bytes: 5 }, Amount { files: 7, bytes: 5 }, true),
    ] {
        assert_eq!(quota.were_others(known, counted), expected, "{known:?} {counted:?}");
    }
}

#[test]
fn where_files_have_no_number_only_they_are_looked_for() {
    let mut bench = Bench::new(&limits(10, 100));
    bench.quota.losses = Losses::new(Used::silent(0));
    bench.quota.rest = Rest::none();
    *bench.program.used.borrow_mut() = Used::silent(0);
    assert_eq!(bench.quota.look(&bench.folders, &bench.program), Verdict::Within);
    assert_eq!(bench.quota.scope(), Scope::Additions);
    bench.quota.rest = Rest::endless();
    *bench.program.used.borrow_mut() = Used::silent(5);
    assert_eq!(bench.quota.look(&bench.folders, &bench.program), Verdict::Within);
    assert_eq!(bench.quota.scope(), Scope::All, "something has changed");
    bench.make(20);
    bench.quota.rest = Rest::none();
    assert_eq!(bench.quota.look(&bench.folders, &bench.program), too_many(10));
}

#[test]
fn a_count_of_additions_leaves_bytes_as_they_are_known() {
    let mut bench = Bench::new(&limits(1000, 100));
    bench.quota.losses = Losses::new(Used::silent(0));
    bench.quota.counted.bytes = 70 << 20;
    bench.quota.losses.since = Amount { files: 0, bytes: 7 };
    assert_eq!(bench.last_look(Used::silent(1)), Verdict::Within);
    assert_eq!(bench.quota.at_most().bytes, (70 << 20) + 8);
}

#[test]
fn looks_come_sooner_where_a_limit_is_near() {
    let mut bench = Bench::new(&limits(100, 100));
    let tick = Duration::from_millis(50);
    assert_eq!(bench.quota.pause(tick), tick);
    assert_eq!(bench.look(901), Verdict::Within);
    assert!(bench.quota.pause(tick) < tick);
}

/// What a count finds after a change.
fn exceeded(limits: &ResourceLimits, change: impl Fn(&Path)) -> Option<Limit> {
    let mut bench = Bench::new(limits);
    change(bench.folder.path());
    match bench.quota.count_still(&bench.folders, &bench.program, Scope::All) {
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
    assert_eq!(bench.look(900), Verdict::Exceeded(limit));
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
