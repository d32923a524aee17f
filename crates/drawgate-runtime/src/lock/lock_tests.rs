use std::os::unix::fs::symlink;

use super::*;

fn with_entry(id: &str) -> impl FnOnce(&mut LockFile) -> Result<(), LockError> {
    let entries = BTreeMap::from([(id.to_owned(), id.len())]);
    move |file| {
        file.set_entries(Section::Toolpacks, &entries).unwrap();
        Ok(())
    }
}

fn ids(path: &Path) -> Vec<String> {
    let entries: BTreeMap<String, usize> =
        LockFile::read(path).unwrap().entries(Section::Toolpacks).unwrap();
    entries.into_keys().collect()
}

#[test]
fn sections_do_not_touch_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK_FILE);
    fs::write(&path, r#"{"version":1,"servers":{"far":{"x":1}}}"#).unwrap();
    LockFile::edit(&path, with_entry("own")).unwrap();
    let lock = LockFile::read(&path).unwrap();
    assert_eq!((lock.version, &lock.servers["far"]["x"]), (VERSION, &1.into()));
    assert_eq!(ids(&path), ["own"]);
}

#[test]
fn a_change_that_fails_or_changes_nothing_leaves_the_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK_FILE);
    LockFile::edit(&path, |_| Ok::<_, LockError>(())).unwrap_or_else(|error| panic!("{error}"));
    LockFile::edit(&path, with_entry("own")).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let refused = LockFile::edit(&path, |file| {
        file.toolpacks.clear();
        Err::<(), _>(LockError::Busy(path.clone()))
    });
    assert!(refused.is_err());
    LockFile::edit(&path, with_entry("own")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn an_unfinished_write_is_not_read_and_goes_with_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK_FILE);
    LockFile::edit(&path, with_entry("own")).unwrap();
    let unfinished = folder.path().join("drawgate.lock.new");
    fs::write(&unfinished, "{").unwrap();
    assert_eq!(ids(&path), ["own"]);
    LockFile::edit(&path, with_entry("other")).unwrap();
    assert_eq!(ids(&path), ["other"]);
    assert!(!unfinished.exists());
}

#[test]
fn a_link_stays_a_link_and_permissions_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (path, real) = (folder.path().join(LOCK_FILE), folder.path().join("versioned.lock"));
    LockFile::edit(&real, with_entry("own")).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&real, &path).unwrap();
    LockFile::edit(&path, with_entry("other")).unwrap();
    assert!(path.symlink_metadata().unwrap().is_symlink());
    assert_eq!(ids(&real), ["other"]);
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn two_who_change_it_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK_FILE);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = &path;
            scope.spawn(move || {
                LockFile::edit(path, |file| {
                    let mut all: BTreeMap<String, usize> =
                        file.entries(Section::Toolpacks).unwrap();
                    all.insert(number.to_string(), number);
                    file.set_entries(Section::Toolpacks, &all).unwrap();
                    Ok::<_, LockError>(())
                })
                .unwrap();
            });
        }
    });
    assert_eq!(ids(&path).len(), 8);
}

#[test]
fn a_file_that_is_not_wholly_understood_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK_FILE);
    for bad in [
        "",
        "{}",
        "[]",
        r#"{"version":3}"#,
        r#"{"version":1,"toolpacks":{"own":{}}}"#,
        r#"{"version":2,"x":1}"#,
        r#"{"version":2,"toolpacks":{"a":1,"a":2}}"#,
    ] {
        fs::write(&path, bad).unwrap();
        let error = LockFile::read(&path).unwrap_err();
        assert!(matches!(error, LockError::Content { .. }), "{bad}: {error}");
        assert!(LockFile::edit(&path, with_entry("own")).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), bad, "it is not overwritten");
    }
}
