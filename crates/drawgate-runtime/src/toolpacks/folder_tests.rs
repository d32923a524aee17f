use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::toolpacks::testing::{INSTALL, TestFolder, UPDATE, code, everything_in, manifest};

fn id() -> PackId {
    "pack".parse().unwrap()
}

#[test]
fn it_is_made_for_its_owner_alone() {
    let fixture = TestFolder::new();
    let mode = fs::metadata(fixture.folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(fixture.version(), None);
}

#[test]
fn a_pack_lives() {
    let fixture = TestFolder::new();
    let staged = fixture.folder.stage_folder(&fixture.source("1.0.0"), &INSTALL).unwrap();
    assert!(staged.replaces.is_none());
    assert!(fixture.folder.list().unwrap().is_empty(), "staging changes nothing");
    let pack = fixture.folder.commit(staged).unwrap();
    assert!(!pack.is_enabled(), "whatever its author says");
    assert_eq!(pack.integrity, Integrity::Locked);

    let on = fixture.folder.enable(&id(), None).unwrap();
    assert!(on.is_enabled() && on.is_loadable());
    let text = fs::read_to_string(on.folder.join("toolpack.json")).unwrap();
    assert_eq!(text, manifest("1.0.0"), "its author's file is not touched");
    assert!(!fixture.folder.disable(&id()).unwrap().is_loadable());
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));

    fixture.folder.remove(&id()).unwrap();
    assert_eq!(fixture.version(), None);
    let error = fixture.folder.remove(&id()).unwrap_err();
    assert_eq!(error.to_string(), "no toolpack `pack` is installed; there are none yet");
}

#[test]
fn what_was_changed_is_not_loaded() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    fixture.folder.enable(&id(), None).unwrap();
    let words = fixture.folder.path().join("pack/data/words.txt");
    fs::write(&words, "other words").unwrap();
    let pack = fixture.folder.get(&id()).unwrap();
    assert!(matches!(pack.integrity, Integrity::Changed(_)), "{pack:?}");
    assert!(pack.is_enabled() && !pack.is_loadable());
    assert_eq!(code(fixture.folder.enable(&id(), None)), Some(Code::Pin));
    assert!(!fixture.folder.disable(&id()).unwrap().is_enabled());
    let findings = fixture.folder.verify().unwrap();
    assert!(!findings[0].ok && findings[0].advice.is_some(), "{findings:?}");

    fs::write(&words, "words of 1.0.0\n").unwrap();
    assert_eq!(fixture.folder.get(&id()).unwrap().integrity, Integrity::Locked);
    symlink("/etc/passwd", fixture.folder.path().join("pack/link")).unwrap();
    let Integrity::Changed(how) = fixture.folder.get(&id()).unwrap().integrity else { panic!() };
    assert!(how.contains("`link`"), "{how}");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let fixture = TestFolder::new();
    let foreign = fixture.folder.path().join("pack");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("toolpack.json"), manifest("3.0.0")).unwrap();
    symlink(fixture.source("1.0.0"), fixture.folder.path().join("linked")).unwrap();
    let packs = fixture.folder.list().unwrap();
    assert_eq!(packs.iter().map(|pack| pack.id.as_str()).collect::<Vec<_>>(), ["linked", "pack"]);
    assert!(packs.iter().all(|pack| pack.integrity == Integrity::Foreign && !pack.is_loadable()));
    let before = everything_in(fixture.root.path());
    let linked = "linked".parse().unwrap();
    for id in [&id(), &linked] {
        assert_eq!(code(fixture.folder.remove(id)), Some(Code::Source));
        assert_eq!(code(fixture.folder.enable(id, None)), Some(Code::Source));
        assert_eq!(code(fixture.folder.disable(id)), Some(Code::Source));
    }
    assert_eq!(
        code(fixture.folder.stage_folder(&fixture.source("1.0.0"), &INSTALL)),
        Some(Code::Source)
    );
    assert_eq!(everything_in(fixture.root.path()), before);
}

#[test]
fn a_pack_that_is_gone_is_missed() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    fs::remove_dir_all(fixture.folder.path().join("pack")).unwrap();
    let pack = fixture.folder.get(&id()).unwrap();
    assert_eq!(pack.integrity, Integrity::Missing);
    assert!(!fixture.folder.verify().unwrap()[0].ok);
    fixture.install("1.0.0");
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));
    fs::remove_dir_all(fixture.folder.path().join("pack")).unwrap();
    fixture.folder.remove(&id()).unwrap();
    assert_eq!(fixture.version(), None);
}

#[test]
fn one_stages_and_another_commits() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let staged = fixture.stage("2.0.0");
    let other = Folder::open(fixture.folder.path()).unwrap();
    let mut found = other.staged(&staged.name).unwrap();
    assert_eq!(
        (&found.id, &found.entry, &found.replaces),
        (&staged.id, &staged.entry, &staged.replaces)
    );
    found.entry.enable(None);
    assert!(other.commit(found).unwrap().is_loadable());
    drop(staged);
    assert_eq!(fixture.version().as_deref(), Some("2.0.0"));
    assert!(entries(&fixture.folder.path().join(STAGING)).unwrap().is_empty());
}

#[test]
fn what_was_staged_is_checked_again() {
    let fixture = TestFolder::new();
    let staged = fixture.stage("1.0.0");
    let words = fixture.folder.staged_pack(&staged.name).join("data/words.txt");
    fs::write(words, "other words").unwrap();
    assert!(matches!(fixture.folder.staged(&staged.name), Err(ToolpackError::NotStaged(_))));
    assert!(matches!(fixture.folder.commit(staged), Err(ToolpackError::NotStaged(_))));
    for name in ["", "..", "../pack", "0123456789abcdef0123456789abcdef", ".", "x/y"] {
        assert!(matches!(fixture.folder.staged(name), Err(ToolpackError::NotStaged(_))), "{name}");
    }
    assert_eq!(fixture.version(), None);
}

#[test]
fn two_who_stage_do_not_overwrite_each_other() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let first = fixture.stage("2.0.0");
    let second = fixture.stage("3.0.0");
    fixture.folder.commit(second).unwrap();
    assert_eq!(code(fixture.folder.commit(first)), Some(Code::Pin));
    assert_eq!(fixture.version().as_deref(), Some("3.0.0"));
}

#[test]
fn what_the_dead_staged_is_swept_away_and_what_the_living_did_is_not() {
    let fixture = TestFolder::new();
    let dead = fixture.stage("1.0.0");
    let living = fixture.stage("1.0.0");
    let places =
        (fixture.folder.staging_path(&dead.name), fixture.folder.staging_path(&living.name));
    dead.abandon();
    Folder::open(fixture.folder.path()).unwrap();
    assert!(!places.0.exists() && places.1.exists());
    drop(living);
    assert!(!places.1.exists());
}

#[test]
fn an_update_is_shown_before_it_is_made() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let source = fixture.source("1.1.0");
    let text = manifest("1.1.0").replace("pack_say", "pack_tell");
    fs::write(source.join("toolpack.json"), text).unwrap();
    let staged = fixture.folder.stage_folder(&source, &UPDATE).unwrap();
    let changes = fixture.folder.changes(&staged).unwrap();
    assert_eq!(changes.version, (Some("1.0.0".to_owned()), "1.1.0".to_owned()));
    assert_eq!(changes.tools.added, ["pack_tell"]);
    assert_eq!(changes.tools.removed, ["pack_say"]);
    assert!(changes.files && !changes.is_empty());
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));
}

/// Readers never see the moment between the folder and the lock file.
#[test]
fn nobody_sees_half_of_it() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) || looks == 0 {
                let folder = Folder::open(fixture.folder.path()).unwrap();
                let packs = folder.list().unwrap();
                assert_eq!(packs.len(), 1);
                assert_eq!(packs[0].integrity, Integrity::Locked);
                looks += 1;
            }
        });
        for version in ["1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.0.5"] {
            fixture.install(version);
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(fixture.version().as_deref(), Some("1.0.5"));
}
