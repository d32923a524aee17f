use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;

use super::*;

fn pack() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lib")).unwrap();
    for (name, text) in [
        ("toolpack.json", r#"{"id": "a", "enabled": false}"#),
        ("run.sh", "one"),
        ("lib/x.py", "1"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What somebody does to the folder of a pack.
type Change = fn(&Path);

/// Each with its name, and how it is told.
const CHANGES: [(&str, Change, &str); 11] = [
    ("written", |folder| fs::write(folder.join("run.sh"), "two").unwrap(), "`run.sh` was changed"),
    ("deep", |folder| fs::write(folder.join("lib/x.py"), "2").unwrap(), "`lib/x.py` was changed"),
    ("program", |folder| set_mode(&folder.join("run.sh"), 0o755), "`run.sh` was changed"),
    ("gone", |folder| fs::remove_file(folder.join("run.sh")).unwrap(), "`run.sh` is gone"),
    ("new", |folder| fs::write(folder.join("lib/y.py"), "").unwrap(), "`lib/y.py` is new"),
    ("folder", |folder| fs::create_dir(folder.join("new")).unwrap(), "`new` is new"),
    (
        "link",
        |folder| {
            fs::remove_file(folder.join("run.sh")).unwrap();
            symlink("/bin/sh", folder.join("run.sh")).unwrap();
        },
        "neither a file nor a folder",
    ),
    (
        "kind",
        |folder| {
            fs::remove_file(folder.join("run.sh")).unwrap();
            fs::create_dir(folder.join("run.sh")).unwrap();
        },
        "`run.sh` was changed",
    ),
    (
        "replaced",
        |folder| {
            fs::write(folder.join("other"), "two").unwrap();
            fs::rename(folder.join("other"), folder.join("run.sh")).unwrap();
        },
        "`run.sh` was changed",
    ),
    (
        "times set back",
        |folder| {
            let file = folder.join("run.sh");
            let before = fs::metadata(&file).unwrap().modified().unwrap();
            fs::write(&file, "two").unwrap();
            File::options().write(true).open(&file).unwrap().set_modified(before).unwrap();
        },
        "`run.sh` was changed",
    ),
    (
        "manifest",
        |folder| fs::write(folder.join("toolpack.json"), r#"{"id": "b"}"#).unwrap(),
        "`toolpack.json` was changed",
    ),
];

#[test]
fn every_change_of_content_is_noticed() {
    for (name, change, words) in CHANGES {
        let folder = pack();
        let loaded_files = LoadedFiles::new(folder.path()).unwrap();
        assert_eq!(loaded_files.check(), Ok(()), "{name}");
        change(folder.path());
        let reason = loaded_files.check().unwrap_err();
        assert!(reason.contains(words) && reason.contains("install it again"), "{name}: {reason}");
    }
}

#[test]
fn what_changes_no_content_is_let_pass() {
    let folder = pack();
    let loaded_files = LoadedFiles::new(folder.path()).unwrap();
    let script = folder.path().join("run.sh");
    File::options()
        .write(true)
        .open(&script)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(loaded_files.check(), Ok(()), "another time");
    set_mode(&script, 0o600);
    assert_eq!(loaded_files.check(), Ok(()), "another mode");
    fs::copy(&script, folder.path().join("lib/copy")).unwrap();
    fs::rename(folder.path().join("lib/copy"), &script).unwrap();
    assert_eq!(loaded_files.check(), Ok(()), "another file with the same content");
    fs::write(folder.path().join("toolpack.json"), r#"{"enabled":true,  "id":"a"}"#).unwrap();
    assert_eq!(loaded_files.check(), Ok(()), "the operator's switch");
}

#[test]
fn a_broken_seal_stays_broken_and_is_told_once() {
    let folder = pack();
    let loaded_files = LoadedFiles::new(folder.path()).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    loaded_files.when_changed(move |how| told.lock().push(how.to_owned()));
    assert!(loaded_files.check().is_ok() && heard.lock().is_empty());
    fs::write(folder.path().join("run.sh"), "two").unwrap();
    assert!(loaded_files.check().is_err());
    fs::write(folder.path().join("run.sh"), "one").unwrap();
    assert!(loaded_files.check().is_err(), "nobody knows what ran in between");
    assert_eq!(*heard.lock(), ["`run.sh` was changed"]);
}

#[test]
fn what_no_pack_has_is_refused() {
    let folder = pack();
    symlink("run.sh", folder.path().join("link")).unwrap();
    assert!(LoadedFiles::new(folder.path()).is_err_and(|reason| reason.contains("neither")));
    assert!(LoadedFiles::new(Path::new("/no/such")).is_err());
}

/// Errors of the machine, and whether the file is another for it.
const ERRORS: [(Errno, bool); 9] = [
    (Errno::MFILE, false),
    (Errno::NFILE, false),
    (Errno::NOMEM, false),
    (Errno::IO, false),
    (Errno::ACCESS, false),
    (Errno::NOENT, true),
    (Errno::NOTDIR, true),
    (Errno::LOOP, true),
    (Errno::NXIO, true),
];

#[test]
fn an_error_that_may_pass_refuses_one_start() {
    for (error, is_change) in ERRORS {
        let folder = pack();
        let loaded_files = LoadedFiles::new(folder.path()).unwrap();
        let heard = Arc::new(Mutex::new(0));
        let told = Arc::clone(&heard);
        loaded_files.when_changed(move |_| *told.lock() += 1);
        let fault = Fault::of(Path::new("run.sh"), io::Error::from(error));
        let judged = loaded_files.judge(Err(fault));
        assert_eq!(loaded_files.is_changed(), is_change, "{error}");
        assert_eq!(*heard.lock(), i32::from(is_change), "{error}");
        assert_eq!(loaded_files.check().is_ok(), !is_change, "{error}");
        if !is_change {
            let words = judged.unwrap_err();
            assert!(words.contains("`run.sh` can't be read: "), "{words}");
            assert!(words.ends_with("; try again") && !words.contains("was changed"), "{words}");
        }
    }
}

#[test]
fn a_file_that_fails_while_it_is_read_was_not_changed() {
    let folder = pack();
    let any = marks(folder.path()).unwrap()[Path::new("run.sh")];
    // Nothing is at the beginning of a program's memory.
    let failed = content(Path::new("/proc/self"), Path::new("mem"), any);
    assert!(matches!(failed, Err(Fault::Unread { .. })), "{failed:?}");
}

#[test]
fn a_file_that_is_swapped_before_it_is_opened_is_not_waited_for() {
    let folder = pack();
    let (name, file) = (Path::new("run.sh"), folder.path().join("run.sh"));
    let before = marks(folder.path()).unwrap()[name];
    let swaps: [Change; 4] = [
        |file| mknodat(CWD, file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        |file| symlink("/bin/sh", file).unwrap(),
        |file| drop(std::os::unix::net::UnixListener::bind(file).unwrap()),
        |_| {},
    ];
    for swap in swaps {
        fs::remove_file(&file).ok();
        swap(&file);
        let found = content(folder.path(), name, before);
        assert!(matches!(found, Err(Fault::Changed(_))), "{found:?}");
    }
}
