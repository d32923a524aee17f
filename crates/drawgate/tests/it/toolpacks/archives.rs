//! The catalogue of hostile archives, installed by the real command from a stand-in for GitHub.

#[path = "../../../../drawgate-runtime/src/toolpacks/testing/hostile.rs"]
mod hostile;
#[path = "../../../../drawgate-runtime/src/toolpacks/testing/tar.rs"]
mod tar;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hostile::archive;
use tar::{COMMIT, TOP, Tar};

use super::github::{FileServer, locked};
use super::refusal;
use crate::support::TestFolder;

/// Name, what is expected (one of several), and why.
const ROWS: &str = include_str!("../../../../drawgate-runtime/src/toolpacks/catalogue.tsv");

/// Everything below a folder, with its mode; links are not followed.
fn tree(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let data = path.symlink_metadata().unwrap();
        let mode = data.permissions().mode();
        found.insert(format!("{} {mode:o}", path.display()));
        if data.is_dir() {
            tree(&path, found);
        }
    }
}

/// What lies in the place, but for the gateway's own data.
fn around(place: &TestFolder) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    tree(place.path(), &mut found);
    let data = place.data().display().to_string();
    found.retain(|line| !line.starts_with(&data));
    found
}

fn install(place: &TestFolder, source: &str) -> std::process::Output {
    place.run(&["toolpacks", "install", source])
}

fn assert_refused(place: &TestFolder, name: &str, before: &BTreeSet<String>) {
    let said = refusal(&install(place, "octo/pack@v1"));
    assert!(!said.contains("panicked") && said.len() < 2000, "{name}: {said}");
    assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{name}: {said:?}");
    assert_eq!(around(place), *before, "{name}: something was left");
}

/// Files and folders of ordinary modes, which can be taken away again.
fn assert_installed(place: &TestFolder, name: &str, before: &BTreeSet<String>) {
    let output = install(place, "octo/pack@v1");
    assert!(output.status.success(), "{name}: {output:?}");
    assert_eq!(locked(place, "pack")["commit"], COMMIT, "{name}");
    let pack = place.path().join("toolpacks/pack");
    let mut found = BTreeSet::new();
    tree(&pack, &mut found);
    let ordinary =
        |line: &String| [" 100644", " 100755", " 40755"].iter().any(|mode| line.ends_with(mode));
    assert!(found.iter().all(ordinary), "{name}: {found:?}");
    if name == "ok_plain" {
        let file = |path: &str| format!("{} 100644", pack.join(path).display());
        let folder = format!("{} 40755", pack.join("data").display());
        assert_eq!(found, BTreeSet::from([folder, file("data/a.txt"), file("toolpack.json")]));
    }
    place.ok(&["toolpacks", "remove", "pack"]);
    assert_eq!(around(place), *before, "{name}: something was left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_archive_of_the_catalogue_is_taken_or_leaves_nothing() {
    let github = FileServer::start().await;
    let place = TestFolder::new(&github.config());
    // Once used, so that what stays for good is there.
    github.publish_archive("v1", COMMIT, archive("ok_plain"));
    place.ok(&["toolpacks", "install", "octo/pack@v1"]);
    place.ok(&["toolpacks", "remove", "pack"]);
    let before = around(&place);
    let rows = ROWS.lines().skip(1).filter(|row| !row.starts_with("lock_"));
    let mut count = 0;
    for row in rows {
        let [name, expected, _why] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        github.publish_archive("v1", COMMIT, archive(name));
        let has = |start: &str| expected.split('|').any(|word| word.starts_with(start));
        let taken = match (has("ACCEPT"), has("REJECT")) {
            // Either is right, if it is done properly.
            (true, true) => is_taken(&place),
            (taken, _) => taken,
        };
        if taken {
            assert_installed(&place, name, &before);
        } else {
            assert_refused(&place, name, &before);
        }
        count += 1;
    }
    assert_eq!(count, 63);
    for short in [&COMMIT[..12], &COMMIT[..7]] {
        let said = refusal(&install(&place, &format!("octo/pack@{short}")));
        assert!(said.contains("is only the beginning of a commit id"), "{said}");
        assert_eq!(around(&place), before);
    }
}

/// Whether an archive for which both are right is installed; it is taken away again.
fn is_taken(place: &TestFolder) -> bool {
    let taken = install(place, "octo/pack@v1").status.success();
    if taken {
        place.ok(&["toolpacks", "remove", "pack"]);
    }
    taken
}

/// When a file was made is no part of what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_does_not_change_the_hash() {
    let github = FileServer::start().await;
    let place = TestFolder::new(&github.config());
    let ordinary = Tar::pack().entry(&format!("{TOP}a"), b'0', b"").packed();
    let hashes = [archive("mtime_future"), ordinary].map(|archive| {
        github.publish_archive("v1", COMMIT, archive);
        place.ok(&["toolpacks", "install", "octo/pack@v1"]);
        let entry = locked(&place, "pack");
        place.ok(&["toolpacks", "remove", "pack"]);
        entry
    });
    assert!(hashes[0]["contentHash"].is_string(), "{hashes:?}");
    assert_eq!(hashes[0]["contentHash"], hashes[1]["contentHash"]);
    assert_ne!(hashes[0]["archiveHash"], hashes[1]["archiveHash"]);
}
