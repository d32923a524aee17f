use super::*;
use crate::toolpacks::Download;
use crate::toolpacks::testing::{
    COMMIT, INSTALL, OTHER_COMMIT, TOP, Tar, TestFolder, UPDATE, code, download, manifest, pinned,
};

fn archive(version: &str, reference: &str, commit: &str) -> Download {
    let tar = Tar::empty().pax(b'g', &[("comment", commit)]).entry(
        &format!("{TOP}toolpack.json"),
        b'0',
        manifest(version).as_bytes(),
    );
    Download { pinned: pinned(reference, commit), archive: tar.packed() }
}

fn installed() -> TestFolder {
    let fixture = TestFolder::new();
    let staged = fixture.folder.stage_archive(&archive("1.0.0", "v1", COMMIT), &INSTALL).unwrap();
    fixture.folder.commit(staged).unwrap();
    fixture
}

#[test]
fn the_lock_pins_commit_and_content() {
    let fixture = installed();
    let entry = fixture.folder.lock().unwrap().into_values().next().unwrap();
    assert_eq!(entry.source, "github:owner/repo");
    assert_eq!((entry.reference.as_deref(), entry.commit.as_deref()), (Some("v1"), Some(COMMIT)));
    assert!(entry.archive_hash.is_some());
    let again = fixture.folder.stage_archive(&archive("1.0.0", "v1", COMMIT), &INSTALL).unwrap();
    assert_eq!(again.entry, entry, "the same is the same");
}

#[test]
fn another_archive_of_the_same_commit_is_refused() {
    let fixture = installed();
    for terms in [INSTALL, UPDATE] {
        let changed = archive("1.0.1", "v1", COMMIT);
        assert_eq!(code(fixture.folder.stage_archive(&changed, &terms)), Some(Code::Pin));
    }
    // Packed differently, but the same files: that happens, and harms nobody.
    let repacked = download(
        Tar::empty()
            .entry(&format!("other-name/{}", "toolpack.json"), b'0', manifest("1.0.0").as_bytes())
            .packed(),
    );
    fixture.folder.stage_archive(&repacked, &INSTALL).unwrap();
}

#[test]
fn only_an_update_follows_what_has_moved() {
    let fixture = installed();
    let moved = archive("1.1.0", "v1", OTHER_COMMIT);
    assert_eq!(code(fixture.folder.check_pin(&moved.pinned, &INSTALL)), Some(Code::Pin));
    let error = fixture.folder.stage_archive(&moved, &INSTALL).unwrap_err();
    assert!(matches!(&error, ToolpackError::Moved { id, .. } if id.as_str() == "pack"), "{error}");
    fixture.folder.check_pin(&moved.pinned, &UPDATE).unwrap();
    fixture.folder.stage_archive(&moved, &UPDATE).unwrap();
    // Another reference was asked for by name.
    let other = archive("1.1.0", "v2", OTHER_COMMIT);
    fixture.folder.check_pin(&other.pinned, &INSTALL).unwrap();
    fixture.folder.stage_archive(&other, &INSTALL).unwrap();
}

#[test]
fn an_older_one_needs_permission() {
    let fixture = installed();
    let older = archive("0.9.0", "v0", OTHER_COMMIT);
    assert_eq!(code(fixture.folder.stage_archive(&older, &UPDATE)), Some(Code::Downgrade));
    let allowed = Terms { downgrade: Downgrade::Allow, ..UPDATE };
    fixture.folder.stage_archive(&older, &allowed).unwrap();
}

#[test]
fn nobody_takes_another_packs_name() {
    let fixture = installed();
    assert_eq!(
        code(fixture.folder.stage_folder(&fixture.source("2.0.0"), &UPDATE)),
        Some(Code::Source)
    );
    let mut other = archive("2.0.0", "v2", OTHER_COMMIT);
    other.pinned.source = "mallory/repo@v2".parse().unwrap();
    assert_eq!(code(fixture.folder.stage_archive(&other, &UPDATE)), Some(Code::Source));
    other.pinned.source = "Owner/Repo@v2".parse().unwrap();
    fixture.folder.stage_archive(&other, &UPDATE).unwrap();
}
