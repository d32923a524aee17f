//! The audit log after mixed calls, after tampering, and while it is written.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::load::{Client, Load, events, fixture, offers};
use crate::support::{TestFolder, eventually, text};

const POLICY: &str = "[[policy.rules]]\nid = \"no-deletes\"\naction = \"*\"\n\
    when = { toolId = \"builtin:vfs_delete\" }\ndecision = \"deny\"\n\
    [policy.defaults]\nfallback = \"allow\"\n[limits]\nmax_output_bytes = 4096\n";

/// A data folder with a thousand mixed calls in its log, and no gateway.
async fn thousand_calls() -> TestFolder {
    let place = TestFolder::new(&format!("{POLICY}{}", fixture()));
    let gateway = Arc::new(place.serve());
    offers(&gateway, "fixture__echo").await;
    let clients = (0..10).map(|client| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { mixed(&gateway.address, &gateway.token, client).await })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(Arc::into_inner(gateway).unwrap().terminate(), Some(0));
    place
}

async fn mixed(address: &str, token: &str, client: usize) {
    let mut connection = Client::connect(address, token).await.unwrap();
    for count in 0..100 {
        let path = format!("{client}.txt");
        let (tool, arguments) = match count % 10 {
            0..=2 => ("vfs_write", json!({ "path": path, "content": "x".repeat(count) })),
            3 => ("vfs_read", json!({ "path": path })),
            4 => ("vfs_write", json!({ "path": 7 })),
            5 => ("no_such_tool", json!({})),
            6 => ("vfs_delete", json!({ "path": path })),
            7 => ("fixture__fail", json!({ "n": count })),
            8 => ("fixture__refuse", json!({ "n": count })),
            _ => ("fixture__big", json!({ "bytes": 5000 + count })),
        };
        connection.call(&format!("m{client}-{count}"), tool, &arguments).await.unwrap();
    }
}

/// `audit verify` on a folder: its exit code and its report.
fn verify(place: &TestFolder, data: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let mut args = vec!["audit", "verify", "--json", "--data", data.to_str().unwrap()];
    args.extend_from_slice(more);
    let output = place.run(&args);
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

/// Verifies a copy of the folder after a change to its database, which must be noticed.
#[track_caller]
fn check_tampered(place: &TestFolder, name: &str, sql: &str, first_bad: u64) {
    let data = copy(place, name);
    let database = Connection::open(data.join("audit.db")).unwrap();
    database.execute_batch(sql).unwrap();
    drop(database);
    let (code, report) = verify(place, &data, &[]);
    assert_eq!(code, Some(2), "{name}: {report}");
    assert_eq!(report["firstBad"]["sequence"], first_bad, "{name}: {report}");
    let human = place.run(&["audit", "verify", "--data", data.to_str().unwrap()]);
    assert!(text(&human.stdout).starts_with(&format!("tampered: event {first_bad}: ")), "{name}");
}

fn copy(place: &TestFolder, name: &str) -> std::path::PathBuf {
    let data = place.path().join(name);
    copy_folder(&place.data(), &data);
    data
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_mixed_calls_and_every_kind_of_tampering() {
    let place = thousand_calls().await;
    let (code, report) = verify(&place, &place.data(), &["--artifacts"]);
    assert_eq!((code, &report["intact"]), (Some(0), &json!(true)), "{report}");
    let all = events(&place);
    let outcomes: Vec<&Value> = all.iter().filter(|event| event["kind"] == "outcome").collect();
    assert_eq!(outcomes.len(), 1000);
    for code in ["INVALID_ARGUMENTS", "RESOURCE_NOT_FOUND", "PERMISSION_DENIED", "EXECUTION_FAILED"]
    {
        assert!(outcomes.iter().any(|event| event["code"] == code), "{code}");
    }
    assert!(outcomes.iter().any(|event| event["artifact"].is_string()));
    let last = all.last().unwrap()["sequence"].as_u64().unwrap();

    let rows = [
        ("edited", "UPDATE event SET body = replace(body, '\"local\"', '\"other\"') WHERE seq = 77".to_owned(), 77),
        ("added", "UPDATE event SET body = replace(body, '{', '{\"x\":1,') WHERE seq = 78".to_owned(), 78),
        ("twice", "UPDATE event SET body = replace(body, '\"kind\"', '\"hash\":1,\"kind\"') WHERE seq = 79".to_owned(), 79),
        ("deleted", "DELETE FROM event WHERE seq = 300".to_owned(), 300),
        ("swapped", "UPDATE event SET seq = -1 WHERE seq = 400; UPDATE event SET seq = 400 WHERE seq = 401;
                     UPDATE event SET seq = 401 WHERE seq = -1".to_owned(), 400),
        ("truncated", format!("DELETE FROM event WHERE seq > {}", last - 5), last),
        ("cut", format!("DELETE FROM event WHERE seq > {0}; DELETE FROM checkpoint WHERE seq > {0}", last - 5), last - 5),
        ("emptied", "DELETE FROM event; DELETE FROM checkpoint".to_owned(), 0),
        ("forged", format!("UPDATE meta SET value = replace(value, '{last}', '{}') WHERE key = 'head'", last - 1), last),
    ];
    for (name, sql, first_bad) in &rows {
        check_tampered(&place, name, sql, *first_bad);
    }
    check_anchors(&place, &all);
    check_artifacts(&place, &outcomes);
    check_exports(&place, &all);
}

fn check_anchors(place: &TestFolder, all: &[Value]) {
    let anchor =
        |event: &Value| format!("{}:{}", event["sequence"], event["hash"].as_str().unwrap());
    let middle = anchor(&all[500]);
    assert_eq!(verify(place, &place.data(), &["--anchor", &middle]).0, Some(0));
    let other = format!("{}:{}", all[500]["sequence"], all[501]["hash"].as_str().unwrap());
    let (code, report) = verify(place, &place.data(), &["--anchor", &other]);
    assert_eq!((code, &report["firstBad"]["sequence"]), (Some(2), &all[500]["sequence"]));
    let wrong = place.run(&["audit", "verify", "--anchor", "latest"]);
    assert!(text(&wrong.stderr).contains("write `SEQUENCE:HASH`"), "{}", text(&wrong.stderr));
    // A folder that was exchanged for a fresh one is intact by itself; only the anchor tells.
    let fresh = TestFolder::new("");
    fresh.make_data(&fresh.data());
    fresh.ok(&["agents", "list"]);
    assert_eq!(verify(&fresh, &fresh.data(), &[]).0, Some(0));
    assert_eq!(verify(&fresh, &fresh.data(), &["--anchor", &middle]).0, Some(2));
}

fn check_artifacts(place: &TestFolder, outcomes: &[&Value]) {
    let hash = outcomes.iter().find_map(|event| event["artifact"].as_str()).unwrap();
    let flipped = copy(place, "flipped");
    let file = find(&flipped, hash);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let removed = copy(place, "removed");
    std::fs::remove_file(find(&removed, hash)).unwrap();
    for data in [flipped, removed] {
        assert_eq!(
            verify(place, &data, &[]).0,
            Some(0),
            "without `--artifacts` the chain alone counts"
        );
        let (code, report) = verify(place, &data, &["--artifacts"]);
        assert_eq!(code, Some(2), "{report}");
        assert!(report["firstBad"]["reason"].as_str().unwrap().contains(hash), "{report}");
    }
}

/// The file whose name ends in a hash, wherever it is.
fn find(folder: &Path, hash: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap().to_str().unwrap().contains(hash) {
                return path;
            }
        }
    }
    panic!("no artifact {hash}")
}

fn check_exports(place: &TestFolder, all: &[Value]) {
    let sequences: Vec<u64> = all.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=all.len() as u64).collect::<Vec<_>>());
    let export = place.ok(&["audit", "export", "--json"]);
    let key = std::fs::read_to_string(place.data().join("audit.pub")).unwrap();
    let lines: Vec<&str> = export.lines().collect();
    let without = |skipped: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != skipped);
        kept.flat_map(|(_, line)| [*line, "\n"]).collect::<String>()
    };
    let cut = format!("{}{}", without(lines.len() - 1), &lines[lines.len() - 1][..20]);
    let cases = [
        (export.clone(), 0),
        (without(50), 2),
        (export.replacen("\"local\"", "\"other\"", 1), 2),
        (cut, 3),
    ];
    let file = place.path().join("export.jsonl");
    for (content, expected) in cases {
        std::fs::write(&file, content).unwrap();
        let args = ["--file", file.to_str().unwrap(), "--key", key.trim()];
        let (code, report) = verify(place, &place.data(), &args);
        assert_eq!(code, Some(expected), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_beside_a_writing_gateway_gives_no_false_alarm() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    let load = Load::start(&gateway, "live", 8);
    let mut seen = 0;
    for _ in 0..30 {
        let (code, report) = verify(&place, &place.data(), &["--artifacts"]);
        assert_eq!(code, Some(0), "{report}");
        let events = report["events"].as_u64().unwrap();
        assert!(events >= seen);
        seen = events;
    }
    let answered = load.finish().await;
    assert!(answered.len() > 30, "nothing was written meanwhile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_under_load_lets_calls_finish() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    offers(&gateway, "fixture__wait").await;
    let (begun, until) = (place.path().join("begun"), place.path().join("until"));
    let arguments = json!({ "begun": begun, "until": until });
    let (address, token) = (gateway.address.clone(), gateway.token.clone());
    let held = tokio::spawn(async move {
        let mut client = Client::connect(&address, &token).await.unwrap();
        client.call("held", "fixture__wait", &arguments).await
    });
    let load = Load::start(&gateway, "drain", 16);
    eventually("a call under way", async || begun.exists().then_some(())).await;
    let ending = tokio::task::spawn_blocking(move || gateway.terminate());
    eventually("it stops", async || place.log().contains("stopping").then_some(())).await;
    std::fs::write(&until, "").unwrap();
    let answer = held.await.unwrap().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "waited");
    assert_eq!(ending.await.unwrap(), Some(0));
    let answered = load.answered().await;
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
    let all = events(&place);
    assert_eq!(all.last().unwrap()["kind"], "log_closed");
    let outcomes: Vec<&str> = all
        .iter()
        .filter(|event| event["kind"] == "outcome")
        .filter_map(|event| event["requestId"].as_str())
        .collect();
    for id in answered.iter().map(String::as_str).chain(["held"]) {
        assert!(outcomes.contains(&id), "{id}");
    }
    // Each call that was begun was also answered: a connection ends between calls, not within one.
    assert_eq!(outcomes.len(), answered.len() + 1);
    assert!(all.iter().all(|event| event["code"] != "UNKNOWN" && event["code"] != "CANCELLED"));
}

#[test]
fn commands_that_only_look_do_not_bury_what_happened() {
    let place = TestFolder::new("");
    place.ok(&["agents", "add", "ada"]);
    for _ in 0..3 {
        place.ok(&["agents", "list"]);
    }
    let kinds = |args: &[&str]| -> Vec<String> {
        let shown = place.ok(args);
        shown.lines().filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect()
    };
    let shown = kinds(&["audit", "tail"]);
    let opened = |kinds: &[String]| kinds.iter().filter(|kind| *kind == "log_opened").count();
    assert!(shown.iter().any(|kind| kind.contains("agent")), "{shown:?}");
    assert_eq!(opened(&shown), 1, "the one in which something happened: {shown:?}");
    assert_eq!(opened(&kinds(&["audit", "tail", "--all"])), 4);
    let events = place.ok(&["audit", "tail", "--json"]);
    assert_eq!(events.matches("\"kind\":\"log_opened\"").count(), 4, "programs get all");
}
