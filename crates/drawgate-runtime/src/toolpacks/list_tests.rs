use super::*;
use crate::toolpacks::testing::TestFolder;

/// What the machine says of a file, and whether that file is another for it.
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
fn what_could_not_be_read_was_not_changed() {
    for (error, is_change) in ERRORS {
        let path = Path::new("/packs/own/run.sh");
        let failed = ToolpackError::io("read", path)(io::Error::from(error));
        let integrity = judge(Err(failed), "sha256:1");
        assert_eq!(matches!(integrity, Integrity::Changed(_)), is_change, "{error}: {integrity:?}");
        let words = integrity.to_string();
        assert!(words.contains("`/packs/own/run.sh`"), "{words}");
        assert_eq!(words.contains("was changed"), is_change, "{words}");
        if !is_change {
            let words = format!("`/packs/own/run.sh` can't be read: {}", io::Error::from(error));
            assert!(integrity.to_string().ends_with(&words), "{integrity}");
        }
    }
}

#[test]
fn what_no_pack_may_hold_is_a_change() {
    let rejected = ToolpackError::rejected(Code::Link, "`x` is a link");
    assert_eq!(judge(Err(rejected), ""), changed("`x` is a link"));
}

#[test]
fn a_name_that_an_earlier_version_took_is_not_called_a_change() {
    for name in ["data/what?.md", "data/aux.js"] {
        let fixture = TestFolder::new();
        fixture.install("1.0.0");
        fs::write(fixture.folder.path().join("pack").join(name), "").unwrap();
        let pack = fixture.folder.list().unwrap().remove(0);
        let words = pack.integrity.to_string();
        assert!(words.starts_with("holds a name that this version refuses: "), "{words}");
        assert!(words.contains(&format!("`{name}`")), "{words}");
        assert!(words.ends_with("ask its author to rename it"), "{words}");
        // It counts as one, since it may have been put there.
        assert!(matches!(pack.integrity, Integrity::Changed(_)) && !pack.is_loadable(), "{pack:?}");
    }
}

#[test]
fn a_folder_that_can_not_be_looked_at_is_not_missing() {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let entry = fixture.folder.list().unwrap().remove(0).entry;
    // No name on this machine is so long.
    let place = Path::new("/").join("x".repeat(1000));
    let integrity = integrity(&place, entry.as_ref());
    assert!(
        matches!(&integrity, Integrity::Unread(unread) if unread.path == place),
        "{integrity:?}"
    );
}
