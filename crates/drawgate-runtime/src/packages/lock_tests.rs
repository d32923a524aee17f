use serde_json::json;

use super::*;

fn npm() -> PinnedPackage {
    PinnedPackage {
        request: PackageRequest {
            ecosystem: Ecosystem::Npm,
            packages: vec!["server".to_owned()],
            program: None,
            python: None,
            options: Vec::new(),
        },
        pins: Pins::Npm {
            manifest: json!({ "private": true }),
            lock: json!({ "packages": {
                "": {},
                "node_modules/server": { "version": "1.0.0", "integrity": "sha512-a" },
                "node_modules/server/node_modules/@s/part": { "version": "2.0.0", "integrity": "sha512-b" },
                "node_modules/server/node_modules/inner": { "version": "3.0.0", "inBundle": true },
            } }),
        },
        tree: "t1".to_owned(),
        program: "node_modules/.bin/server".to_owned(),
        content_hash: "sha256:0".to_owned(),
    }
}

#[test]
fn a_lock_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = PackageLock::path(&folder.path().join("drawgate.toml"));
    assert_eq!(path, folder.path().join("drawgate.lock"));
    assert_eq!(PackageLock::read(&path), PackageLock::default());
    let servers = BTreeMap::from([(SourceId::new("a").unwrap(), npm())]);
    let hash = PackageLock::edit(&path, |all| all.clone_from(&servers)).unwrap();
    let read = PackageLock::read(&path);
    assert_eq!(read.hash, hash);
    assert_eq!((&read.servers, read.problem.as_deref()), (&servers, None));
    assert_eq!(read.hash.len(), 64);
    for bad in
        ["", "{}", "{\"version\":3,\"servers\":{}}", "{\"version\":1,\"servers\":{},\"x\":1}"]
    {
        std::fs::write(&path, bad).unwrap();
        let read = PackageLock::read(&path);
        let problem = read.problem.unwrap();
        assert!(problem.contains("drawgate.lock"), "{bad}: {problem}");
        assert!(read.servers.is_empty() && !read.hash.is_empty());
    }
    std::fs::remove_file(&path).unwrap();
    let hash = PackageLock::edit(&path, |all| all.clone_from(&servers)).unwrap();
    assert_eq!(PackageLock::edit(&path, BTreeMap::clear).unwrap(), "", "as without a file");
    assert_ne!(hash, "");
}

/// What could not be read again is not written, and what is too large is not read.
#[test]
fn a_lock_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK_FILE);
    let with = |pins: Pins| {
        BTreeMap::from([(SourceId::new("a").unwrap(), PinnedPackage { pins, ..npm() })])
    };
    let long = Pins::Python { requirements: "x".repeat(16 << 20) };
    let many = Pins::Npm { manifest: json!({}), lock: json!(vec![0; 1_000_000]) };
    for (pins, reason) in [(long, "may have 16777216 bytes"), (many, "more than 1000000 values")] {
        let servers = with(pins);
        let refused = PackageLock::edit(&path, |all| all.clone_from(&servers)).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
        assert!(!path.exists());
        let file = json!({ "version": 2, "servers": servers });
        std::fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        let read = PackageLock::read(&path);
        let problem = read.problem.unwrap();
        assert!(problem.contains(reason) && read.servers.is_empty(), "{problem}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn names_of_a_lock_stay_in_the_folder_of_packages() {
    assert!(npm().is_sound());
    for tree in ["", "..", ".", "a/b", "/a"] {
        assert!(!PinnedPackage { tree: tree.to_owned(), ..npm() }.is_sound(), "{tree}");
    }
    for program in ["", "../x", "/bin/sh", "a/../../x"] {
        assert!(!PinnedPackage { program: program.to_owned(), ..npm() }.is_sound(), "{program}");
    }
}

#[test]
fn pins_are_versions_with_hashes() {
    let told = |pins: &Pins| {
        let line = |pin: Pin| format!("{} {} {}", pin.name, pin.version, pin.integrity.join(","));
        pins.list().into_iter().map(line).collect::<Vec<_>>()
    };
    let pins = npm().pins;
    assert_eq!(told(&pins), ["@s/part 2.0.0 sha512-b", "server 1.0.0 sha512-a"]);
    assert_eq!(pins.without_integrity(), None);
    let requirements =
        "# made\nb==2 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\na==1 --hash=sha256:3\n";
    let pins = Pins::Python { requirements: requirements.to_owned() };
    assert_eq!(told(&pins), ["a 1 sha256:3", "b 2 sha256:1,sha256:2"]);
    let pins = Pins::Python { requirements: "a==1\n".to_owned() };
    assert_eq!(pins.without_integrity().as_deref(), Some("a"));
}
