//! When an edit of a file counts: once the file has stopped changing.
//!
//! Editors empty a file and write it again, or put a new one in its place and fill it; what stands there
//! meanwhile is often valid and lacks the rules that come last. A new inode proves nothing about that, so
//! every followed file is held to the same rule.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Two looks this far apart must agree.
const PAUSE: Duration = Duration::from_millis(250);
/// As many looks must agree where something is missing: a file that is still being written looks like that.
/// They are counted, so that a machine that stood still for a while does not count as patience.
const LOOKS: u32 = 8;

/// What tells that a file was written to or replaced, even if its text is the same again.
pub(crate) type Stamp = Option<[i128; 5]>;

/// The stamp of a file; none where there is no file.
pub(crate) fn stamp(path: &Path) -> Stamp {
    let file = std::fs::metadata(path).ok()?;
    let nanoseconds = |seconds, rest| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Some([
        nanoseconds(file.ctime(), file.ctime_nsec()),
        nanoseconds(file.mtime(), file.mtime_nsec()),
        i128::from(file.size()),
        i128::from(file.ino()),
        i128::from(file.dev()),
    ])
}

/// Waits until two looks agree, and for longer while `missing` names something that counted and is not there
/// any more. Returns what was seen.
pub(crate) async fn settled<S: PartialEq, F: Future<Output = S>>(
    look: impl Fn() -> F,
    missing: impl Fn() -> Option<PathBuf>,
) -> S {
    let mut last = look().await;
    let mut looks = 0;
    loop {
        tokio::time::sleep(PAUSE).await;
        let now = look().await;
        if now != last {
            last = now;
            looks = 0;
            continue;
        }
        looks += 1;
        if looks >= LOOKS {
            return last;
        }
        let Some(file) = missing() else { return last };
        if looks == 1 {
            let (file, seconds) = (file.display(), (PAUSE * LOOKS).as_secs());
            tracing::info!(
                "lines are gone from `{file}`; that counts when it has not been written to for {seconds} seconds"
            );
        }
    }
}

/// Whether a text lacks a line of an earlier one, wherever it stood and however often.
pub(crate) fn lacks_lines(text: &[u8], earlier: &[u8]) -> bool {
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for line in lines(text) {
        *counts.entry(line).or_default() += 1;
    }
    !lines(earlier).all(|line| match counts.get_mut(line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        Some(_) | None => false,
    })
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
