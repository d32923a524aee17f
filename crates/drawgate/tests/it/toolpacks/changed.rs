//! Files of a pack that change while it runs, and acts on packs that fail: refused, and written down.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{commands, events, install, install_and_enable, listed, refusal, said, write};
use crate::support::{Gateway, TestFolder, eventually};

/// A pack whose command and whose server are scripts of its own.
fn scripts(place: &TestFolder) -> PathBuf {
    let mut pack = commands("own", &[("run_it", "sh ./run.sh")]);
    pack["connectors"] = json!([{ "id": "main", "type": "mcp", "mcp": { "command": "python3", "args": ["server.py"] } }]);
    let served =
        json!({ "name": "serve_it", "type": "mcp", "connector_id": "main", "remote_tool": "echo" });
    let crash = json!({ "name": "crash_it", "type": "mcp", "connector_id": "main", "remote_tool": "crash" });
    pack["tools"].as_array_mut().unwrap().extend([served, crash]);
    let folder = write(place, &pack);
    std::fs::write(folder.join("run.sh"), "echo as installed\n").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
    std::fs::copy(script, folder.join("server.py")).unwrap();
    folder
}

async fn call(gateway: &Gateway, tool: &str) -> Value {
    gateway.call(&gateway.token, tool, json!({})).await
}

async fn gone(gateway: &Gateway, tool: &str) {
    eventually(&format!("`{tool}` is gone"), async || {
        let names = gateway.tool_names(&gateway.token).await;
        (!names.iter().any(|name| name == tool)).then_some(())
    })
    .await;
}

fn edit(place: &TestFolder, file: &str, text: &str) {
    let path = place.path().join("toolpacks/own").join(file);
    assert!(path.exists());
    std::fs::write(path, text).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_was_edited_under_a_running_gateway_does_not_run() {
    let place = TestFolder::new("");
    let folder = scripts(&place);
    let gateway = place.serve();
    install_and_enable(&place, &folder);
    listed(&gateway, "run_it").await;
    assert!(said(&call(&gateway, "run_it").await).contains("as installed"));
    // The same text once more is no change.
    edit(&place, "run.sh", "echo as installed\n");
    assert!(said(&call(&gateway, "run_it").await).contains("as installed"));
    edit(&place, "run.sh", "echo EDITED\n");
    let refused = call(&gateway, "run_it").await;
    assert_eq!(refused["isError"], true, "{refused}");
    let words = refused.to_string();
    assert!(
        words.contains("`run.sh` was changed") && words.contains("install it again"),
        "{words}"
    );
    assert!(!words.contains("EDITED"), "{words}");
    gone(&gateway, "serve_it").await;
    check_event(&place);
    let list = place.json(&["toolpacks", "list"]);
    assert_eq!(list["toolpacks"][0]["state"], "changed", "{list}");
    let doctor = place.run(&["toolpacks", "doctor", "own"]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    let words = crate::support::text(&doctor.stdout);
    assert!(words.contains("was changed since") && !words.contains("connector"), "{words}");

    place.ok(&["toolpacks", "install", folder.to_str().unwrap()]);
    place.ok(&["toolpacks", "enable", "own"]);
    listed(&gateway, "run_it").await;
    assert!(said(&call(&gateway, "run_it").await).contains("as installed"));
}

/// One event, with what was expected and what to do.
fn check_event(place: &TestFolder) {
    let changed = events(place, "toolpack_changed");
    let [event] = changed.as_slice() else { panic!("{changed:?}") };
    assert_eq!(event["toolpack"], "own");
    assert!(event["contentHash"].as_str().unwrap().starts_with("sha256:"), "{event}");
    assert!(event["reason"].as_str().unwrap().contains("install it again"), "{event}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_edited_is_not_started_again() {
    let place = TestFolder::new("");
    let folder = scripts(&place);
    let gateway = place.serve();
    install_and_enable(&place, &folder);
    listed(&gateway, "serve_it").await;
    let marker = place.data().join("workspace/EDITED");
    edit(&place, "server.py", "open('EDITED', 'w')\n");
    // What runs goes on; what is started anew is looked at.
    call(&gateway, "crash_it").await;
    gone(&gateway, "serve_it").await;
    eventually("it is written down", async || {
        (!events(&place, "toolpack_changed").is_empty()).then_some(())
    })
    .await;
    check_event(&place);
    assert!(!Path::new(&marker).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_compares_with_the_lock() {
    let place = TestFolder::new("");
    let folder = scripts(&place);
    let gateway = place.serve();
    install_and_enable(&place, &folder);
    listed(&gateway, "run_it").await;
    std::fs::write(place.path().join("toolpacks/own/extra.py"), "").unwrap();
    place.configure("[limits]\nmax_timeout_seconds = 100\n");
    gone(&gateway, "run_it").await;
    check_event(&place);
    // The same fault is not told again.
    place.configure("[limits]\nmax_timeout_seconds = 101\n");
    eventually("it was read once more", async || {
        (events(&place, "config_loaded").len() >= 2).then_some(())
    })
    .await;
    std::fs::remove_file(place.path().join("toolpacks/own/extra.py")).unwrap();
    place.configure("[limits]\nmax_timeout_seconds = 102\n");
    listed(&gateway, "run_it").await;
    check_event(&place);
}

#[test]
fn acts_that_fail_are_written_down() {
    let place = TestFolder::new("");
    install(&place, &write(&place, &commands("words", &[("say", "echo -- {{what}}")])));
    let stray = place.path().join("toolpacks/stray");
    std::fs::create_dir_all(&stray).unwrap();
    let manifest = commands("stray", &[("stray_tool", "echo -- {{what}}")]);
    std::fs::write(stray.join("toolpack.json"), manifest.to_string()).unwrap();
    std::fs::write(place.path().join("toolpacks/words/extra"), "").unwrap();
    let acts =
        [("enable", "words"), ("enable", "stray"), ("disable", "stray"), ("remove", "stray")];
    for (act, id) in acts {
        refusal(&place.run(&["toolpacks", act, id]));
    }
    let failed = events(&place, "act_failed");
    let told: Vec<(&str, &str)> = failed
        .iter()
        .map(|event| (event["act"].as_str().unwrap(), event["toolpack"].as_str().unwrap()))
        .collect();
    let expected = [
        ("toolpack_enabled", "words"),
        ("toolpack_enabled", "stray"),
        ("toolpack_disabled", "stray"),
        ("toolpack_removed", "stray"),
    ];
    assert_eq!(told, expected);
    for event in &failed {
        assert_eq!(event["principal"], "local", "{event}");
        assert!(!event["reason"].as_str().unwrap().is_empty(), "{event}");
    }
    let count = |kind: &str| events(&place, kind).len();
    assert_eq!(count("act_started"), 5, "with the installation");
    for kind in ["toolpack_enabled", "toolpack_disabled", "toolpack_removed"] {
        assert_eq!(count(kind), 0, "{kind} was not done");
    }
    assert!(stray.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_planted_is_written_down() {
    let place = TestFolder::new("");
    let folder = write(&place, &commands("own", &[("plant", "sh ./run.sh")]));
    std::fs::write(folder.join("run.sh"), "echo '{}' > .mcp.json\necho planted\n").unwrap();
    let gateway = place.serve();
    install_and_enable(&place, &folder);
    listed(&gateway, "plant").await;
    let result = call(&gateway, "plant").await;
    assert!(said(&result).contains("planted"), "{result}");
    let event = eventually("it is written down", async || {
        events(&place, "files_set_aside").into_iter().next()
    })
    .await;
    assert_eq!(event["files"], json!([".mcp.json"]), "{event}");
    assert!(event["program"].as_str().unwrap().ends_with("/sh"), "{event}");
    assert!(event["workspace"].as_str().unwrap().ends_with("workspace"), "{event}");
    assert!(!place.data().join("workspace/.mcp.json").exists());
}
