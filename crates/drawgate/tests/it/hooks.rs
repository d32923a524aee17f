//! `[[hooks]]`: commands and addresses around calls, in a running gateway.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::load::events;
use crate::support::{TestFolder, eventually};

/// Refuses calls that name `.env`, as a user would write it.
const NO_ENV: &str = "if grep -q '\"path\":\"[^\"]*\\.env\"'; then\n  \
    echo '{\"refuse\": \"not that file\"}'\nfi\n";

/// A script in the folder of the test.
fn script(place: &TestFolder, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.canonicalize().unwrap().display().to_string()
}

fn hook(name: &str, on: &str, script: &str, more: &str) -> String {
    format!(
        "[[hooks]]\nname = \"{name}\"\non = \"{on}\"\ncommand = \"sh\"\nargs = [{script:?}]\n\
         timeout_ms = 20000\n{more}\n"
    )
}

fn kinds(place: &TestFolder, kind: &str) -> Vec<Value> {
    events(place).into_iter().filter(|event| event["kind"] == kind).collect()
}

#[tokio::test]
async fn a_script_of_three_lines_refuses_calls() {
    let place = TestFolder::new("");
    let no_env = script(&place, "no-env.sh", NO_ENV);
    place.configure(&hook("no-env", "before_call", &no_env, "tools = [\"vfs_*\"]"));
    let gateway = place.serve();
    let write = |path: &str| json!({ "path": path, "content": "x" });
    let ok = gateway.call(&gateway.token, "vfs_write", write("a.txt")).await;
    assert_eq!(ok["isError"], Value::Null, "{ok}");
    let refused = gateway.call(&gateway.token, "vfs_write", write("conf/.env")).await;
    assert!(refused.to_string().contains("`hook-no-env` refuses it: not that file"), "{refused}");
    let denied = kinds(&place, "decision").into_iter().filter(|event| {
        event["decision"]["ruleId"] == "hook:hook-no-env" && event["decision"]["decision"] == "deny"
    });
    assert_eq!(denied.count(), 1);
    // It is asked until the edit that takes it away is in force, and not any more afterwards.
    place.configure("");
    eventually("the hook is gone", async || {
        let call = gateway.call(&gateway.token, "vfs_write", write("conf/.env")).await;
        (!call.to_string().contains("refuses")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_a_script_rewrites_is_what_runs_and_is_written_down() {
    let place = TestFolder::new("");
    let patch = "cat >/dev/null\n\
        echo '{\"patch\": [{\"op\": \"replace\", \"path\": \"/path\", \"value\": \"safe.txt\"}]}'\n";
    let shout = "cat >/dev/null\n\
        echo '{\"patch\": [{\"op\": \"replace\", \"path\": \"/content/0/text\", \"value\": \"HIDDEN\"}]}'\n";
    let (patch, shout) = (script(&place, "p.sh", patch), script(&place, "s.sh", shout));
    place.configure(&format!(
        "{}{}",
        hook("mover", "rewrite_call", &patch, "tools = [\"vfs_write\"]"),
        hook("hider", "after_call", &shout, "tools = [\"vfs_read\"]")
    ));
    let gateway = place.serve();
    let arguments = json!({ "path": "other.txt", "content": "secret text" });
    gateway.call(&gateway.token, "vfs_write", arguments).await;
    let files = place.data().join("workspace");
    assert!(files.join("safe.txt").exists() && !files.join("other.txt").exists());
    let read = gateway.call(&gateway.token, "vfs_read", json!({ "path": "safe.txt" })).await;
    assert_eq!(read["content"][0]["text"], "HIDDEN", "{read}");
    let changed = kinds(&place, "hook_changed");
    assert_eq!(changed.len(), 2, "{changed:?}");
    assert_eq!(changed[0]["changed"], json!(["/path"]));
    let outcome = &kinds(&place, "outcome")[0];
    assert_eq!(outcome["inputHash"], changed[0]["hashAfter"]);
    assert_ne!(changed[0]["hashBefore"], changed[0]["hashAfter"]);
    place.ok(&["audit", "verify"]);
}

#[tokio::test]
async fn a_hook_that_fails_stops_calls_and_in_audit_mode_nothing() {
    let place = TestFolder::new("");
    let broken = script(&place, "broken.sh", "echo not JSON\n");
    let list = |more: &str| hook("broken", "before_call", &broken, more);
    for (text, passes) in [
        (list(""), false),
        (list("on_failure = \"skip\""), true),
        (list("mode = \"audit\""), true),
        (list("").replace("\"sh\"", "\"no-such-program\""), false),
        (list("").replace("echo", "x").replace(&broken, "/no/such/script"), false),
    ] {
        place.configure(&text);
        let gateway = place.serve();
        let call = gateway.call(&gateway.token, "vfs_list", json!({})).await;
        assert_eq!(call["isError"] != true, passes, "{text}\n{call}");
        if !passes {
            assert!(call.to_string().contains("`hook-broken` failed"), "{call}");
        }
        gateway.terminate();
    }
    assert_eq!(kinds(&place, "hook_failed").len(), 5);
}

#[tokio::test]
async fn an_address_is_asked_like_a_command() {
    let answers = axum::Router::new().route(
        "/hook",
        axum::routing::post(|axum::Json(event): axum::Json<Value>| async move {
            assert_eq!(event["hook"], "beforeCall");
            axum::Json(match event["call"]["arguments"]["prefix"].as_str() {
                Some("no") => json!({ "refuse": "because" }),
                _ => json!({}),
            })
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, answers).await });
    let place = TestFolder::new(&format!(
        "[[hooks]]\nname = \"web\"\non = \"before_call\"\nurl = \"http://{address}/hook\"\ntimeout_ms = 20000\n"
    ));
    let gateway = place.serve();
    let ok = gateway.call(&gateway.token, "vfs_list", json!({})).await;
    assert_ne!(ok["isError"], true, "{ok}");
    let refused = gateway.call(&gateway.token, "vfs_list", json!({ "prefix": "no" })).await;
    assert!(refused.to_string().contains("because"), "{refused}");
}

#[test]
fn mistakes_in_hooks_are_named_with_their_place() {
    let place = TestFolder::new(
        "[[hooks]]\nname = \"a\"\non = \"before_call\"\n\
         [[hooks]]\nname = \"a\"\non = \"after_call\"\nurl = \"http://127.0.0.1:1/\"\ntools = [\"\"]\n\
         [[hooks]]\nname = \"b\"\non = \"on_message\"\ncommand = \"sh\"\nmode = \"audit\"\n",
    );
    let out = place.run(&["config", "check"]);
    let said =
        format!("{}{}", crate::support::text(&out.stdout), crate::support::text(&out.stderr));
    for expected in
        ["has neither `command` nor `url`", "another hook has the name `a`", "have no effect here"]
    {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert!(!out.status.success());
}
