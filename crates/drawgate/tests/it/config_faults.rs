//! Edits of the configuration while something fails: the earlier one stays wholly in force, the edit is
//! tried again, and it is told that it is not in force.

use http::{Method, StatusCode};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::load::{events, fixture, offers};
use crate::support::{Gateway, TestFolder, eventually, text};

const REFUSING: &str = "[audit]\non_audit_failure = \"refuse\"\n";

fn before() -> String {
    format!("{REFUSING}{}trust = \"follow\"\n", fixture())
}

/// Changes rules, the terms of a running server, and the list of servers.
fn after() -> String {
    let second = r#"
[servers.second]
protocol = "call"
url = "http://127.0.0.1:9/"
manifest = [{ name = "ping", description = "Pings.", inputSchema = { type = "object" } }]
[policy.defaults]
fallback = "deny"
"#;
    format!("{REFUSING}{}trust = \"pin\"\nnames = \"flat\"\n{second}", fixture())
}

struct Fault {
    name: &'static str,
    file: &'static str,
    breaks: &'static str,
    heals: &'static str,
}

/// Every step of an edit that asks a store and comes before the change.
const FAULTS: &[Fault] = &[
    Fault {
        name: "the event that announces the edit",
        file: "audit.db",
        breaks: "CREATE TRIGGER fault BEFORE INSERT ON event WHEN NEW.body LIKE '%config_applying%'
                 BEGIN SELECT RAISE(ABORT, 'no space left'); END",
        heals: "DROP TRIGGER fault",
    },
    Fault {
        name: "logins are read",
        file: "drawgate.db",
        breaks: "ALTER TABLE document RENAME TO lost",
        heals: "ALTER TABLE lost RENAME TO document",
    },
    Fault {
        name: "pins are written",
        file: "drawgate.db",
        breaks: "CREATE TRIGGER fault BEFORE INSERT ON document
                 BEGIN SELECT RAISE(ABORT, 'no space left'); END",
        heals: "DROP TRIGGER fault",
    },
];

fn run(place: &TestFolder, file: &str, statement: &str) {
    let connection = Connection::open(place.data().join(file)).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    connection.execute_batch(statement).unwrap();
}

async fn body(gateway: &Gateway, path: &str) -> (StatusCode, String) {
    let answer = gateway.send(Method::GET, path, &[], "").await;
    (answer.status, text(&answer.body))
}

/// What callers meet: whether a rule denies, and which tools there are.
async fn seen(gateway: &Gateway) -> (bool, Vec<String>) {
    let answer = gateway.call(&gateway.token, "vfs_list", json!({})).await;
    let denied = answer["_meta"]["drawgate/error"]["code"] == "PERMISSION_DENIED";
    let names = gateway.tool_names(&gateway.token).await;
    let told = ["echo", "fixture__echo", "second__ping"];
    (denied, names.into_iter().filter(|name| told.contains(&name.as_str())).collect())
}

/// The kinds of events about the configuration.
fn told(place: &TestFolder) -> Vec<String> {
    let kinds = events(place).into_iter().map(|event| event["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind.starts_with("config_")).collect()
}

#[tokio::test]
async fn an_edit_that_meets_a_fault_changes_nothing_and_is_tried_again() {
    for Fault { name, file, breaks, heals } in FAULTS {
        let place = TestFolder::new(&before());
        let gateway = place.serve();
        offers(&gateway, "fixture__echo").await;
        let earlier = seen(&gateway).await;
        assert_eq!(earlier, (false, vec!["fixture__echo".to_owned()]), "{name}");
        run(&place, file, breaks);
        place.configure(&after());
        let pending = "ready, but an edit of the configuration is not in force\n";
        eventually(name, async || {
            (body(&gateway, "/readyz").await == (StatusCode::OK, pending.to_owned())).then_some(())
        })
        .await;
        assert_eq!(seen(&gateway).await, earlier, "{name}");
        let doctor = place.run(&["servers", "doctor"]);
        assert!(!doctor.status.success(), "{name}");
        assert!(text(&doctor.stderr).contains("is not in force, and is tried again"), "{name}");
        assert!(!told(&place).contains(&"config_loaded".to_owned()), "{name}: {:?}", told(&place));

        run(&place, file, heals);
        eventually("the edit in force", async || {
            (body(&gateway, "/readyz").await.1 == "ready\n").then_some(())
        })
        .await;
        let (denied, names) = seen(&gateway).await;
        assert!(denied, "{name}");
        assert_eq!(names, ["echo", "second__ping"], "{name}");
        let mut kinds = told(&place);
        kinds.sort();
        let all = ["config_applying", "config_loaded", "config_rejected"];
        assert_eq!(kinds, all, "{name}: each once, however often it was tried");
    }
}

#[tokio::test]
async fn an_edit_whose_end_can_not_be_written_down_is_in_force_and_is_written_down_later() {
    let place = TestFolder::new(&before());
    let gateway = place.serve();
    offers(&gateway, "fixture__echo").await;
    let fault = "CREATE TRIGGER fault BEFORE INSERT ON event WHEN NEW.body LIKE '%config_loaded%'
                 BEGIN SELECT RAISE(ABORT, 'no space left'); END";
    run(&place, "audit.db", fault);
    place.configure(&after());
    eventually("the new rule", async || seen(&gateway).await.0.then_some(())).await;
    assert!(!told(&place).contains(&"config_loaded".to_owned()));
    run(&place, "audit.db", "DROP TRIGGER fault");
    eventually("the event", async || {
        told(&place).contains(&"config_loaded".to_owned()).then_some(())
    })
    .await;
    assert_eq!(told(&place).iter().filter(|kind| *kind == "config_applying").count(), 1);
}

#[tokio::test]
async fn a_file_that_an_edit_names_is_waited_for() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    place.configure("policy.file = \"rules.json\"\n");
    eventually("the edit to be told", async || {
        body(&gateway, "/readyz").await.1.contains("not in force").then_some(())
    })
    .await;
    assert!(!seen(&gateway).await.0);
    let rules = json!({ "version": "1.0", "defaults": { "fallback": "deny" } });
    std::fs::write(place.path().join("rules.json"), rules.to_string()).unwrap();
    eventually("the rules", async || seen(&gateway).await.0.then_some(())).await;
    eventually("the edit to be in force", async || {
        (body(&gateway, "/readyz").await.1 == "ready\n").then_some(())
    })
    .await;
    // What it says again is in force already.
    place.configure("policy.file = \"no-such.json\"\n");
    eventually("another edit", async || {
        body(&gateway, "/readyz").await.1.contains("not in force").then_some(())
    })
    .await;
    place.configure("policy.file = \"rules.json\"\n");
    eventually("its withdrawal", async || {
        (body(&gateway, "/readyz").await.1 == "ready\n").then_some(())
    })
    .await;
    let kinds = told(&place);
    let loaded = kinds.iter().filter(|kind| *kind == "config_loaded").count();
    assert_eq!(loaded, 1, "{kinds:?}");
}

#[tokio::test]
async fn health_and_readiness_follow_the_log_without_a_call() {
    let place = TestFolder::new(REFUSING);
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    let fault = "CREATE TRIGGER fault BEFORE INSERT ON event
                 BEGIN SELECT RAISE(ABORT, 'no space left'); END";
    run(&place, "audit.db", fault);
    let refused = gateway.rpc(&gateway.token, "tools/call", json!({ "name": "vfs_list" })).await;
    assert!(refused["error"].is_object() || refused["result"]["isError"] == true, "{refused}");
    assert_eq!(body(&gateway, "/healthz").await.0, StatusCode::SERVICE_UNAVAILABLE);
    let (status, said) = body(&gateway, "/readyz").await;
    assert_eq!(
        (status, &*said),
        (StatusCode::SERVICE_UNAVAILABLE, "calls are refused: audit log\n")
    );
    run(&place, "audit.db", "DROP TRIGGER fault");
    eventually("both to be well again", async || {
        let both = (body(&gateway, "/healthz").await.0, body(&gateway, "/readyz").await.0);
        (both == (StatusCode::OK, StatusCode::OK)).then_some(())
    })
    .await;
    let gaps = events(&place).into_iter().filter(|event| event["kind"] == "audit_gap").count();
    assert_eq!(gaps, 1, "the log says that something was refused");
}

#[tokio::test]
async fn commands_that_do_not_need_a_broken_configuration_work() {
    const BROKEN: &str = "data = \"elsewhere\"\n[servers.a]\ncomand = \"x\"\n[servers.b\n";
    let place = TestFolder::new("data = \"elsewhere\"\n");
    place.ok(&["agents", "add", "ada", "--quiet"]);
    place.configure(BROKEN);
    let works: &[&[&str]] =
        &[&["grants", "list"], &["agents", "list"], &["audit", "tail"], &["keys", "list"]];
    let needs: &[&[&str]] = &[&["tools", "list"], &["serve"], &["toolpacks", "list"], &["mcp"]];
    for args in works {
        let output = place.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        let said = text(&output.stderr);
        assert_eq!(said.matches("warning: the configuration has errors").count(), 1, "{said}");
    }
    assert!(place.ok(&["agents", "list"]).contains("ada"), "it is the data folder that is named");
    assert!(!place.data().exists());
    for args in needs {
        let output = place.run(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(text(&output.stderr).contains("drawgate.toml:4:"), "{}", text(&output.stderr));
    }
    place.configure("data = \"elsewhere\"\n");
    let gateway = place.serve_on("elsewhere");
    offers(&gateway, "vfs_list").await;
    place.configure(BROKEN);
    let more: &[&[&str]] = &[&["tools", "list"], &["toolpacks", "list"]];
    for args in works.iter().chain(more) {
        let output = place.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    }
}

#[tokio::test]
async fn a_file_that_comes_after_the_start_counts_and_one_that_goes_does_not() {
    let place = TestFolder::new("");
    std::fs::remove_file(place.path().join("drawgate.toml")).unwrap();
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    let file = place.data().join("drawgate.toml");
    let text = format!("{}[policy.defaults]\nfallback = \"deny\"\n", fixture());
    std::fs::write(&file, text).unwrap();
    eventually("the new file", async || seen(&gateway).await.0.then_some(())).await;
    offers(&gateway, "fixture__echo").await;

    std::fs::remove_file(&file).unwrap();
    eventually("a word about it", async || place.log().contains("is gone").then_some(())).await;
    assert!(seen(&gateway).await.0, "what was read from it stays");
    assert_eq!(body(&gateway, "/readyz").await.1, "ready\n");
    std::fs::write(&file, "").unwrap();
    eventually("it is back", async || (!seen(&gateway).await.0).then_some(())).await;
    assert_eq!(place.log().matches("is gone").count(), 1);
}
