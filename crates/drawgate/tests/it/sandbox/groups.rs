//! Control groups: what the first box had, the later ones have, or they are refused.

use std::fs;
use std::path::{Path, PathBuf};

use drawgate_host::sandbox::SandboxError;

use super::fork_server::{Boxes, fork_server};

/// A group in which no group of a box can have the processors that it wants.
struct Tight(PathBuf);

impl Tight {
    /// `None` where this user can't make one, or the kernel would not mind.
    fn make() -> Option<Self> {
        let above = Path::new("/sys/fs/cgroup/cpu");
        let path = above.join(format!("drawgate_test_{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        let tenth = fs::write(group.0.join("cpu.cfs_quota_us"), "10000");
        tenth.ok().map(|()| group)
    }

    fn take(&self, process: rustix::process::Pid) {
        let id = process.as_raw_nonzero().to_string();
        fs::write(self.0.join("cgroup.procs"), id).unwrap();
    }
}

impl Drop for Tight {
    fn drop(&mut self) {
        let above = self.0.parent().unwrap();
        for id in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ended = fs::write(above.join("cgroup.procs"), id);
        }
        let _in_use = fs::remove_dir(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_that_would_hold_less_than_the_first_is_refused() {
    let Some(tight) = Tight::make() else {
        eprintln!("skipped: needs root, and control groups of version 1");
        return;
    };
    let boxes = Boxes::new();
    let mut first = boxes.shell("read line; exit 3");
    tight.take(fork_server(&first));
    let mut later = boxes.shell("echo ran > it_ran");
    assert_ne!(later.wait().await.unwrap().code(), Some(0));
    match later.box_failure().await {
        Some(error @ SandboxError::Build { .. }) => {
            assert!(error.to_string().contains("`cpu` can't be held"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!boxes.workspace().join("it_ran").exists());
    drop(first.take_stdin());
    assert_eq!(first.wait().await.unwrap().code(), Some(3), "the first goes on");
    drop(tight);
    assert_eq!(boxes.code("exit 4").await, Some(4), "and later ones are as they were");
}
