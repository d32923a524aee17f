use std::fs;

use drawgate_core::model::Principal;
use drawgate_host::seal::SealingKey;
use serde_json::json;

use super::*;
use crate::toolpacks::testing::{TestFolder, everything_in, manifest};

fn id() -> PackId {
    "pack".parse().unwrap()
}

/// Turns a folder into what the version before would have made of it, and returns the entries.
fn make_old(fixture: &TestFolder) -> Value {
    let lock = fs::read(fixture.folder.lock_path()).unwrap();
    let mut entries = serde_json::from_slice::<Value>(&lock).unwrap()["toolpacks"].take();
    for entry in entries.as_object_mut().unwrap().values_mut() {
        let entry = entry.as_object_mut().unwrap();
        for new in ["enabled", "accepted", "contentHashBefore"] {
            entry.remove(new);
        }
    }
    fs::remove_file(fixture.folder.lock_path()).unwrap();
    for new in [".staged", ".leaving"] {
        fs::remove_dir(fixture.folder.path().join(new)).unwrap();
    }
    write_old(fixture, &entries);
    entries
}

fn write_old(fixture: &TestFolder, entries: &Value) {
    let text = json!({ "format": 1, "toolpacks": entries }).to_string();
    fs::write(fixture.root.path().join(OLD_LOCK), text).unwrap();
}

fn journal(fixture: &TestFolder, begun: &Value) {
    fs::write(fixture.folder.path().join(OLD_JOURNAL), begun.to_string()).unwrap();
}

/// An installed pack as the version before had it, enabled.
fn old(version: &str) -> (TestFolder, Value) {
    let fixture = TestFolder::new();
    fixture.install(version);
    let entries = make_old(&fixture);
    set_enabled(&fixture, version);
    (fixture, entries)
}

/// The version before wrote that into the manifest.
fn set_enabled(fixture: &TestFolder, version: &str) {
    let mut text: Value = serde_json::from_str(&manifest(version)).unwrap();
    text["enabled"] = true.into();
    fs::write(fixture.folder.path().join("pack/toolpack.json"), text.to_string()).unwrap();
}

fn take_over(fixture: &TestFolder) -> Result<(), ToolpackError> {
    let key = SealingKey::new(&[7; 32]).unwrap();
    Folder::take_over(fixture.folder.path(), |id, entry| {
        let subject = entry.subject(id.as_str());
        (!entry.is_accepted(id.as_str(), &key))
            .then(|| Consent::give(&key, subject, &Principal::local(), "now".to_owned()).unwrap())
    })
}

#[track_caller]
fn check_taken_over(fixture: &TestFolder, version: Option<&str>) {
    assert!(!Folder::is_old(fixture.folder.path()));
    assert_eq!(fixture.version().as_deref(), version);
    let rest = everything_in(fixture.folder.path()).join("\n");
    assert!(!rest.contains("journal") && !rest.contains("toolpacks.lock"), "{rest}");
    assert!(!fixture.root.path().join(OLD_LOCK).exists());
    if version.is_some() {
        let entry = fixture.folder.lock().unwrap().remove(&id()).unwrap();
        assert!(entry.enabled && entry.accepted.len() == 1, "{entry:?}");
        assert!(fixture.folder.get(&id()).unwrap().is_loadable());
    }
}

#[test]
fn a_folder_of_the_version_before_is_taken_over_once() {
    let (fixture, entries) = old("1.0.0");
    take_over(&fixture).unwrap();
    check_taken_over(&fixture, Some("1.0.0"));
    // Killed before the old files were gone, or they came back with an earlier state of a project.
    write_old(&fixture, &entries);
    let lock = fixture.folder.lock().unwrap();
    take_over(&fixture).unwrap();
    assert_eq!(fixture.folder.lock().unwrap(), lock);
    check_taken_over(&fixture, Some("1.0.0"));
    fixture.folder.disable(&id()).unwrap();
    write_old(&fixture, &entries);
    take_over(&fixture).unwrap();
    assert!(!fixture.folder.get(&id()).unwrap().is_enabled(), "what the lock says stays");
}

/// An update that a journal tells of, at every place where it may have been cut off.
#[test]
fn what_a_journal_began_is_finished() {
    for is_moved in [false, true] {
        let fixture = TestFolder::new();
        fixture.install("1.0.0");
        let staged = fixture.stage("2.0.0");
        let mut entry = serde_json::to_value(&staged.entry).unwrap();
        entry.as_object_mut().unwrap().remove("enabled");
        let name = staged.name.clone();
        staged.abandon();
        let mut entries = make_old(&fixture);
        let (place, pack) = (fixture.folder.path().join("pack"), fixture.folder.staged_pack(&name));
        let mut text: Value = serde_json::from_str(&manifest("2.0.0")).unwrap();
        text["enabled"] = true.into();
        fs::write(pack.join("toolpack.json"), text.to_string()).unwrap();
        if is_moved {
            fs::rename(&place, fixture.folder.path().join(".trash/old")).unwrap();
            fs::rename(&pack, &place).unwrap();
            entries["pack"] = entry.clone();
            write_old(&fixture, &entries);
        }
        let begun = json!({ "act": "install", "id": "pack", "staged": name,
            "exact_hash": "sha256:0", "entry": entry });
        journal(&fixture, &begun);
        take_over(&fixture).unwrap();
        check_taken_over(&fixture, Some("2.0.0"));
    }
}

#[test]
fn an_install_whose_files_are_gone_was_not_begun() {
    let (fixture, mut entries) = old("1.0.0");
    let begun = json!({ "act": "install", "id": "pack", "staged": "0".repeat(32),
        "exact_hash": "sha256:0", "entry": entries["pack"].take() });
    let mut begun = begun;
    begun["entry"]["contentHash"] = format!("sha256:{:0>64}", 1).into();
    journal(&fixture, &begun);
    take_over(&fixture).unwrap();
    check_taken_over(&fixture, Some("1.0.0"));
}

#[test]
fn a_removal_that_a_journal_began_is_finished() {
    for is_moved in [false, true] {
        let (fixture, _) = old("1.0.0");
        if is_moved {
            let trash = fixture.folder.path().join(".trash/somewhere");
            fs::rename(fixture.folder.path().join("pack"), trash).unwrap();
        }
        journal(&fixture, &json!({ "act": "remove", "id": "pack", "trash": "somewhere" }));
        take_over(&fixture).unwrap();
        check_taken_over(&fixture, None);
    }
}

#[test]
fn what_can_not_be_taken_over_whole_is_not_at_all() {
    let bad = |entries: &Value| {
        let mut bad = entries.clone();
        bad["other"] = json!({ "version": "1" });
        bad
    };
    let (fixture, entries) = old("1.0.0");
    write_old(&fixture, &bad(&entries));
    let before = everything_in(&fixture.folder.path().join("pack"));
    let error = take_over(&fixture).unwrap_err();
    assert!(
        matches!(&error, ToolpackError::Lock { path, .. } if path.ends_with(OLD_LOCK)),
        "{error}"
    );
    assert!(!fixture.folder.lock_path().exists());
    assert_eq!(everything_in(&fixture.folder.path().join("pack")), before);

    write_old(&fixture, &entries);
    journal(&fixture, &json!({ "act": "dance" }));
    assert!(take_over(&fixture).is_err() && !fixture.folder.lock_path().exists());
    fs::remove_file(fixture.folder.path().join(OLD_JOURNAL)).unwrap();

    let in_the_way = fixture.root.path().join("drawgate.lock.new/x");
    fs::create_dir_all(&in_the_way).unwrap();
    assert!(take_over(&fixture).is_err() && !fixture.folder.lock_path().exists());
    assert!(Folder::is_old(fixture.folder.path()));
    fs::remove_dir_all(in_the_way.parent().unwrap()).unwrap();
    take_over(&fixture).unwrap();
    check_taken_over(&fixture, Some("1.0.0"));
}
