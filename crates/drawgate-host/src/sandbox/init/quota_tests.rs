use std::fs;

use super::*;

/// A program that does nothing, and whether somebody calls.
struct Still(bool);

impl Counted for Still {
    fn is_called(&self) -> bool {
        self.0
    }
    fn pause(&self) {}
    fn resume(&self) {}
}

fn limits(files: u64, disk_mb: u64) -> ResourceLimits {
    ResourceLimits { disk_mb, files, ..ResourceLimits::default() }
}

fn exceeded(limits: &ResourceLimits, change: impl Fn(&std::path::Path)) -> Option<Limit> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old"), vec![0; 4096]).unwrap();
    let folders = [Folder::look(folder.path(), &[]).unwrap()];
    let mut quota = Quota::new(limits, &folders);
    change(folder.path());
    // Whatever the whole file system does meanwhile, the folder is looked at.
    quota.last.clear();
    match quota.exceeded(&folders, &Still(false))? {
        SandboxError::Limit { limit, .. } => Some(limit),
        other => panic!("{other}"),
    }
}

#[test]
fn new_files_are_counted_where_ever_they_are() {
    let make = |folder: &std::path::Path| {
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
    let write = |folder: &std::path::Path| fs::write(folder.join("new"), vec![1; 3 << 20]).unwrap();
    assert_eq!(exceeded(&limits(1000, 2), write), Some(Limit::Disk));
    let hole = |folder: &std::path::Path| {
        fs::File::create(folder.join("new")).unwrap().set_len(1 << 40).unwrap();
    };
    assert_eq!(exceeded(&limits(1000, 2), hole), None);
}

#[test]
fn counting_gives_way_to_orders() {
    let folder = tempfile::tempdir().unwrap();
    let folders = [Folder::look(folder.path(), &[]).unwrap()];
    let most = Amount { files: 0, bytes: 0 };
    assert!(Count::of(&folders, 0, most, &Still(true)).is_none());
}

/// Makes folders in one another, by descriptors, and a file at the bottom.
fn nest(top: &std::path::Path, name: &[u8], depth: usize) {
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
