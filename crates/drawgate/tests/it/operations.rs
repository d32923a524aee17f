//! What an operator watches: health, metrics, traces, logs, and a disk that is full.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use axum::routing::post;
use axum::{Json, Router};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::load::{events, fixture, offers};
use crate::support::{Answer, Gateway, TestFolder, eventually, text};

async fn get(gateway: &Gateway, path: &str) -> Answer {
    let bearer = format!("Bearer {}", gateway.token);
    gateway.send(Method::GET, path, &[("authorization", &bearer)], "").await
}

#[tokio::test]
async fn health_readiness_and_metrics() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    offers(&gateway, "fixture__echo").await;
    eventually("readiness", async || {
        (get(&gateway, "/readyz").await.status == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(text(&get(&gateway, "/healthz").await.body), "ok\n");
    for arguments in [json!({}), json!({ "a": 1 })] {
        gateway.call(&gateway.token, "fixture__echo", arguments).await;
    }
    gateway.call(&gateway.token, "fixture__fail", json!({})).await;
    gateway.call(&gateway.token, "vfs_read", json!({ "path": 1 })).await;
    gateway.call(&gateway.token, "no_such_tool", json!({})).await;
    let shown = text(&get(&gateway, "/metrics").await.body);
    let lines = [
        "drawgate_calls_total{tool=\"fixture:echo\",source=\"fixture\",code=\"OK\"} 2",
        "drawgate_calls_total{tool=\"fixture:fail\",source=\"fixture\",code=\"EXECUTION_FAILED\"} 1",
        "drawgate_calls_total{tool=\"builtin:vfs_read\",source=\"builtin\",code=\"INVALID_ARGUMENTS\"} 1",
        "drawgate_call_seconds_count{source=\"fixture\"} 3",
        "drawgate_calls_under_way 0",
        "drawgate_audit_queue 0",
        "drawgate_sources 2",
        "drawgate_tools 15",
        "# TYPE drawgate_call_seconds histogram",
    ];
    for line in lines {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let calls = shown.lines().filter(|line| line.starts_with("drawgate_calls_total"));
    assert_eq!(calls.count(), 3, "what never happened has no series: {shown}");
    assert!(!shown.contains("no_such_tool"), "what callers make up must not become a label");
    // Health is for everybody, numbers are not.
    let bare = async |path: &str| gateway.send(Method::GET, path, &[], "").await.status;
    assert_eq!((bare("/healthz").await, bare("/readyz").await), (StatusCode::OK, StatusCode::OK));
    assert_eq!(bare("/metrics").await, StatusCode::UNAUTHORIZED);
}

/// A collector of traces: its address, and what it has received.
pub(crate) async fn collector() -> (String, Arc<Mutex<Vec<Value>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&received);
    let keep = move |Json(body): Json<Value>| async move {
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        into.lock().extend(spans);
        Json(json!({}))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/v1/traces", post(keep))).await
    });
    (address, received)
}

#[tokio::test]
async fn traces_go_from_the_caller_through_the_gate_to_the_server() {
    let (address, received) = collector().await;
    let place =
        TestFolder::new(&format!("[telemetry]\notlp_endpoint = \"{address}\"\n{}", fixture()));
    let gateway = place.serve();
    offers(&gateway, "fixture__metadata").await;
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let meta = json!({ "traceparent": format!("00-{trace}-{parent}-01"), "tracestate": "a=1" });
    let params = json!({ "name": "fixture__metadata", "arguments": { "token": "not-for-traces" }, "_meta": meta });
    let answer = gateway.rpc(&gateway.token, "tools/call", params).await;
    let seen: Value =
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    let span = eventually("a span", async || received.lock().first().cloned()).await;
    assert_eq!(
        (&span["traceId"], &span["parentSpanId"]),
        (&json!(trace), &json!(parent)),
        "{span}"
    );
    let own = span["spanId"].as_str().unwrap();
    assert_eq!(seen["traceparent"], format!("00-{trace}-{own}-01"), "{seen}");
    assert_eq!(seen["tracestate"], "a=1", "{seen}");
    assert!(!span.to_string().contains("not-for-traces"));
    // A call without a trace of its own begins one.
    gateway.call(&gateway.token, "vfs_list", json!({})).await;
    let second = eventually("another span", async || received.lock().get(1).cloned()).await;
    assert!(second["parentSpanId"].is_null() && second["traceId"] != trace, "{second}");
}

#[tokio::test]
async fn a_collector_that_is_gone_holds_nothing_up() {
    let config = "[telemetry]\notlp_endpoint = \"http://127.0.0.1:9\"\nlog_format = \"json\"\n";
    let place = TestFolder::new(config);
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    let answer = gateway.call(&gateway.token, "vfs_list", json!({})).await;
    assert_ne!(answer["isError"], true, "{answer}");
    eventually("a warning", async || place.log().contains("spans could not be sent").then_some(()))
        .await;
    assert_eq!(gateway.terminate(), Some(0));
    let log = place.log();
    assert!(log.lines().count() >= 3, "{log}");
    for line in log.lines() {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert!(value["level"].is_string() && value["fields"]["message"].is_string(), "{line}");
    }
}

/// A small file system of its own under the data folder.
pub(crate) struct Disk(PathBuf);

impl Disk {
    const BYTES: u64 = 4 * 1024 * 1024;

    /// `None` where this user may not mount.
    pub(crate) fn under(folder: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        let size = format!("size={},mode=0700", Self::BYTES);
        let mounted =
            run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", folder.to_str().unwrap()]);
        if !mounted {
            eprintln!("skipped: a file system can't be mounted here; this test needs root");
        }
        mounted.then(|| Self(folder.to_owned()))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Takes all space that is left.
    pub(crate) fn fill(&self) {
        use std::io::Write;
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        for size in [65_536, 4096, 512, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    pub(crate) fn relieve(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy", self.0.to_str().unwrap()]);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that needs a full disk makes one")]
fn run(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// Fills the disk until the log can't be written, as `/healthz` shows. Calls are made meanwhile,
/// since only an event that finds no space tells. Returns what a call is answered from then on.
async fn until_full(gateway: &Gateway, disk: &Disk, health: &str) -> Value {
    eventually(health, async || {
        disk.fill();
        gateway.call(&gateway.token, "vfs_list", json!({})).await;
        text(&get(gateway, "/healthz").await.body).starts_with(health).then_some(())
    })
    .await;
    gateway.call(&gateway.token, "vfs_list", json!({})).await
}

#[tokio::test]
async fn a_full_disk_is_survived_in_memory_and_the_gap_is_written_down() {
    let place = TestFolder::new("");
    let Some(disk) = Disk::under(&place.data()) else { return };
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    let answer = until_full(&gateway, &disk, "degraded").await;
    assert_ne!(answer["isError"], true, "{answer}");
    let names = gateway.tool_names(&gateway.token).await;
    assert_eq!(names.len(), 5);
    let answer = gateway
        .rpc(&gateway.token, "tools/call", json!({ "name": "vfs_list", "arguments": {} }))
        .await;
    assert!(answer["result"].is_object(), "{answer}");
    disk.relieve();
    eventually("health", async || {
        (text(&get(&gateway, "/healthz").await.body) == "ok\n").then_some(())
    })
    .await;
    assert_eq!(gateway.terminate(), Some(0));
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
    let all = events(&place);
    let gap = all.iter().position(|event| event["kind"] == "audit_gap").expect("a gap");
    assert!(all[gap]["kept"].as_u64().unwrap() > 0, "{}", all[gap]);
    assert!(
        all[gap..].iter().any(|event| event["kind"] == "outcome"),
        "what was kept follows the gap"
    );
}

#[tokio::test]
async fn a_full_disk_refuses_calls_where_that_is_wanted() {
    let place = TestFolder::new("[audit]\non_audit_failure = \"refuse\"\n");
    let Some(disk) = Disk::under(&place.data()) else { return };
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    let answer = until_full(&gateway, &disk, "failed").await;
    assert_eq!(answer["_meta"]["drawgate/error"]["code"], "UNAVAILABLE", "{answer}");
    assert_eq!(get(&gateway, "/healthz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    disk.relieve();
    eventually("calls again", async || {
        let answer = gateway.call(&gateway.token, "vfs_list", json!({})).await;
        (answer["isError"] != true).then_some(())
    })
    .await;
    assert_eq!(get(&gateway, "/healthz").await.status, StatusCode::OK);
    assert_eq!(gateway.terminate(), Some(0));
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
}
