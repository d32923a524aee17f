//! Files of a data folder that are lost: under a running gateway, and between two of its runs.

use http::{Method, StatusCode};
use serde_json::json;

use crate::load::offers;
use crate::support::{Gateway, TestFolder, eventually, text};

async fn call(gateway: &Gateway) -> serde_json::Value {
    gateway.call(&gateway.token, "vfs_write", json!({ "path": "a", "content": "b" })).await
}

/// The gateway, ready for calls.
async fn serve(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    gateway
}

/// What `serve` says before it gives up.
fn refused(place: &TestFolder) -> String {
    let output = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(!output.status.success());
    text(&output.stderr)
}

#[tokio::test]
async fn files_that_are_lost_are_told_and_close_the_gate() {
    let place = TestFolder::new("");
    let gateway = serve(&place).await;
    place.ok(&["agents", "add", "ann", "--capability", "demo"]);
    assert_ne!(call(&gateway).await["isError"], true);
    assert_eq!(gateway.terminate(), Some(0));
    for name in ["drawgate.db-wal", "audit.db-wal"] {
        let left = std::fs::metadata(place.data().join(name)).map_or(0, |wal| wal.len());
        assert_eq!(left, 0, "a clean stop leaves everything in the databases: {name}");
    }

    let mut gateway = serve(&place).await;
    std::fs::remove_file(place.data().join("drawgate.db")).unwrap();
    eventually("the gate closes", async || (call(&gateway).await["isError"] == true).then_some(()))
        .await;
    assert!(!place.run(&["agents", "add", "bob", "--capability", "demo"]).status.success());
    let ready = gateway.send(Method::GET, "/readyz", &[], "").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(place.log().contains("drawgate.db` was removed or replaced"), "{}", place.log());
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();

    // A log with a new state.
    for name in ["drawgate.db-wal", "drawgate.db-shm"] {
        drop(std::fs::remove_file(place.data().join(name)));
    }
    let gateway = serve(&place).await;
    assert!(place.log().contains("of an earlier time than the audit log"), "{}", place.log());
    let tail = place.run(&["audit", "tail"]);
    assert!(text(&tail.stderr).contains("restore a backup"), "{}", text(&tail.stderr));
    assert!(text(&tail.stdout).contains("THE STATE WAS SET BACK"), "{}", text(&tail.stdout));
    assert_eq!(gateway.terminate(), Some(0));

    for (key, word) in [("sealing.key", "od -An"), ("audit.key", "move all `audit.*` files")] {
        let (file, away) = (place.data().join(key), place.path().join(key));
        std::fs::rename(&file, &away).unwrap();
        let said = refused(&place);
        assert!(
            said.contains(key) && said.contains("from a backup") && said.contains(word),
            "{said}"
        );
        assert!(!file.exists(), "{key} was made again");
        std::fs::rename(away, file).unwrap();
    }
    assert_eq!(serve(&place).await.terminate(), Some(0));
}

/// The gateway's own files, with what a start says where one is something else. The head is written anew.
const OWN: [(&str, &str); 9] = [
    ("admin.token", "not a regular file"),
    ("approvals.key", "not a regular file"),
    ("sealing.key", "not a regular file"),
    ("audit.key", "not a regular file"),
    ("audit.pub", "not a regular file"),
    ("audit.db", "not a regular file"),
    ("drawgate.db", "not a regular file"),
    ("writable.jsonl", "not a regular file"),
    ("audit.head", ""),
];

#[test]
fn a_link_or_a_pipe_in_place_of_an_own_file_is_neither_followed_nor_waited_for() {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let call = ["tools", "call", "vfs_write", "path=a", "content=b"];
    for (name, says) in OWN {
        for kind in ["link", "dangling link", "pipe"] {
            let place = TestFolder::new("");
            place.ok(&call);
            let (file, victim) = (place.data().join(name), place.path().join("victim"));
            drop(std::fs::remove_file(&file));
            match kind {
                "pipe" => rustix::fs::mkfifoat(rustix::fs::CWD, &file, mode).unwrap(),
                kind => {
                    if kind == "link" {
                        std::fs::write(&victim, "theirs").unwrap();
                    }
                    std::os::unix::fs::symlink(&victim, &file).unwrap();
                }
            }
            let output = place.run(&call);
            let said = text(&output.stderr);
            // A key behind a link that leads nowhere is missed like one that was removed.
            let is_missed = kind == "dangling link" && said.contains("is missing");
            assert!(said.contains(says) || is_missed, "{name}, {kind}: {said}");
            assert_eq!(output.status.success(), says.is_empty(), "{name}, {kind}: {said}");
            let left = std::fs::read_to_string(&victim).ok();
            let theirs = (kind == "link").then(|| "theirs".to_owned());
            assert_eq!(left, theirs, "{name}, {kind}");
        }
    }
}

#[test]
fn a_pipe_beside_the_configuration_is_not_waited_for() {
    for name in ["toolpacks.lock", "drawgate.lock"] {
        let place = TestFolder::new("");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, place.path().join(name), mode).unwrap();
        for args in [&["status"][..], &["config", "check"], &["tools", "list"]] {
            // That it ends is what is tested.
            let _ended = place.run(args);
        }
    }
}
