use std::fs::{self, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use super::*;
use crate::toolpacks::testing::{TestFolder, manifest};

#[test]
fn only_what_a_pack_is_counts() {
    let fixture = TestFolder::new();
    let source = fixture.source("1.0.0");
    let of = |what| hash(&source, what).unwrap();
    let before = of(ManifestScope::Meaning);
    assert!(is_hash(&before), "{before}");

    let words = fs::File::options().write(true).open(source.join("data/words.txt")).unwrap();
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    words.set_times(FileTimes::new().set_modified(past)).unwrap();
    words.set_permissions(Permissions::from_mode(0o600)).unwrap();
    assert_eq!(of(ManifestScope::Meaning), before, "times and the rights of others");

    let bytes = of(ManifestScope::Bytes);
    let off = manifest("1.0.0").replace("true", "false");
    fs::write(source.join("toolpack.json"), off.replace('\n', "\r\n")).unwrap();
    assert_eq!(of(ManifestScope::Meaning), before, "whether it is enabled, and how it is written");
    assert_ne!(of(ManifestScope::Bytes), bytes);
}

#[test]
fn whatever_a_pack_is_counts() {
    let fixture = TestFolder::new();
    let source = fixture.source("1.0.0");
    let mut seen = vec![hash(&source, ManifestScope::Meaning).unwrap()];
    let changes: [(&str, &dyn Fn()); 7] = [
        ("a byte", &|| fs::write(source.join("data/words.txt"), "other").unwrap()),
        ("a program", &|| {
            fs::set_permissions(source.join("data/words.txt"), Permissions::from_mode(0o744))
                .unwrap();
        }),
        ("a name", &|| fs::rename(source.join("data/words.txt"), source.join("data/x")).unwrap()),
        ("a place", &|| fs::rename(source.join("data/x"), source.join("x")).unwrap()),
        ("a folder", &|| fs::create_dir(source.join("empty")).unwrap()),
        ("a manifest", &|| fs::write(source.join("toolpack.json"), manifest("1.0.1")).unwrap()),
        ("no manifest", &|| fs::write(source.join("toolpack.json"), "no JSON").unwrap()),
    ];
    for (what, change) in changes {
        change();
        let hash = hash(&source, ManifestScope::Meaning).unwrap();
        assert!(!seen.contains(&hash), "{what}");
        seen.push(hash);
    }
}
