//! Other programs that look into the databases of a running gateway: the real `sqlite3`, at any moment.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Command;

use rustix::process::{Flock, FlockType, fcntl_getlk};
use serde_json::json;

use crate::load::{Client, events, fixture, offers};
use crate::support::{Gateway, TestFolder, text};

const DATABASES: [&str; 2] = ["drawgate.db", "audit.db"];
/// Where each connection in WAL mode has a lock for as long as it is open: on the database, so that no
/// other process that leaves takes itself for the last one and removes the WAL, and on the shared memory.
const LOCKED: [(&str, u64, u64); 2] = [("", 0x4000_0002, 510), ("-shm", 128, 1)];

/// Fails unless the gateway has its locks on both databases.
#[track_caller]
fn check_locks(place: &TestFolder, gateway: &Gateway, after: &str) {
    for database in DATABASES {
        for (suffix, start, length) in LOCKED {
            let file = File::open(place.data().join(format!("{database}{suffix}"))).unwrap();
            let lock = Flock { start, length, ..Flock::from(FlockType::WriteLock) };
            let holder = fcntl_getlk(&file, &lock).unwrap().and_then(|found| found.pid);
            let holder = holder.map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
            assert_eq!(holder, Some(gateway.child.id()), "{database}{suffix} after {after}");
        }
    }
}

/// Has `sqlite3` do something in each database.
#[track_caller]
fn visit(place: &TestFolder, statement: &str) {
    for database in DATABASES {
        let file = place.data().join(database);
        let output = Command::new("sqlite3").arg(&file).arg(statement).output().unwrap();
        assert!(output.status.success(), "{database}: {}", text(&output.stderr));
    }
}

/// What visitors do: they look, move the WAL as far as they can, and make copies.
const VISITS: [&str; 3] = [
    "SELECT count(*) FROM sqlite_schema",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA integrity_check",
];

/// Reads a file of the data folder by another name, as far as a tool may.
async fn read_by_another_name(place: &TestFolder, gateway: &Gateway, name: &str) {
    let link = place.data().join("workspace/link.txt");
    std::fs::hard_link(place.data().join(name), &link).unwrap();
    let answer = gateway.call(&gateway.token, "vfs_read", json!({ "path": "link.txt" })).await;
    assert_eq!(answer["isError"], true, "{answer}");
    std::fs::remove_file(link).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visitor_at_any_moment_costs_nothing() {
    let place = TestFolder::new(&fixture());
    let mut gateway = place.serve();
    offers(&gateway, "fixture__big").await;
    check_locks(&place, &gateway, "the start");
    let mut client = Client::connect(&gateway.address, &gateway.token).await.unwrap();
    let mut answered = BTreeSet::new();
    place.ok(&["agents", "add", "ann", "--capability", "demo"]);
    let grant = ["grants", "add", "demo.more", "--agent", "ann", "--for", "1h", "--quiet"];
    let grant = place.ok(&grant).trim().to_owned();
    let steps: [(&str, &[&str]); 8] = [
        ("an act", &["agents", "add", "bob", "--capability", "demo"]),
        ("a search", &["audit", "search", "--tool", "*write*"]),
        ("a verification beside", &["audit", "verify", "--artifacts"]),
        ("an export", &["audit", "export"]),
        ("a list of artifacts", &["artifacts", "list"]),
        ("a pruning", &["audit", "prune", "--before", "3", "--yes"]),
        ("an anchor", &["audit", "anchor"]),
        ("a rotated token", &["agents", "rotate", "ann"]),
    ];
    for ((what, args), number) in steps.iter().zip(0..) {
        place.ok(args);
        for call in 0..20 {
            let id = format!("r{number}-{call}");
            client.call(&id, "vfs_write", &json!({ "path": "a", "content": id })).await.unwrap();
            answered.insert(id);
        }
        check_locks(&place, &gateway, what);
        visit(&place, VISITS[number % VISITS.len()]);
        check_locks(&place, &gateway, "a visit");
    }
    client.call("big", "fixture__big", &json!({ "bytes": 1_100_000 })).await.unwrap();
    for name in ["drawgate.db", "audit.db-shm", "audit.db"] {
        read_by_another_name(&place, &gateway, name).await;
    }
    place.configure(&format!("{}[limits]\ntimeout_seconds = 17\n", fixture()));
    place.ok(&["status"]);
    check_locks(&place, &gateway, "everything else");

    place.ok(&["grants", "revoke", &grant]);
    visit(&place, VISITS[0]);
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();
    let gateway = place.serve();
    let found = place.json(&["grants", "list"]);
    assert!(!found.to_string().contains(&grant), "{found}");
    let written: BTreeSet<String> = events(&place)
        .iter()
        .filter(|event| event["kind"] == "outcome")
        .filter_map(|event| event["requestId"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(answered.difference(&written).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(gateway.terminate(), Some(0));
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
}
