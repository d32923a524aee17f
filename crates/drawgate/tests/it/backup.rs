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
