use super::*;
use crate::toolpacks::Integrity;
use crate::toolpacks::testing::{TestFolder, everything_in};

fn install_of(fixture: &TestFolder, version: &str) -> Act {
    let staged = fixture.stage(version);
    let act = Act::Install {
        id: staged.id.clone(),
        staged: staged.name.clone(),
        exact_hash: hash::hash(&fixture.folder.staged_pack(&staged.name), ManifestScope::Bytes)
            .unwrap(),
        entry: Box::new(staged.entry.clone()),
    };
    staged.abandon();
    act
}

fn remove() -> Act {
    Act::Remove { id: "pack".parse().unwrap(), trash: "somewhere".to_owned() }
}

/// Takes the first steps and dies; then somebody comes, and all is old or all is new.
#[track_caller]
fn check(before: Option<&str>, act: impl Fn(&TestFolder) -> Act, after: Option<&str>) {
    for steps in 0..=STEPS.len() {
        let fixture = TestFolder::new();
        if let Some(version) = before {
            fixture.install(version);
        }
        let act = act(&fixture);
        for step in STEPS.into_iter().take(steps) {
            take(&fixture.folder, &act, step).unwrap();
        }
        let expected = if steps == 0 { before } else { after };
        assert_eq!(fixture.version().as_deref(), expected, "after {steps} steps, seen by a reader");
        Folder::open(fixture.folder.path()).unwrap();
        assert_eq!(fixture.version().as_deref(), expected, "after {steps} steps, opened again");
        let rest: Vec<String> = everything_in(fixture.folder.path())
            .into_iter()
            .filter(|line| !line.starts_with("pack"))
            .collect();
        assert_eq!(rest, [".busy file 600", ".staging folder 700", ".trash folder 700"]);
    }
}

#[test]
fn a_first_install_is_whole_or_nothing() {
    check(None, |fixture| install_of(fixture, "1.0.0"), Some("1.0.0"));
}

#[test]
fn an_update_is_old_or_new() {
    check(Some("1.0.0"), |fixture| install_of(fixture, "2.0.0"), Some("2.0.0"));
}

#[test]
fn the_same_again_is_the_same() {
    check(Some("1.0.0"), |fixture| install_of(fixture, "1.0.0"), Some("1.0.0"));
}

#[test]
fn a_removal_is_whole_or_nothing() {
    check(Some("1.0.0"), |_| remove(), None);
}

/// Takes the first steps, fails, and takes them back.
#[track_caller]
fn check_back(before: Option<&str>, act: impl Fn(&TestFolder) -> Act) {
    for steps in 1..STEPS.len() {
        let fixture = TestFolder::new();
        if let Some(version) = before {
            fixture.install(version);
        }
        let act = act(&fixture);
        let lock = fixture.folder.lock().unwrap();
        for step in STEPS.into_iter().take(steps) {
            take(&fixture.folder, &act, step).unwrap();
        }
        roll_back(&fixture.folder, &act, &lock).unwrap();
        assert_eq!(fixture.version().as_deref(), before, "{steps} steps taken back");
        assert_eq!(fixture.folder.lock().unwrap(), lock, "{steps} steps taken back");
    }
}

#[test]
fn what_fails_is_taken_back() {
    check_back(None, |fixture| install_of(fixture, "1.0.0"));
    check_back(Some("1.0.0"), |fixture| install_of(fixture, "2.0.0"));
    check_back(Some("1.0.0"), |_| remove());
}

/// Where two folders can't be exchanged, the old one stands aside.
#[test]
fn two_moves_are_taken_back() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let act = install_of(&fixture, "2.0.0");
    let Act::Install { staged, exact_hash, .. } = &act else { unreachable!() };
    let (staged, place) = (fixture.folder.staged_pack(staged), fixture.folder.path().join("pack"));
    in_two_moves(&staged, &place).unwrap();
    assert_eq!(hash::hash(&place, ManifestScope::Bytes).unwrap(), *exact_hash);
    move_back(&staged, &place, exact_hash).unwrap();
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));
    assert_eq!(hash::hash(&staged, ManifestScope::Bytes).unwrap(), *exact_hash);
}

#[test]
fn every_step_can_be_taken_again() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let act = install_of(&fixture, "2.0.0");
    for step in [Step::Record, Step::Record, Step::Move, Step::Move, Step::Lock, Step::Lock] {
        take(&fixture.folder, &act, step).unwrap();
    }
    take(&fixture.folder, &act, Step::Forget).unwrap();
    take(&fixture.folder, &act, Step::Forget).unwrap();
    assert_eq!(fixture.version().as_deref(), Some("2.0.0"));
}

/// Where two folders can't be exchanged, there is a moment without any.
#[test]
fn between_two_moves() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let act = install_of(&fixture, "2.0.0");
    take(&fixture.folder, &act, Step::Record).unwrap();
    fs::rename(fixture.folder.path().join("pack"), fixture.folder.path().join(".trash/old"))
        .unwrap();
    assert_eq!(fixture.version().as_deref(), Some("2.0.0"));
}

#[test]
fn what_can_not_be_finished_is_undone() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let act = install_of(&fixture, "2.0.0");
    take(&fixture.folder, &act, Step::Record).unwrap();
    fs::remove_dir_all(fixture.folder.path().join(".staging")).unwrap();
    Folder::open(fixture.folder.path()).unwrap();
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));
}

#[test]
fn an_unfinished_write_is_no_journal() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    fs::write(fixture.folder.path().join(".journal.new"), "{\"act\":").unwrap();
    fs::write(fixture.root.path().join("toolpacks.lock.new"), "{").unwrap();
    Folder::open(fixture.folder.path()).unwrap();
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));
    assert!(!fixture.root.path().join("toolpacks.lock.new").exists());
}

#[test]
fn a_journal_that_is_none_is_named() {
    let fixture = TestFolder::new();
    fs::write(fixture.folder.path().join(".journal"), "{\"act\":").unwrap();
    let error = fixture.folder.list().unwrap_err().to_string();
    assert!(error.contains(".journal"), "{error}");
}

#[test]
fn what_somebody_put_there_meanwhile_is_not_lost() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let act = remove();
    for step in [Step::Record, Step::Move] {
        take(&fixture.folder, &act, step).unwrap();
    }
    fs::create_dir(fixture.folder.path().join("pack")).unwrap();
    let packs = fixture.folder.list().unwrap();
    assert_eq!(packs.len(), 1);
    assert_eq!(packs[0].integrity, Integrity::Foreign);
}
