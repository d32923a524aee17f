use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::*;

const NOTHING: Amount = Amount { files: 0, bytes: 0 };
const ALL: Amount = Amount { files: u64::MAX, bytes: u64::MAX };

fn limits(files: u64, disk_mb: u64) -> ResourceLimits {
    ResourceLimits { disk_mb, files, ..ResourceLimits::default() }
}

/// A quota that the file systems have grown by so much, as far as it knows.
fn after_growth(limits: &ResourceLimits, grown: Amount, folders: &[Folder]) -> Quota {
    Quota { found: grown, ..Quota::new(limits, folders) }
}

/// What a walk finds after a change, on a file system that has grown by so much.
fn exceeded(limits: &ResourceLimits, grown: Amount, change: impl Fn(&Path)) -> Option<Limit> {
    let folder = tempfile::tempdir().unwrap();
    let folders = [Folder::look(folder.path(), &[], &[]).unwrap()];
    let mut quota = after_growth(limits, grown, &folders);
    change(folder.path());
    match quota.walk(&folders, None, &|| false) {
        Verdict::Within => None,
        Verdict::Exceeded(SandboxError::Limit { limit, .. }) => Some(limit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_walked_while_the_limit_can_not_be_exceeded() {
    let quota = Quota::new(&limits(10, 1), &[]);
    let now = Instant::now();
    let (ten, eleven) = (Amount { files: 10, bytes: MIB }, Amount { files: 11, bytes: 0 });
    assert!(!quota.is_due(ten, now), "ten are new, and ten are allowed");
    assert!(quota.is_due(eleven, now) && quota.is_due(Amount { files: 0, bytes: MIB + 1 }, now));
    assert!(quota.is_due(NOTHING, now + LONGEST_PAUSE), "others may have freed as much");
    let mut quota = Quota { found: eleven, ..quota };
    assert_eq!(quota.walk(&[], None, &|| false), Verdict::Within, "others were it");
    assert_eq!(quota.most_new(&Used::default()), NOTHING, "they are forgotten");
    assert!(!quota.is_due(eleven, now), "they do not make it walk for ever");
    assert!(quota.is_due(eleven, Instant::now() + SHORTEST_PAUSE));
}

#[test]
fn looks_come_soon_only_while_growth_brings_the_limit_near() {
    let folder = tempfile::tempdir().unwrap();
    let folders = [Folder::look(folder.path(), &[], &[]).unwrap()];
    let device = fstat(folders[0].handle()).unwrap().st_dev;
    // Nothing is left of the limit, so that whatever grows is near it.
    let mut quota = Quota::new(&limits(0, 1 << 40), &folders);
    let shrink = |used: &mut Used| used.0.get_mut(&device).unwrap().files = 0;
    shrink(&mut quota.last);
    quota.may_walk = Instant::now() + LONGEST_PAUSE;
    assert_eq!(quota.look(&folders, None, &|| false), Verdict::Within);
    assert_eq!(quota.tick(), TICK_NEAR, "they have grown");
    let now = quota.last.clone();
    quota.is_urgent = false;
    // As if nothing had come since, whatever others do meanwhile.
    quota.last = Used(now.0.keys().map(|device| (*device, ALL)).collect());
    assert_eq!(quota.look(&folders, None, &|| false), Verdict::Within);
    assert_eq!(quota.tick(), TICK, "a box that waits near its limit costs little");
}

#[test]
fn room_that_others_take_is_no_growth_of_files() {
    let mut told = rustix::fs::statvfs("/").unwrap();
    (told.f_blocks, told.f_bfree, told.f_frsize) = (1000, 600, 4096);
    (told.f_files, told.f_ffree) = (900, 600);
    let of = |told: &StatVfs| Used(BTreeMap::from([(1, used(told))]));
    let before = of(&told);
    // As many files fit as blocks are free.
    (told.f_bfree, told.f_files, told.f_ffree) = (500, 800, 500);
    let after = of(&told);
    assert_eq!(after.more_than(&before), Amount { files: 0, bytes: 100 * 4096 });
    (told.f_files, told.f_ffree) = (800, 490);
    let later = of(&told);
    assert_eq!(later.more_than(&after), Amount { files: 10, bytes: 0 });
    assert_eq!(after.more_than(&later), NOTHING);
}

#[test]
fn walking_gives_way_to_orders() {
    let folder = tempfile::tempdir().unwrap();
    let folders = [Folder::look(folder.path(), &[], &[]).unwrap()];
    let mut quota = Quota::new(&limits(10, 100), &folders);
    assert_eq!(quota.walk(&folders, None, &|| true), Verdict::Interrupted);
    assert!(quota.is_due(ALL, Instant::now()), "it is done again");
}

#[test]
fn new_files_are_counted_where_ever_they_are() {
    let make = |folder: &Path| {
        fs::create_dir_all(folder.join("a/b")).unwrap();
        for number in 0..20 {
            fs::write(folder.join(format!("a/b/{number}")), "").unwrap();
        }
    };
    assert_eq!(exceeded(&limits(10, 100), NOTHING, make), Some(Limit::Files));
    assert_eq!(exceeded(&limits(1000, 100), ALL, make), None, "all of the rest is others'");
}

#[test]
fn new_bytes_are_counted_but_not_holes() {
    let write = |folder: &Path| fs::write(folder.join("new"), vec![1; 3 << 20]).unwrap();
    assert_eq!(exceeded(&limits(1000, 2), NOTHING, write), Some(Limit::Disk));
    let hole = |folder: &Path| {
        fs::File::create(folder.join("new")).unwrap().set_len(1 << 40).unwrap();
    };
    assert_eq!(exceeded(&limits(1000, 2), NOTHING, hole), None);
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
    for (name, depth) in [(&long[..], 5), (&b"\xff\xfe"[..], 3)] {
        let found = exceeded(&limits(1000, 2), NOTHING, |folder| nest(folder, name, depth));
        assert_eq!(found, Some(Limit::Disk), "{depth}");
    }
    // Too deep to be looked at: all that was added to the file system counts.
    let grown = Amount { files: 31, bytes: 3 << 20 };
    let found = exceeded(&limits(1000, 2), grown, |folder| nest(folder, &long, 30));
    assert_eq!(found, Some(Limit::Disk));
}
