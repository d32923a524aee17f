use super::*;
use crate::lock::LockFile;
use crate::toolpacks::Integrity;
use crate::toolpacks::testing::{TestFolder, everything_in};

/// The acts on a pack, each with the versions before and after it.
const ACTS: [(Act, Option<&str>, Option<&str>); 6] = [
    (Act::Install("1.0.0"), None, Some("1.0.0")),
    (Act::Install("2.0.0"), Some("1.0.0"), Some("2.0.0")),
    (Act::Install("1.0.0"), Some("1.0.0"), Some("1.0.0")),
    (Act::Enable, Some("1.0.0"), Some("1.0.0")),
    (Act::Disable, Some("1.0.0"), Some("1.0.0")),
    (Act::Remove, Some("1.0.0"), None),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Install(&'static str),
    Enable,
    Disable,
    Remove,
}

fn id() -> PackId {
    "pack".parse().unwrap()
}

impl Act {
    fn start(before: Option<&str>, act: Self) -> TestFolder {
        let fixture = TestFolder::new();
        if let Some(version) = before {
            fixture.install(version);
        }
        if act == Self::Disable {
            fixture.folder.enable(&id(), None).unwrap();
        }
        fixture
    }

    /// The change of files and lock that it is; enabling and disabling replace the lock, and no more.
    fn change(self, fixture: &TestFolder) -> Option<Change> {
        match self {
            Self::Install(version) => {
                let staged = fixture.stage(version);
                let entry = Box::new(staged.entry.clone());
                let pack = fixture.folder.staged_pack(&staged.name);
                staged.abandon();
                Some(Change::Install { id: id(), staged: pack, entry })
            }
            Self::Remove => Some(Change::Remove { id: id() }),
            Self::Enable | Self::Disable => None,
        }
    }

    fn perform(self, fixture: &TestFolder) -> Result<(), ToolpackError> {
        match self {
            Self::Install(version) => fixture.folder.commit(fixture.stage(version)).map(drop),
            Self::Enable => fixture.folder.enable(&id(), None).map(drop),
            Self::Disable => fixture.folder.disable(&id()).map(drop),
            Self::Remove => fixture.folder.remove(&id()),
        }
    }
}

/// What is left in the folder beside the pack and what belongs there.
fn leftovers(fixture: &TestFolder) -> Vec<String> {
    let own = [".busy file 600", ".leaving folder 700", ".staged folder 700"];
    let own = own.into_iter().chain([".staging folder 700", ".trash folder 700"]);
    let own: Vec<&str> = own.collect();
    let rest = everything_in(fixture.folder.path()).into_iter();
    rest.filter(|line| !line.starts_with("pack") && !own.contains(&line.as_str())).collect()
}

/// Takes the first steps of each act and ends there; the next process makes the folder what the lock says.
#[test]
fn killed_after_any_step_an_act_is_whole_or_nothing() {
    for (act, before, after) in ACTS {
        for steps in 0..=3 {
            let fixture = Act::start(before, act);
            let Some(change) = act.change(&fixture) else { continue };
            if steps > 0 {
                fixture.folder.prepare(&change).unwrap();
            }
            if steps > 1 {
                fixture.folder.write_lock(&change).unwrap();
            }
            if steps > 2 {
                fixture.folder.settle().unwrap();
            }
            let expected = if steps < 2 { before } else { after };
            let context = format!("{act:?} after {steps} steps");
            assert_eq!(fixture.version().as_deref(), expected, "{context}, seen by a reader");
            Folder::open(fixture.folder.path()).unwrap();
            assert_eq!(fixture.version().as_deref(), expected, "{context}, opened again");
            assert_eq!(leftovers(&fixture), [""; 0], "{context}");
            assert!(fixture.folder.is_settled(), "{context}");
        }
    }
}

/// A fault at one of the files: what is put in its way, under the folder of the lock.
const FAULTS: [&str; 4] =
    ["drawgate.lock.new/x", "toolpacks/.staged", "toolpacks/.leaving", "toolpacks/.trash"];

#[test]
fn with_something_in_the_way_of_any_file_an_act_is_whole_or_nothing() {
    for (act, before, after) in ACTS {
        for fault in FAULTS {
            let fixture = Act::start(before, act);
            let enabled = || fixture.folder.lock().unwrap().get(&id()).map(|entry| entry.enabled);
            let was_enabled = enabled();
            let path = fixture.root.path().join(fault);
            let _ = fs::remove_dir(&path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).unwrap();
            }
            fs::write(&path, "in the way").unwrap();
            let done = act.perform(&fixture);
            let rest = if fault.starts_with("drawgate") { path.parent().unwrap() } else { &path };
            files::delete(rest).unwrap();
            Folder::open(fixture.folder.path()).unwrap();
            let context = format!("{act:?} with {fault}: {done:?}");
            let expected = if done.is_ok() { after } else { before };
            assert_eq!(fixture.version().as_deref(), expected, "{context}");
            assert_eq!(leftovers(&fixture), [""; 0], "{context}");
            if done.is_ok() {
                continue;
            }
            assert_eq!(enabled(), was_enabled, "{context}");
            act.perform(&fixture).unwrap_or_else(|error| panic!("{context}, again: {error}"));
            assert_eq!(fixture.version().as_deref(), after, "{context}, again");
        }
    }
}

/// The lock went back to what it said after the folders had been exchanged.
#[test]
fn the_folder_goes_back_with_the_lock() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let change = Act::Install("2.0.0").change(&fixture).unwrap();
    let Change::Install { entry, .. } = &change else { unreachable!() };
    fixture.folder.prepare(&change).unwrap();
    let before = fixture.folder.write_lock(&change).unwrap();
    let staged = fixture.folder.staged_path(&entry.content_hash);
    fixture.folder.put(&staged, &fixture.folder.pack_path(&id())).unwrap();
    lock::edit(fixture.folder.lock_path(), |lock| *lock = before).unwrap();
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));
    assert_eq!(leftovers(&fixture), [""; 0]);
}

/// Killed between the exchange and the end.
#[test]
fn the_version_before_is_removed_by_whoever_comes_next() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let change = Act::Install("2.0.0").change(&fixture).unwrap();
    let Change::Install { entry, .. } = &change else { unreachable!() };
    fixture.folder.prepare(&change).unwrap();
    fixture.folder.write_lock(&change).unwrap();
    let staged = fixture.folder.staged_path(&entry.content_hash);
    fixture.folder.put(&staged, &fixture.folder.pack_path(&id())).unwrap();
    assert!(!fixture.folder.is_settled());
    assert_eq!(fixture.version().as_deref(), Some("2.0.0"));
    assert_eq!(leftovers(&fixture), [""; 0]);
}

/// Where two folders can't be exchanged, there is a moment without any.
#[test]
fn a_pack_that_is_not_in_its_place_comes_from_where_it_is_staged() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let change = Act::Install("2.0.0").change(&fixture).unwrap();
    fixture.folder.prepare(&change).unwrap();
    fixture.folder.write_lock(&change).unwrap();
    fs::rename(fixture.folder.path().join("pack"), fixture.folder.path().join(".trash/old"))
        .unwrap();
    assert_eq!(fixture.version().as_deref(), Some("2.0.0"));
}

#[test]
fn files_that_were_changed_are_kept() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    for words in ["mine", "mine again"] {
        fs::write(fixture.folder.path().join("pack/data/words.txt"), words).unwrap();
        fixture.install("2.0.0");
        assert_eq!(fixture.version().as_deref(), Some("2.0.0"));
        let kept = fixture.folder.path().join(".quarantine/pack/data/words.txt");
        assert_eq!(fs::read_to_string(kept).unwrap(), words, "the last ones");
    }
}

#[test]
fn what_somebody_put_there_meanwhile_is_not_lost() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let change = Change::Remove { id: id() };
    fixture.folder.prepare(&change).unwrap();
    fixture.folder.write_lock(&change).unwrap();
    fs::create_dir(fixture.folder.path().join("pack")).unwrap();
    let packs = fixture.folder.list().unwrap();
    assert_eq!(packs.len(), 1);
    assert_eq!(packs[0].integrity, Integrity::Foreign);
}

#[test]
fn a_lock_that_can_not_be_read_moves_nothing() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let change = Act::Install("2.0.0").change(&fixture).unwrap();
    fixture.folder.prepare(&change).unwrap();
    let text = fs::read(fixture.folder.lock_path()).unwrap();
    fs::write(fixture.folder.lock_path(), "{").unwrap();
    assert!(matches!(fixture.folder.list(), Err(ToolpackError::Lock { .. })));
    assert!(!fixture.folder.is_settled());
    fs::write(fixture.folder.lock_path(), text).unwrap();
    assert_eq!(fixture.version().as_deref(), Some("1.0.0"));
    assert_eq!(leftovers(&fixture), [""; 0]);
}

/// Packages of servers are in the same file.
#[test]
fn what_others_have_in_the_lock_stays() {
    let fixture = TestFolder::new();
    let servers = r#"{"version":1,"servers":{"far":{"kept":true}}}"#;
    fs::write(fixture.folder.lock_path(), servers).unwrap();
    fixture.install("1.0.0");
    fixture.folder.remove(&id()).unwrap();
    let lock = LockFile::read(fixture.folder.lock_path()).unwrap().text();
    assert!(lock.contains("\"kept\": true"), "{lock}");
}
