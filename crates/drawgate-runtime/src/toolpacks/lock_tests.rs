use super::*;
use crate::toolpacks::testing::{COMMIT, TestFolder};

fn written() -> (TestFolder, String) {
    let fixture = TestFolder::new();
    fixture.install("1.0.0");
    let text = std::fs::read_to_string(fixture.folder.lock_path()).unwrap();
    (fixture, text)
}

#[test]
fn it_says_what_was_installed() {
    let (fixture, text) = written();
    let lock = fixture.folder.lock().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["version"], 2);
    let (id, entry) = lock.first_key_value().unwrap();
    assert_eq!((id.as_str(), entry.version.as_str()), ("pack", "1.0.0"));
    assert!(entry.source.starts_with("path:/"), "{entry:?}");
    assert_eq!(entry.definitions.keys().collect::<Vec<_>>(), ["pack_say"]);
    assert_eq!(entry.installed_at, "1970-01-01T00:00:00.000Z");
}

#[test]
fn a_file_that_is_not_wholly_understood_is_refused() {
    let (fixture, text) = written();
    let hash = fixture.folder.lock().unwrap().into_values().next().unwrap().content_hash;
    for (what, bad) in [
        ("empty", String::new()),
        ("cut", text[..text.len() / 2].to_owned()),
        ("another format", text.replace("\"version\": 2", "\"version\": 3")),
        ("a strange id", text.replace("\"pack\":", "\"../pack\":")),
        ("a strange member", text.replace("\"version\": \"", "\"x\": 1, \"version\": \"")),
        ("a member twice", text.replace("\"version\": \"", "\"version\": \"0\", \"version\": \"")),
        ("no hash", text.replace(&hash, "sha256:0")),
        (
            "a commit of a folder",
            text.replace("\"source\":", &format!("\"commit\": \"{COMMIT}\", \"source\":")),
        ),
        ("no commit of a repository", text.replace("path:/", "github:/")),
    ] {
        std::fs::write(fixture.folder.lock_path(), &bad).unwrap();
        let error = fixture.folder.list().unwrap_err();
        assert!(matches!(error, ToolpackError::Lock { .. }), "{what}: {error:?}");
        assert!(matches!(fixture.folder.verify(), Err(ToolpackError::Lock { .. })), "{what}");
    }
}
