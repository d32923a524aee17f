//! Copies of the data folder, made beside a running gateway, and their way back.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::load::{Load, events, fixture, offers};
use crate::support::{TestFolder, text};

/// The request ids that a folder's log has outcomes for.
fn outcomes(place: &TestFolder) -> BTreeSet<String> {
    let events = events(place);
    let outcomes = events.iter().filter(|event| event["kind"] == "outcome");
    outcomes.filter_map(|event| event["requestId"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_restored_whole() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    offers(&gateway, "fixture__big").await;
    place.ok(&["agents", "add", "ann", "--capability", "demo"]);
    let before = Load::start(&gateway, "before", 2);
    gateway.call(&gateway.token, "fixture__big", json!({ "bytes": 1_100_000 })).await;
    let before = before.finish().await;
    let during = Load::start(&gateway, "during", 4);
    let done = place.json(&["backup", "copy"]);
    during.finish().await;
    place.ok(&["agents", "add", "later", "--capability", "demo"]);
    let copy = place.path().join("copy");
    assert_eq!(done["folder"], json!(copy.canonicalize().unwrap()), "{done}");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o700);
    let beside = std::fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().file_name());
    assert!(!beside.into_iter().any(|it| it.to_string_lossy().starts_with(".copy")));
    let verified = place.ok(&["audit", "verify", "--artifacts", "--data", "copy"]);
    assert!(verified.starts_with("intact"), "{verified}");
    assert_eq!(events(&place).iter().filter(|it| it["kind"] == "backup_started").count(), 1);

    let other = TestFolder::new(&fixture());
    let said = other.ok(&["restore", copy.to_str().unwrap()]);
    assert!(said.contains("verified"), "{said}");
    let restored = other.serve();
    offers(&restored, "vfs_write").await;
    assert!(!other.log().contains("ERROR"), "{}", other.log());
    assert_eq!(restored.token, gateway.token);
    let agents = other.json(&["agents", "list"]).to_string();
    assert!(agents.contains("ann") && !agents.contains("later"), "{agents}");
    assert_eq!(other.json(&["artifacts", "list"]).as_array().unwrap().len(), 1);
    let found = outcomes(&other);
    let missing: Vec<_> = before.iter().filter(|id| !found.contains(*id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let read = restored.call(&restored.token, "vfs_read", json!({ "path": "0.txt" })).await;
    assert_ne!(read["isError"], true, "{read}");
    assert_eq!(restored.terminate(), Some(0));
    assert!(other.ok(&["audit", "verify"]).starts_with("intact"));
}

#[tokio::test]
async fn what_can_not_be_copied_or_put_back_changes_nothing() {
    let place = TestFolder::new("");
    let refused = |args: &[&str], word: &str| {
        let output = place.run(args);
        assert!(!output.status.success(), "{args:?}");
        let said = text(&output.stderr);
        assert!(said.contains(word), "{args:?}: {said}");
    };
    refused(&["backup", "copy"], "no gateway has run on it yet");
    assert!(!place.data().exists());
    place.ok(&["agents", "add", "ann", "--capability", "demo"]);

    // Without a gateway the command makes the copy itself.
    std::fs::create_dir(place.path().join("copy")).unwrap();
    place.ok(&["backup", "copy"]);
    refused(&["backup", "copy"], "is not empty");
    refused(&["backup", ".drawgate/workspace/copy"], "is in the folder that is to be copied");
    refused(&["backup", "no/such/folder"], "No such file or directory");
    refused(&["restore", "copy"], "is not empty");
    let gateway = place.serve();
    refused(&["restore", "copy"], "a gateway runs on");
    assert_eq!(gateway.terminate(), Some(0));

    let database = |name: &str| rusqlite::Connection::open(place.path().join(name)).unwrap();
    let changed = "UPDATE event SET body = replace(body, 'ann', 'eve')";
    database("copy/audit.db").execute_batch(changed).unwrap();
    refused(&["restore", "copy", "--data", "elsewhere"], "does not verify");
    refused(&["restore", "empty", "--data", "elsewhere"], "there is no data folder");
    let left = |name: &str| Path::exists(&place.path().join(name));
    assert!(!left("elsewhere") && !left("no"));
    let names: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
    assert!(
        names.iter().all(|it| !it
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".elsewhere"))
    );
}

#[test]
fn a_copy_without_a_key_or_with_something_else_in_its_place_is_said() {
    let place = TestFolder::new("");
    place.ok(&["agents", "add", "ann", "--capability", "demo"]);
    for name in ["audit.key", "sealing.key"] {
        place.ok(&["backup", name]);
        std::fs::remove_file(place.path().join(name).join(name)).unwrap();
        let to = format!("restored-{name}");
        let output = place.run(&["restore", name, "--data", &to]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(name), "{name}: {said}");
        assert!(said.contains("no gateway starts on"), "{name}: {said}");
        assert!(place.path().join(to).join("drawgate.db").exists(), "what there is is put back");
    }
    let mode = rustix::fs::Mode::RUSR;
    for kind in ["pipe", "link"] {
        for name in ["admin.token", "sealing.key", "audit.head", "audit.db"] {
            let copy = format!("{kind}-{name}");
            place.ok(&["backup", &copy]);
            let file = place.path().join(&copy).join(name);
            drop(std::fs::remove_file(&file));
            match kind {
                "pipe" => rustix::fs::mkfifoat(rustix::fs::CWD, &file, mode).unwrap(),
                _ => std::os::unix::fs::symlink("/etc/passwd", &file).unwrap(),
            }
            let to = format!("from-{copy}");
            let output = place.run(&["restore", &copy, "--data", &to]);
            let said = text(&output.stderr);
            assert!(!output.status.success() && said.contains(name), "{copy}: {said}");
            assert!(!place.path().join(to).exists(), "{copy}");
        }
    }
}

#[tokio::test]
async fn what_programs_do_in_their_folders_does_not_hinder_a_copy() {
    let place = TestFolder::new("");
    place.ok(&["agents", "add", "ann", "--capability", "demo"]);
    let secret = place.path().join("secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("key"), "secret").unwrap();
    let room = place.data().join("servers/x");
    std::fs::create_dir_all(room.join("closed")).unwrap();
    std::fs::create_dir_all(room.join("fixed")).unwrap();
    std::fs::write(room.join("fixed/file"), "kept").unwrap();
    std::fs::write(room.join("hidden"), "hidden").unwrap();
    std::os::unix::fs::symlink(&secret, room.join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(room.join("socket")).unwrap();
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&room.join("closed"), 0o000);
    set(&room.join("hidden"), 0o000);
    set(&room.join("fixed"), 0o555);
    place.ok(&["backup", "copy"]);
    let copy = place.path().join("copy/servers/x");
    assert_eq!(std::fs::read_link(copy.join("link")).unwrap(), secret);
    assert_eq!(std::fs::read_to_string(copy.join("fixed/file")).unwrap(), "kept");
    let fixed = std::fs::metadata(copy.join("fixed")).unwrap().permissions().mode();
    assert_eq!(fixed & 0o777, 0o555);
    assert!(!copy.join("socket").exists());

    // A copy that is not kept is removed, whatever its modes.
    let database = rusqlite::Connection::open(place.data().join("audit.db")).unwrap();
    database.execute_batch("UPDATE event SET body = replace(body, 'ann', 'eve')").unwrap();
    drop(database);
    assert!(!place.run(&["backup", "other"]).status.success());
    let beside = std::fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().file_name());
    assert!(!beside.into_iter().any(|it| it.to_string_lossy().contains("other")));
    for folder in [&room, &copy] {
        set(&folder.join("fixed"), 0o755);
    }
    set(&room.join("closed"), 0o755);
}

/// No folder can take the place of a mount point, such as the volume of a container.
#[test]
#[expect(clippy::disallowed_methods, reason = "tests start the program itself")]
fn a_copy_goes_to_a_mount_point_and_back() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped, since it needs root");
        return;
    }
    let place = TestFolder::new("");
    place.ok(&["tools", "call", "vfs_write", "path=a", "content=kept"]);
    for folder in ["copy", "again"] {
        std::fs::create_dir(place.path().join(folder)).unwrap();
    }
    let script = "mount -t tmpfs none copy; mount -t tmpfs -o mode=700 none again
        $PROGRAM backup copy >&2; ! $PROGRAM backup copy
        $PROGRAM --data again restore copy >&2; $PROGRAM --data again audit verify
        cat again/workspace/a; stat -c %a copy again; ls -A again | grep -c '^[.]again' || true";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script]).current_dir(place.path());
    command.env("PROGRAM", crate::support::PROGRAM).env("HOME", place.path());
    command.env("DRAWGATE_CONFIG", "drawgate.toml");
    let output = command.output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.starts_with("intact") && said.ends_with("kept700\n700\n0\n"), "{said}{errors}");
    assert!(errors.contains("is not empty"), "{errors}");
}
