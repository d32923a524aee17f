use std::cell::Cell;
use std::future::ready;
use std::path::PathBuf;

use tokio::time::Instant;

use super::{LOOKS, PAUSE, lacks_lines, settled, stamp};

#[test]
fn a_line_that_is_gone_is_noticed_wherever_it_stood() {
    let rows = [
        ("", "", false),
        ("a\nb\n", "a\nb", false),
        ("b\n\n  a\n", "a\nb\n", false),
        ("a\nb\nc\n", "a\nc\n", false),
        ("", "a\n", true),
        ("a\n", "a\na\n", true),
        ("a\nb", "a\nbc\n", true),
        ("fallback = \"allow\"\n", "fallback = \"deny\"\n", true),
    ];
    for (now, earlier, expected) in rows {
        assert_eq!(
            lacks_lines(now.as_bytes(), earlier.as_bytes()),
            expected,
            "{earlier:?} to {now:?}"
        );
    }
}

#[test]
fn every_way_of_saving_is_seen_in_the_stamp() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    assert_eq!(stamp(&file), None);
    std::fs::write(&file, "abc").unwrap();
    let first = stamp(&file);
    std::fs::write(folder.path().join("next"), "abc").unwrap();
    std::fs::rename(folder.path().join("next"), &file).unwrap();
    assert_ne!(stamp(&file), first, "another file of the same size");
}

/// How many pauses it takes until what these looks find has settled.
async fn pauses(looks: &[u32], missing: bool) -> (u32, u32) {
    let begun = Instant::now();
    let next = Cell::new(0);
    let look = || {
        let now = looks[next.get().min(looks.len() - 1)];
        next.set(next.get() + 1);
        ready(now)
    };
    let seen = settled(look, || missing.then(|| PathBuf::from("file"))).await;
    (seen, u32::try_from(begun.elapsed().as_millis() / PAUSE.as_millis()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn what_changes_is_waited_for_and_what_loses_lines_for_longer() {
    assert_eq!(pauses(&[1], false).await, (1, 1));
    assert_eq!(pauses(&[0, 1, 2, 3], false).await, (3, 4));
    assert_eq!(pauses(&[1], true).await, (1, LOOKS));
    assert_eq!(pauses(&[0, 0, 0, 1, 0, 2], true).await, (2, 5 + LOOKS));
}
