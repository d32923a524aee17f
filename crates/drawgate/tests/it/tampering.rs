//! What someone with the files, but without the key, can do to the audit log, and what `audit verify`
//! says of it, with and without a head that was kept elsewhere.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use drawgate_core::audit::{Checkpoint, PruneRecord, Signer, ZERO_HASH};
use drawgate_core::canonical;
use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::load::{events, offers};
use crate::support::{Gateway, TestFolder, eventually, text};

/// Three states of one installation, as folders.
struct Fixture {
    place: TestFolder,
    /// After its first run.
    older: PathBuf,
    /// After its second run.
    current: PathBuf,
    /// During its third run, killed.
    killed: PathBuf,
    /// `audit anchor` of the second and of the third.
    anchor: String,
    killed_anchor: String,
    key: String,
    /// The newest event of the first and of the second.
    heads: [u64; 2],
}

impl Fixture {
    async fn new() -> Self {
        let place = TestFolder::new("");
        let folder = |name: &str| place.path().join(name);
        let [older, current, killed] = ["older", "current", "killed"].map(folder);
        assert_eq!(run(&place).await.terminate(), Some(0));
        copy(&place.data(), &older);
        assert_eq!(run(&place).await.terminate(), Some(0));
        copy(&place.data(), &current);
        let anchor = place.ok(&["audit", "anchor"]).trim().to_owned();
        let mut gateway = run(&place).await;
        let newest = events(&place).len() as u64;
        eventually("the head outside covers the calls", async || {
            // The record in the database is the later of the two that are kept.
            let state = rusqlite::Connection::open(place.data().join("drawgate.db")).ok()?;
            let sql = "SELECT body FROM document WHERE kind = 'audit_head'";
            let head: String = state.query_row(sql, [], |row| row.get(0)).ok()?;
            let head: Value = serde_json::from_str(&head).ok()?;
            (head["anchor"].as_u64()? >= newest).then_some(())
        })
        .await;
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        copy(&place.data(), &killed);
        let killed_anchor = place.ok(&["audit", "anchor"]).trim().to_owned();
        let key = std::fs::read_to_string(place.data().join("audit.pub")).unwrap();
        let head = |folder: &Path| {
            let database = Connection::open(folder.join("audit.db")).unwrap();
            let sql = "SELECT max(seq) FROM event";
            u64::try_from(database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()).unwrap()
        };
        let heads = [head(&older), head(&current)];
        let key = key.trim().to_owned();
        Self { place, older, current, killed, anchor, killed_anchor, key, heads }
    }

    /// A folder for a row, as it was after the second run.
    fn scene(&self, name: &str) -> PathBuf {
        self.scene_of(&self.current, name)
    }

    fn scene_of(&self, state: &Path, name: &str) -> PathBuf {
        let folder = self.place.path().join("scenes").join(name);
        copy(state, &folder);
        folder
    }

    /// Puts files of the first run into a folder.
    fn set_back(&self, folder: &Path, names: &[&str]) {
        for name in names {
            std::fs::copy(self.older.join(name), folder.join(name)).unwrap();
        }
    }

    /// Opens the folder for writing and closes it again, as a start does.
    fn start(&self, folder: &Path) {
        self.place.make_data(folder);
        self.place.ok(&["agents", "list", "--data", folder.to_str().unwrap()]);
    }

    fn export(&self, folder: &Path) -> Vec<String> {
        let export = self.place.ok(&["audit", "export", "--data", folder.to_str().unwrap()]);
        export.lines().map(str::to_owned).collect()
    }
}

async fn run(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    for count in 0..5 {
        let arguments = json!({ "path": "a.txt", "content": count.to_string() });
        gateway.call(&gateway.token, "vfs_write", arguments).await;
    }
    gateway
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn remove(folder: &Path, names: &[&str]) {
    for name in names {
        drop(std::fs::remove_file(folder.join(name)));
    }
}

const LOG: [&str; 3] = ["audit.db", "audit.db-wal", "audit.db-shm"];

fn sql(folder: &Path, name: &str, statements: &str) {
    Connection::open(folder.join(name)).unwrap().execute_batch(statements).unwrap();
}

/// The events of an export, changed and chained anew, signed by a key of the forger if there is one.
fn forge(lines: &[String], signer: Option<&Signer>) -> Vec<String> {
    let mut forged = Vec::new();
    let (mut prev, mut sequence, mut install) = (ZERO_HASH.to_owned(), 0, String::new());
    for line in lines.iter().filter(|line| !line.starts_with("{\"at\":")) {
        let changed = line.replace("vfs_write", "vfs_read");
        let Value::Object(mut event) = serde_json::from_str(&changed).unwrap() else { panic!() };
        event.shift_remove("hash");
        event.insert("prev".to_owned(), prev.into());
        install = event.get("install").and_then(Value::as_str).map_or(install, str::to_owned);
        prev = canonical::hash(&Value::Object(event.clone()));
        event.insert("hash".to_owned(), prev.clone().into());
        sequence = event["sequence"].as_u64().unwrap();
        forged.push(canonical::to_string(&Value::Object(event)));
    }
    if let Some(signer) = signer {
        let checkpoint = signer.checkpoint(Checkpoint {
            sequence,
            head: prev,
            at: 1,
            install,
            oldest_open: None,
            times: None,
            previous: ZERO_HASH.to_owned(),
            key: String::new(),
            signature: String::new(),
        });
        forged.push(checkpoint.to_json());
    }
    forged
}

/// A row: what was done, what is verified, and what is said, without and with the anchor.
struct Row {
    done: &'static str,
    arguments: Vec<String>,
    alone: (i32, String),
    anchored: (i32, String),
}

struct Table<'a> {
    fixture: &'a Fixture,
    rows: Vec<Row>,
}

impl Table<'_> {
    fn folder(
        &mut self,
        done: &'static str,
        folder: &Path,
        alone: (i32, &str),
        anchored: (i32, &str),
    ) {
        let arguments = vec!["--data".to_owned(), folder.to_str().unwrap().to_owned()];
        self.row(done, arguments, alone, anchored);
    }

    fn file(
        &mut self,
        done: &'static str,
        lines: &[String],
        alone: (i32, &str),
        anchored: (i32, &str),
    ) {
        let path = self.fixture.place.path().join(format!("export-{}.jsonl", self.rows.len()));
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let arguments = ["--file", path, "--key", &self.fixture.key].map(str::to_owned).to_vec();
        self.row(done, arguments, alone, anchored);
    }

    fn row(
        &mut self,
        done: &'static str,
        arguments: Vec<String>,
        alone: (i32, &str),
        anchored: (i32, &str),
    ) {
        let expected = |(code, words): (i32, &str)| (code, self.fixture.words(words));
        let (alone, anchored) = (expected(alone), expected(anchored));
        self.rows.push(Row { done, arguments, alone, anchored });
    }

    /// Runs `audit verify` for every row, prints the table, and compares.
    fn check(&self) {
        let mut wrong = Vec::new();
        eprintln!("| what was done | without an anchor | with an anchor |\n|---|---|---|");
        for Row { done, arguments, alone, anchored } in &self.rows {
            let killed = arguments.iter().any(|argument| argument.contains("killed"));
            let fixture = self.fixture;
            let anchor = if killed { &fixture.killed_anchor } else { &fixture.anchor };
            let found = fixture.verify(arguments, &[]);
            let found_anchored = fixture.verify(arguments, &["--anchor", anchor]);
            let shown =
                |(code, words): &(i32, String)| format!("{code}: {}", fixture.shortened(words));
            eprintln!("| {done} | {} | {} |", shown(&found), shown(&found_anchored));
            if (&found, &found_anchored) != (alone, anchored) {
                wrong.push(format!(
                    "{done}\n  {found:?}\n  {alone:?}\n  {found_anchored:?}\n  {anchored:?}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

impl Fixture {
    /// Exit code and first line of `audit verify`.
    fn verify(&self, arguments: &[String], more: &[&str]) -> (i32, String) {
        let mut args = vec!["audit", "verify"];
        args.extend(arguments.iter().map(String::as_str));
        args.extend_from_slice(more);
        let output = self.place.run(&args);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        (output.status.code().unwrap(), said.lines().next().unwrap_or_default().to_owned())
    }

    /// Fills in what differs from run to run.
    fn words(&self, pattern: &str) -> String {
        let [older, current] = self.heads.map(|head| head.to_string());
        let newest = |anchor: &str| {
            let anchor: Value = serde_json::from_str(anchor).unwrap();
            anchor["anchor"].to_string()
        };
        pattern
            .replace("OLDER+1", &(self.heads[0] + 1).to_string())
            .replace("CURRENT-1", &(self.heads[1] - 1).to_string())
            .replace("OLDER", &older)
            .replace("CURRENT", &current)
            .replace("KILLED", &newest(&self.killed_anchor))
            .replace("KEY", &self.key)
            .replace("OTHER", &Signer::new(&[9; 32]).keys().public_hex())
    }

    fn shortened(&self, words: &str) -> String {
        let folder = self.place.path().to_str().unwrap();
        let other = Signer::new(&[9; 32]).keys().public_hex();
        words.replace(folder, "…").replace(&self.key, &self.key[..8]).replace(&other, &other[..8])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn forged_cut_rolled_back_and_replaced_logs() {
    let fixture = Fixture::new().await;
    let mut table = Table { fixture: &fixture, rows: Vec::new() };
    let intact = (0, "intact: events 1–CURRENT are signed by key KEY");
    let removed = (
        2,
        "tampered: event CURRENT: the log ends at event OLDER, but the anchor is of event CURRENT: events were removed",
    );
    table.folder("nothing", &fixture.scene("nothing"), intact, intact);

    // The log set back.
    let said = (
        2,
        "tampered: event CURRENT: the log ends at event OLDER, but the signed head in `audit.head` is of event CURRENT: events were removed",
    );
    let folder = fixture.scene("database");
    fixture.set_back(&folder, &["audit.db"]);
    table.folder("older copy of `audit.db` put back", &folder, said, removed);
    let folder = fixture.scene("database-head");
    fixture.set_back(&folder, &["audit.db", "audit.head"]);
    let said = (
        2,
        "tampered: event CURRENT: the log ends at event OLDER, but the signed head in `drawgate.db` is of event CURRENT: events were removed",
    );
    table.folder("older copy of `audit.db` and `audit.head`", &folder, said, removed);
    let folder = fixture.scene("database-no-heads");
    fixture.set_back(&folder, &["audit.db"]);
    remove(&folder, &["audit.head"]);
    sql(&folder, "drawgate.db", "DELETE FROM document WHERE kind = 'audit_head'");
    let gone = (
        4,
        "not proved: the signed heads outside the log are gone (`audit.head` and a record in `drawgate.db`), so events may have been removed from its end",
    );
    table.folder("older `audit.db`, both heads outside it removed", &folder, gone, removed);
    let folder = fixture.scene("restarted-no-heads");
    fixture.set_back(&folder, &["audit.db"]);
    remove(&folder, &["audit.head"]);
    sql(&folder, "drawgate.db", "DELETE FROM document WHERE kind = 'audit_head'");
    fixture.start(&folder);
    let gone = (
        4,
        "not proved: at the start that event OLDER+1 records, the signed heads outside the log were gone, so events before it may have been removed",
    );
    let end = fixture.heads[0] + 2;
    let shorter = format!(
        "tampered: event CURRENT: the log ends at event {end}, but the anchor is of event CURRENT: events were removed"
    );
    table.folder("the same, then started again", &folder, gone, (2, &shorter));
    let folder = fixture.scene("restarted");
    fixture.set_back(&folder, &["audit.db"]);
    fixture.start(&folder);
    let said = (
        2,
        "tampered: event OLDER+1: at this start events were missing: the log ended at event OLDER, but a signed head outside it is of event CURRENT",
    );
    table.folder("older copy of `audit.db`, then started again", &folder, said, (2, &shorter));
    let folder = fixture.scene_of(&fixture.older, "whole");
    let older = (0, "intact: events 1–OLDER are signed by key KEY");
    table.folder("older copy of the whole folder", &folder, older, removed);
    let folder = fixture.scene_of(&fixture.killed, "killed");
    std::fs::write(folder.join("audit.db-wal"), "").unwrap();
    let said = (
        2,
        "tampered: event KILLED: the log ends at event CURRENT, but the signed head in `audit.head` is of event KILLED: events were removed",
    );
    let cut = (
        2,
        "tampered: event KILLED: the log ends at event CURRENT, but the anchor is of event KILLED: events were removed",
    );
    table.folder("WAL cut after `kill -9`", &folder, said, cut);

    // The log removed.
    let folder = fixture.scene("removed");
    remove(&folder, &LOG);
    let said = (
        2,
        "tampered: event CURRENT: the log is missing, but the signed head in `drawgate.db` is of event CURRENT",
    );
    table.folder("log removed", &folder, said, said);
    let folder = fixture.scene("removed-restarted");
    remove(&folder, &LOG);
    fixture.start(&folder);
    let said = (
        2,
        "tampered: event 1: at this start the log was missing: a signed head outside it says that there were CURRENT events",
    );
    let anchored = (
        2,
        "tampered: event CURRENT: the log ends at event 2, but the anchor is of event CURRENT: events were removed",
    );
    table.folder("log removed, then started again", &folder, said, anchored);

    // The heads outside the log.
    let folder = fixture.scene("head-removed");
    remove(&folder, &["audit.head"]);
    table.folder("`audit.head` removed", &folder, intact, intact);
    let folder = fixture.scene("head-older");
    fixture.set_back(&folder, &["audit.head"]);
    table.folder("older copy of `audit.head`", &folder, intact, intact);
    let folder = fixture.scene("head-changed");
    let head = std::fs::read_to_string(folder.join("audit.head")).unwrap();
    let changed = head.replace(&format!("\"anchor\":{}", fixture.heads[1]), "\"anchor\":3");
    std::fs::write(folder.join("audit.head"), changed).unwrap();
    let said = (
        2,
        "tampered: event CURRENT: the signed head in `audit.head` was changed: the signature is wrong",
    );
    table.folder("`audit.head` changed", &folder, said, said);

    // The keys.
    let other = Signer::new(&[9; 32]);
    let folder = fixture.scene("public");
    std::fs::write(folder.join("audit.pub"), other.keys().public_hex()).unwrap();
    let path = folder.join("audit.pub");
    let said = format!(
        "tampered: event 0: read the audit key: `{}`: it is not the public key of `audit.key`: one of them was replaced; put the right one back from a backup. If `audit.key` is the right one, move `audit.pub` to another folder, and the next start writes it again",
        path.display()
    );
    table.folder("`audit.pub` replaced", &folder, (2, &said), (2, &said));
    let folder = fixture.scene("keys");
    std::fs::write(folder.join("audit.pub"), other.keys().public_hex()).unwrap();
    std::fs::write(folder.join("audit.key"), hex::encode([9; 32])).unwrap();
    let said =
        format!("tampered: event {0}: checkpoint {0}: signed by an unknown key", fixture.heads[0]);
    table.folder("`audit.key` and `audit.pub` replaced", &folder, (2, &said), (2, &said));
    let fresh = fixture.place.path().join("fresh");
    fixture.start(&fresh);
    let own = std::fs::read_to_string(fresh.join("audit.pub")).unwrap();
    let said = format!("intact: events 1–2 are signed by key {}", own.trim());
    let anchored = (
        2,
        "tampered: event CURRENT: the log ends at event 2, but the anchor is of event CURRENT: events were removed",
    );
    table.folder("another installation in the folder's place", &fresh, (0, &said), anchored);
    let data = ["--data", fresh.to_str().unwrap(), "--key", &fixture.key].map(str::to_owned);
    let said = format!("tampered: event 0: the log is signed by key {}, not by KEY", own.trim());
    table.row("the same, with `--key`", data.to_vec(), (2, &said), anchored);

    // The prune record.
    let folder = fixture.scene("prune-forged");
    let lines = fixture.export(&fixture.current);
    let first: Value = serde_json::from_str(&lines[0]).unwrap();
    let record = PruneRecord {
        sequence: 1,
        head: first["hash"].as_str().unwrap().to_owned(),
        checkpoint: ZERO_HASH.to_owned(),
        install: first["install"].as_str().unwrap().to_owned(),
        at: 1,
    };
    let forged = record.to_signed_json(&other);
    let statements =
        format!("DELETE FROM event WHERE seq = 1; INSERT INTO meta VALUES ('pruned', '{forged}')");
    sql(&folder, "audit.db", &statements);
    let said = (2, "tampered: event 0: prune record: signed by an unknown key");
    table.folder("prune record forged", &folder, said, said);

    // Exports.
    table.file("export, untouched", &lines, intact, intact);
    let bare: Vec<String> =
        lines.iter().filter(|line| !line.starts_with("{\"at\":")).cloned().collect();
    let unsigned = (
        4,
        "not proved: events 1–CURRENT follow one another, but no signature covers any of them: anyone could have written them",
    );
    table.file("export, checkpoints left out", &bare, unsigned, intact);
    let rewritten = (
        2,
        "tampered: event CURRENT: it is not the event that the anchor says: the log was rewritten",
    );
    table.file("export, forged, without checkpoints", &forge(&lines, None), unsigned, rewritten);
    let said = (2, "tampered: event CURRENT: checkpoint CURRENT: signed by an unknown key");
    table.file(
        "export, forged, signed by another key",
        &forge(&lines, Some(&other)),
        said,
        rewritten,
    );
    let older = fixture.export(&fixture.older);
    table.file(
        "export, cut after a checkpoint",
        &older,
        (0, "intact: events 1–OLDER are signed by key KEY"),
        removed,
    );
    let gap = (
        4,
        "not proved: events 1–OLDER are signed by key KEY; events OLDER+1–CURRENT-1 follow in the chain but no signature covers them",
    );
    let cut = (
        2,
        "tampered: event CURRENT: the log ends at event CURRENT-1, but the anchor is of event CURRENT: events were removed",
    );
    table.file("export, cut after an event", &lines[..lines.len() - 2], gap, cut);
    table.file("export, emptied", &[], (4, "not proved: there are no events"), (2, "tampered: event CURRENT: the log ends at event 0, but the anchor is of event CURRENT: events were removed"));
    table.check();
}

#[tokio::test]
async fn a_start_that_finds_events_missing_is_loud() {
    let place = TestFolder::new("");
    assert_eq!(run(&place).await.terminate(), Some(0));
    let older = place.path().join("older");
    copy(&place.data(), &older);
    assert_eq!(run(&place).await.terminate(), Some(0));
    std::fs::copy(older.join("audit.db"), place.data().join("audit.db")).unwrap();
    let words = "events are missing from the audit log";
    let tail = place.run(&["audit", "tail", "-n", "1"]);
    assert!(text(&tail.stderr).contains(words), "before a start: {}", text(&tail.stderr));
    let refused = place.run(&["audit", "anchor"]);
    assert!(text(&refused.stderr).contains(words), "{}", text(&refused.stderr));
    for start in 1..=2 {
        let gateway = place.serve();
        if start == 1 {
            assert!(place.log().contains(words), "{}", place.log());
        }
        assert_eq!(gateway.terminate(), Some(0));
        let tail = place.run(&["audit", "tail", "-n", "1"]);
        assert!(text(&tail.stderr).contains(words), "start {start}: {}", text(&tail.stderr));
        assert_eq!(place.run(&["audit", "verify"]).status.code(), Some(2), "start {start}");
    }
    let all = place.ok(&["audit", "tail", "-n", "1000"]);
    assert!(all.contains("EVENTS WERE MISSING: a signed head is of event"), "{all}");
    // The operator has looked into it, and begins after it.
    let opened = events(&place);
    let found = opened.iter().find(|event| event["lostHead"].is_u64()).unwrap();
    let after = (found["sequence"].as_u64().unwrap() + 1).to_string();
    place.ok(&["audit", "prune", "--before", &after, "--yes"]);
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
    assert_eq!(text(&place.run(&["audit", "tail", "-n", "1"]).stderr), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_go_to_the_system_log_and_to_a_url() {
    let received = Arc::new(Mutex::new(Vec::<String>::new()));
    let into = Arc::clone(&received);
    let keep = move |body: String| async move { into.lock().push(body) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/heads", post(keep));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let place = TestFolder::new("");
    let path = place.path().join("log.sock");
    let syslog = UnixDatagram::bind(&path).unwrap();
    syslog.set_nonblocking(true).unwrap();
    place.configure(&format!(
        "[audit]\nanchor_syslog = \"{}\"\nanchor_url = \"http://{address}/heads\"\n",
        path.display()
    ));
    let datagram = || {
        let mut bytes = [0; 4096];
        let count = syslog.recv(&mut bytes).ok()?;
        let line = text(&bytes[..count]);
        let (_, head) = line.split_once(": audit head ").unwrap();
        assert!(line.starts_with("<85>drawgate["), "{line}");
        Some(head.to_owned())
    };
    let gateway = place.serve();
    let first = eventually("a head at the start", async || datagram()).await;
    offers(&gateway, "vfs_write").await;
    gateway.call(&gateway.token, "vfs_write", json!({ "path": "a", "content": "b" })).await;
    assert_eq!(gateway.terminate(), Some(0));
    let last = datagram().expect("a head at the stop");
    assert_eq!(*received.lock(), [first.clone(), last.clone()]);
    let newest = events(&place).last().unwrap()["sequence"].as_u64().unwrap();
    let head: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(head["anchor"], newest, "{head}");
    // Lines of such a place are anchors as they are, one by one or as a file.
    let file = place.path().join("heads.jsonl");
    std::fs::write(
        &file,
        format!("{first}\n{last}\n{newest}:{}\n", head["head"].as_str().unwrap()),
    )
    .unwrap();
    place.ok(&["audit", "verify", "--anchor", &first, "--anchor", file.to_str().unwrap()]);
    let changed = last.replace(&format!("\"anchor\":{newest}"), "\"anchor\":1");
    let output = place.run(&["audit", "verify", "--anchor", &changed]);
    assert!(text(&output.stderr).contains("the anchor was changed"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn padding_hides_no_arguments() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    let content = format!("{}rm -rf needle {}", "x".repeat(40_000), gateway.token);
    gateway.call(&gateway.token, "vfs_write", json!({ "path": "a", "content": content })).await;
    let all = events(&place);
    let decision = all.iter().find(|event| event["kind"] == "decision").unwrap();
    assert_eq!(decision["inputKept"], true, "{decision}");
    assert!(decision["input"].is_null() && decision["inputBytes"].as_u64() > Some(40_000));
    let sequence = decision["sequence"].to_string();
    let shown = place.json(&["audit", "show", &sequence]);
    let kept = shown["input"]["content"].as_str().unwrap();
    assert!(kept.contains("rm -rf needle"), "{shown}");
    assert!(!kept.contains(&gateway.token), "the payload is redacted");
    assert_eq!(place.json(&["artifacts", "list"]), json!([]), "it is the log's own");
    assert!(place.ok(&["audit", "verify", "--artifacts"]).starts_with("intact"));
    assert_eq!(gateway.terminate(), Some(0));
    let changed = "UPDATE payload SET body = replace(body, 'needle', 'noodle')";
    sql(&place.data(), "audit.db", changed);
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"), "the chain alone");
    let (code, words) =
        (place.run(&["audit", "verify", "--artifacts"]), "kept arguments were changed");
    assert_eq!(code.status.code(), Some(2));
    assert!(text(&code.stdout).contains(words), "{}", text(&code.stdout));
}

#[test]
fn pruning_says_what_goes_and_asks_first() {
    let place = TestFolder::new("");
    for _ in 0..3 {
        place.ok(&["tools", "call", "vfs_list"]);
    }
    let count = events(&place).len();
    let plan = place.ok(&["audit", "prune", "--before", "4", "--dry-run"]);
    assert_eq!(plan, "events 1–3 would go\n");
    let held = place.ok(&["audit", "prune", "--before", "3", "--dry-run"]);
    assert!(held.starts_with("event 1 would go; the events from 2 on stay"), "{held}");
    let asked = place.run(&["audit", "prune", "--before", "4"]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(text(&asked.stderr).contains("say `--yes` if you mean it"), "{}", text(&asked.stderr));
    for before in ["0", "1", "99999"] {
        let refused = place.run(&["audit", "prune", "--before", before, "--yes"]);
        assert_eq!(refused.status.code(), Some(1), "{before}");
        let said = text(&refused.stderr);
        assert!(said.contains("choose a sequence from 2 to"), "{before}: {said}");
    }
    assert_eq!(events(&place).len(), count, "nothing was removed");
    assert_eq!(place.json(&["audit", "prune", "--before", "4", "--yes"])["removed"], 3);
    // A pruned log is exported with what proves it.
    let file = place.path().join("export.jsonl");
    std::fs::write(&file, place.ok(&["audit", "export"])).unwrap();
    let key = std::fs::read_to_string(place.data().join("audit.pub")).unwrap();
    let file = file.to_str().unwrap();
    let said = place.ok(&["audit", "verify", "--file", file, "--key", key.trim()]);
    assert!(said.starts_with("intact: events 4–"), "{said}");
}
