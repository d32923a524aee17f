//! Edits of the configuration file reach a running gateway.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::load::{events, fixture, offers};
use crate::support::{Gateway, TestFolder, eventually, text};

const BUILTIN: [&str; 5] = ["vfs_delete", "vfs_list", "vfs_read", "vfs_write", "web_fetch"];

async fn names(gateway: &Gateway, what: &str, are_right: impl Fn(&[String]) -> bool) {
    eventually(what, async || are_right(&gateway.tool_names(&gateway.token).await).then_some(()))
        .await;
}

/// Waits until the log says so this many times.
async fn logged(place: &TestFolder, text: &str, times: usize) {
    eventually(text, async || (place.log().matches(text).count() >= times).then_some(())).await;
}

#[tokio::test]
async fn servers_come_change_and_go() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    names(&gateway, "the built-in tools", |names| names == BUILTIN).await;
    place.configure(&fixture());
    names(&gateway, "an added server", |names| names.contains(&"fixture__echo".to_owned())).await;
    place.configure(&format!("{}names = \"flat\"\n", fixture()));
    names(&gateway, "a changed server", |names| {
        names.contains(&"echo".to_owned()) && !names.contains(&"fixture__echo".to_owned())
    })
    .await;
    place.configure(&format!("{}[servers.fixture.tools.big]\nenabled = false\n", fixture()));
    names(&gateway, "a tool switched off", |names| {
        names.contains(&"fixture__echo".to_owned()) && !names.contains(&"fixture__big".to_owned())
    })
    .await;
    let stop = json!({ "begun": place.path().join("begun"), "until": place.path() });
    assert_eq!(
        gateway.call(&gateway.token, "fixture__wait", stop).await["content"][0]["text"],
        "waited"
    );
    place.configure("");
    names(&gateway, "a removed server", |names| names == BUILTIN).await;
    let gone = gateway
        .rpc(&gateway.token, "tools/call", json!({ "name": "fixture__echo", "arguments": {} }))
        .await;
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    logged(&place, "configuration reloaded", 4).await;
    let loaded =
        events(&place).into_iter().filter(|event| event["kind"] == "config_loaded").count();
    assert_eq!(loaded, 4);
}

#[tokio::test]
async fn a_server_that_did_not_change_is_left_alone() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    names(&gateway, "the fixture", |names| names.contains(&"fixture__wait".to_owned())).await;
    let (begun, until) = (place.path().join("begun"), place.path().join("until"));
    let arguments = json!({ "begun": begun, "until": until });
    let edit = async {
        eventually("a call under way", async || begun.exists().then_some(())).await;
        place.configure(&format!("[limits]\nmax_timeout_seconds = 599\n{}", fixture()));
        logged(&place, "configuration reloaded", 1).await;
        std::fs::write(&until, "").unwrap();
    };
    let (answer, ()) = tokio::join!(gateway.call(&gateway.token, "fixture__wait", arguments), edit);
    assert_eq!(answer["content"][0]["text"], "waited", "{answer}");
}

#[tokio::test]
async fn a_limit_is_edited_while_a_call_runs() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    names(&gateway, "the fixture", |names| names.contains(&"fixture__wait".to_owned())).await;
    let (begun, until) = (place.path().join("begun"), place.path().join("until"));
    let arguments = json!({ "begun": begun, "until": until });
    let edits = [
        format!("[limits]\ntimeout_seconds = 77\n{}", fixture()),
        format!("{}timeout_seconds = 1\ncapabilities = [\"demo\"]\n", fixture()),
        format!(
            "{}timeout_seconds = 1\nnames = \"flat\"\n[servers.fixture.tools.big]\nenabled = false\n",
            fixture()
        ),
    ];
    let edit = async {
        eventually("a call under way", async || begun.exists().then_some(())).await;
        for (index, text) in edits.iter().enumerate() {
            place.configure(text);
            logged(&place, "configuration reloaded", index + 1).await;
        }
        // In force, before the call that began earlier has ended.
        let names = gateway.tool_names(&gateway.token).await;
        assert!(names.contains(&"wait".to_owned()) && !names.contains(&"big".to_owned()));
        let again =
            json!({ "begun": place.path().join("again"), "until": place.path().join("no") });
        let answer = gateway.call(&gateway.token, "wait", again).await;
        assert_eq!(answer["_meta"]["drawgate/error"]["code"], "TIMEOUT", "{answer}");
        std::fs::write(&until, "").unwrap();
    };
    let (answer, ()) = tokio::join!(gateway.call(&gateway.token, "fixture__wait", arguments), edit);
    assert_eq!(answer["content"][0]["text"], "waited", "{answer}");
    let servers = place.json(&["servers", "list"]);
    let fixture = servers.as_array().unwrap().iter().find(|it| it["id"] == "fixture").unwrap();
    assert_eq!(fixture["diagnostics"]["restarts"], 0, "{fixture}");
}

#[tokio::test]
async fn limits_and_the_built_in_tools_change_without_a_restart() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    names(&gateway, "the fixture", |names| names.contains(&"fixture__echo".to_owned())).await;
    place.configure(&format!("[limits]\ntimeout_seconds = 1\n{}", fixture()));
    logged(&place, "configuration reloaded", 1).await;
    names(&gateway, "all tools again", |names| {
        names.contains(&"fixture__wait".to_owned()) && names.contains(&"vfs_write".to_owned())
    })
    .await;
    let never = json!({ "begun": place.path().join("begun"), "until": place.path().join("never") });
    let answer = gateway.call(&gateway.token, "fixture__wait", never).await;
    assert_eq!(answer["_meta"]["drawgate/error"]["code"], "TIMEOUT", "{answer}");

    place.configure("[builtin]\nworkspace = \"other\"\n");
    logged(&place, "configuration reloaded", 2).await;
    names(&gateway, "the built-in tools", |names| names == BUILTIN).await;
    let file = json!({ "path": "a.txt", "content": "a" });
    let answer = gateway.call(&gateway.token, "vfs_write", file).await;
    assert_ne!(answer["isError"], true, "{answer}");
    assert!(place.path().join("other/a.txt").exists());

    place.configure("[builtin]\nenabled = false\n");
    names(&gateway, "no tools", <[String]>::is_empty).await;
    place.configure("");
    names(&gateway, "the built-in tools again", |names| names == BUILTIN).await;
    assert!(!place.log().contains("next start"), "{}", place.log());
}

#[tokio::test]
async fn a_folder_that_comes_to_hold_what_decides_is_taken_away() {
    let own = r#"
[builtin]
workspace = "open"
[servers.one]
protocol = "call"
command = "true"
working_dir = "open"
manifest = [{ name = "run", description = "runs", inputSchema = { type = "object" } }]
"#;
    let place = TestFolder::new("");
    std::fs::create_dir(place.path().join("open")).unwrap();
    let rules = json!({ "version": "1.0", "defaults": { "fallback": "allow" } });
    std::fs::write(place.path().join("open/policy.json"), rules.to_string()).unwrap();
    place.configure(own);
    let gateway = place.serve();
    let all = |names: &[String]| names.len() == BUILTIN.len() + 1;
    names(&gateway, "all tools", all).await;
    place.configure(&format!("{own}[policy]\nfile = \"open/policy.json\"\n"));
    names(&gateway, "no tools", <[String]>::is_empty).await;
    let listed = place.json(&["servers", "list"]);
    for server in listed.as_array().unwrap() {
        assert!(server.to_string().contains("`policy.file`"), "{server}");
    }
    place.configure(own);
    names(&gateway, "all tools again", all).await;
}

#[tokio::test]
async fn what_needs_a_restart_is_said() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    place.configure("[server]\nmax_sessions = 5\n[artifacts]\nmax_age_days = 3\n");
    logged(&place, "configuration reloaded", 1).await;
    let log = place.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("next start")).collect();
    let [warning] = warnings[..] else { panic!("one warning: {log}") };
    assert!(warning.contains("`[server]`, `[artifacts]`"), "{warning}");
    assert!(!warning.contains("`[audit]`"), "{warning}");
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_is_reported() {
    let place = TestFolder::new(&fixture());
    let gateway = place.serve();
    names(&gateway, "the fixture", |names| names.contains(&"fixture__echo".to_owned())).await;
    let broken = [
        "[servers.fixture\n",
        "[servers.fixture]\ncomand = \"x\"\n",
        "[policy]\nfile = \"missing.json\"\n",
    ];
    for (index, text) in broken.iter().enumerate() {
        place.configure(text);
        logged(&place, "configuration not taken over", index + 1).await;
        let answer = gateway.call(&gateway.token, "fixture__echo", json!({ "a": 1 })).await;
        assert_eq!(answer["content"][0]["text"], "{\"a\": 1}", "{answer}");
    }
    assert!(place.log().contains("`command`"), "the right key is suggested: {}", place.log());
    place.configure("");
    names(&gateway, "a repaired file", |names| names == BUILTIN).await;
}

#[test]
fn check_and_serve_agree() {
    let rule = |action: &str, when: &str| {
        format!(
            "[[policy.rules]]\nid = \"r\"\naction = \"{action}\"\nwhen = {{ {when} }}\ndecision = \"deny\"\n"
        )
    };
    let once = |tool: &str| {
        format!(
            "[servers.once]\nprotocol = \"call\"\nurl = \"http://127.0.0.1:9/\"\nmanifest = [{{ {tool} }}]\n"
        )
    };
    let cases = [
        (String::new(), None),
        (rule("file.raed", ""), Some("error: the rule `r` is about an unknown policy action")),
        (rule("*", "toolId = \"no:tool\""), Some("warning: the rule `r` can match no tool")),
        ("policy.file = \"rules.json\"\n".to_owned(), Some("error: the rule `file` is about")),
        (
            once("name = \"t\", description = \"d\", inputSchema = { type = \"objet\" }"),
            Some("error: the tool `t` can't be offered"),
        ),
        (once("name = \"t\", description = \"d\", inputSchema = { type = \"object\" }"), None),
    ];
    let place = TestFolder::new("");
    let rules = json!({
        "version": "1.0", "rules": [{ "id": "file", "action": "no.such", "decision": "deny" }],
    });
    std::fs::write(place.path().join("rules.json"), rules.to_string()).unwrap();
    for (config, said) in cases {
        place.configure(&config);
        let check = place.run(&["config", "check"]);
        let shown = text(&check.stdout);
        assert!(shown.contains(said.unwrap_or("drawgate.toml: valid")), "{config}: {shown}");
        let is_refused = said.is_some_and(|said| said.starts_with("error"));
        assert_eq!(check.status.success(), !is_refused, "{config}: {shown}");
        if is_refused {
            let serve = place.run(&["serve", "--listen", "127.0.0.1:0"]);
            let heard = text(&serve.stderr);
            assert!(heard.contains(said.unwrap()), "{config}: {heard}");
        } else {
            drop(place.serve());
            assert!(said.is_none_or(|said| place.log().contains(said)), "{config}");
        }
    }
}

/// A command that meets a file which an editor is saving in place.
#[tokio::test]
async fn a_command_does_not_make_half_of_a_file_the_whole() {
    use std::io::Write as _;
    let limits = "[limits]\nmax_timeout_seconds = 600\n";
    let rules = "[policy.defaults]\nfallback = \"deny\"\n";
    let place = TestFolder::new(&format!("{limits}{rules}"));
    let gateway = place.serve();
    let config = place.path().join("drawgate.toml");
    let mut editor = std::fs::File::create(&config).unwrap();
    editor.write_all(limits.as_bytes()).unwrap();
    let add = ["servers", "add", "zz", "--sandbox", "none", "--", "/bin/true"];
    let mut command = place.command(&add).spawn().unwrap();
    // As long as an editor may take.
    let saving = tokio::time::Instant::now() + std::time::Duration::from_millis(1200);
    let mut is_saved = false;
    let mut is_done = false;
    while !is_done {
        is_done = command.try_wait().unwrap().is_some();
        if !is_saved && tokio::time::Instant::now() > saving {
            editor.write_all(rules.as_bytes()).unwrap();
            is_saved = true;
        }
        let answer = gateway.call(&gateway.token, "vfs_list", json!({})).await;
        assert!(denied(&answer), "{answer}");
    }
    command.wait().unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(is_saved && text.contains(rules) && text.contains("[servers.zz]"), "{text}");
}

fn denied(result: &Value) -> bool {
    result["_meta"]["drawgate/error"]["code"] == "PERMISSION_DENIED"
}

#[tokio::test]
async fn a_changed_policy_holds_for_the_next_call() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    let list = async || gateway.call(&gateway.token, "vfs_list", json!({})).await;
    assert!(!denied(&list().await));
    place.configure("[policy.defaults]\nfallback = \"deny\"\n");
    logged(&place, "configuration reloaded", 1).await;
    assert!(denied(&list().await));
    place.configure("[local]\ncapabilities = [\"other\"]\n");
    logged(&place, "configuration reloaded", 2).await;
    assert_eq!(gateway.tool_names(&gateway.token).await, [""; 0]);
}

#[tokio::test]
async fn a_hangup_reads_a_policy_file_again() {
    let place = TestFolder::new("policy.file = \"rules.json\"\n");
    let rules = place.path().join("rules.json");
    let policy = |fallback: &str| {
        json!({ "version": "1.0", "defaults": { "fallback": fallback } }).to_string()
    };
    std::fs::write(&rules, policy("allow")).unwrap();
    let gateway = place.serve();
    offers(&gateway, "vfs_list").await;
    assert!(!denied(&gateway.call(&gateway.token, "vfs_list", json!({})).await));
    std::fs::write(&rules, policy("deny")).unwrap();
    let pid = Pid::from_raw(i32::try_from(gateway.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    logged(&place, "configuration reloaded", 1).await;
    assert!(denied(&gateway.call(&gateway.token, "vfs_list", json!({})).await));
}
