//! A pack's life in a running gateway: nothing is restarted, and connected clients hear of it.

use serde_json::{Value, json};

use super::notes::Notes;
use super::{
    commands, events, example_at, install, install_and_enable, listed, refusal, said, write,
};
use crate::streams::Events;
use crate::support::{TestFolder, eventually, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_comes_and_goes_while_a_client_is_connected() {
    let api = Notes::start().await;
    let place = TestFolder::new("");
    let gateway = place.serve();
    listed(&gateway, "vfs_read").await;
    let pid = gateway.child.id();
    let session = gateway.open_session(&gateway.token).await;
    let mut heard = Events::of_session(&gateway, &gateway.token, &session).await;
    let folder = example_at(&place, "openapi-local", "127.0.0.1:8087", &api.address);

    let installed = place.ok(&["toolpacks", "install", folder.to_str().unwrap()]);
    for words in
        ["installed `openapi-local` 1.0.0", "notes_list", "drawgate toolpacks enable openapi-local"]
    {
        assert!(installed.contains(words), "{words}: {installed}");
    }
    assert!(installed.contains(&api.address), "whom it will reach: {installed}");
    assert!(!gateway.tool_names(&gateway.token).await.contains(&"notes_list".to_owned()));

    let enabled = place.ok(&["toolpacks", "enable", "openapi-local"]);
    assert!(enabled.contains("in force: 4 tools are offered now"), "{enabled}");
    assert!(enabled.contains(&api.address), "{enabled}");
    assert_eq!(heard.next().await.unwrap()["method"], "notifications/tools/list_changed");
    let names = gateway.tool_names(&gateway.token).await;
    for tool in ["notes_add", "notes_delete", "notes_get", "notes_list"] {
        assert!(names.contains(&tool.to_owned()), "{tool}: {names:?}");
    }
    let list = gateway.call(&gateway.token, "notes_list", json!({ "tag": ["a b", "c"] })).await;
    assert_eq!(list["structuredContent"]["notes"][0]["title"], "Milk", "{list}");
    let missing = gateway.call(&gateway.token, "notes_get", json!({ "id": 7 })).await;
    assert_eq!(missing["isError"], true, "{missing}");
    assert!(said(&missing).contains("404") && said(&missing).contains("no such note"), "{missing}");
    let note = json!({ "body": { "title": "Milk", "text": "Two bottles." } });
    gateway.call(&gateway.token, "notes_add", note).await;
    let asked = [
        "GET /notes?tag=a%20b&tag=c",
        "GET /notes/7",
        "POST /notes application/json {\"title\":\"Milk\",\"text\":\"Two bottles.\"}",
    ];
    assert_eq!(api.asked(), asked);

    let disabled = place.ok(&["toolpacks", "disable", "openapi-local"]);
    assert!(disabled.contains("gone from the running gateway"), "{disabled}");
    assert_eq!(heard.next().await.unwrap()["method"], "notifications/tools/list_changed");
    let params = json!({ "name": "notes_get", "arguments": { "id": 1 } });
    let answer = gateway.rpc(&gateway.token, "tools/call", params.clone()).await;
    assert!(said(&answer["result"]).contains("`openapi-local` is disabled"), "{answer}");
    place.ok(&["toolpacks", "remove", "openapi-local"]);
    let answer = gateway.rpc(&gateway.token, "tools/call", params).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(place.json(&["toolpacks", "list"])["toolpacks"], json!([]));
    assert_eq!(gateway.child.id(), pid, "the same process all the time");

    let acts = ["installed", "enabled", "disabled", "removed"];
    for act in acts {
        let found = events(&place, &format!("toolpack_{act}"));
        let [event] = found.as_slice() else { panic!("{act}: {found:?}") };
        assert_eq!(event["toolpack"], "openapi-local");
        assert_eq!(event["principal"], "local");
        assert!(event["contentHash"].as_str().unwrap().starts_with("sha256:"), "{event}");
    }
    let permissions = &events(&place, "toolpack_enabled")[0]["permissions"];
    assert!(permissions.to_string().contains(&api.address), "{permissions}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_gateway_follows_the_lock() {
    let api = Notes::start().await;
    let place = TestFolder::new("");
    let gateway = place.serve();
    let folder = example_at(&place, "openapi-local", "127.0.0.1:8087", &api.address);
    install_and_enable(&place, &folder);
    listed(&gateway, "notes_list").await;
    let lock = place.path().join("drawgate.lock");
    let enabled = std::fs::read_to_string(&lock).unwrap();
    let disabled = enabled.replace("\"enabled\": true", "\"enabled\": false");
    assert_ne!(enabled, disabled);
    std::fs::write(&lock, disabled).unwrap();
    let is_listed =
        async || gateway.tool_names(&gateway.token).await.contains(&"notes_list".to_owned());
    eventually("the pack ends", async || (!is_listed().await).then_some(())).await;
    std::fs::write(&lock, enabled).unwrap();
    listed(&gateway, "notes_list").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_enabled_without_a_gateway_is_there_when_one_starts() {
    let place = TestFolder::new("");
    let folder = write(&place, &commands("words", &[("say", "echo -- {{what}}")]));
    install(&place, &folder);
    let enabled = place.ok(&["toolpacks", "enable", "words"]);
    assert!(enabled.contains("no gateway runs; it is in force when one starts"), "{enabled}");
    let gateway = place.serve();
    listed(&gateway, "say").await;
    let result = gateway.call(&gateway.token, "say", json!({ "what": "two words" })).await;
    assert!(said(&result).contains("two words"), "{result}");
    let outcome = events(&place, "outcome").pop().unwrap();
    assert_eq!(outcome["toolId"], "words:say");
    assert_eq!(outcome["sandbox"], "workspace", "{outcome}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_was_touched_is_started_again() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    let one = write(&place, &commands("one", &[("first", "echo -- {{what}}")]));
    let two = write(&place, &commands("two", &[("second", "echo -- {{what}}")]));
    install_and_enable(&place, &one);
    install_and_enable(&place, &two);
    let ready = |log: &str, id: &str| {
        log.lines().filter(|line| line.contains("source ready") && line.contains(id)).count()
    };
    place.ok(&["toolpacks", "disable", "two"]);
    place.ok(&["toolpacks", "enable", "two"]);
    let log = place.log();
    assert_eq!((ready(&log, "one"), ready(&log, "two")), (1, 2), "{log}");
    place.configure("[toolpacks.packs.two]\ncapabilities = [\"two.use\"]\n");
    eventually("the new terms are in force", async || {
        (ready(&place.log(), "two") == 3).then_some(())
    })
    .await;
    assert_eq!(ready(&place.log(), "one"), 1);
    let agent = place.ok(&["agents", "add", "ann", "--capability", "source.*", "--quiet"]);
    let names = gateway.tool_names(agent.trim()).await;
    assert!(
        names.contains(&"first".to_owned()) && !names.contains(&"second".to_owned()),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_was_edited_or_put_there_by_hand_is_not_used() {
    let place = TestFolder::new("");
    let folder = write(&place, &commands("words", &[("say", "echo -- {{what}}")]));
    install(&place, &folder);
    place.ok(&["toolpacks", "enable", "words"]);
    let installed = place.path().join("toolpacks/words/toolpack.json");
    let edited = std::fs::read_to_string(&installed).unwrap().replace("echo --", "echo edited --");
    std::fs::write(&installed, edited).unwrap();
    let foreign = place.path().join("toolpacks/stray");
    std::fs::create_dir_all(&foreign).unwrap();
    let mut stray = commands("stray", &[("stray_tool", "echo -- {{what}}")]);
    stray["enabled"] = true.into();
    std::fs::write(foreign.join("toolpack.json"), stray.to_string()).unwrap();

    let gateway = place.serve();
    listed(&gateway, "vfs_read").await;
    let names = gateway.tool_names(&gateway.token).await;
    assert!(!names.iter().any(|name| name == "say" || name == "stray_tool"), "{names:?}");
    let list = place.json(&["toolpacks", "list"]);
    let states: Vec<(&str, &str)> = list["toolpacks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pack| (pack["id"].as_str().unwrap(), pack["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("stray", "foreign"), ("words", "changed")]);
    let said = refusal(&place.run(&["toolpacks", "enable", "words"]));
    assert!(said.contains("changed since it was installed"), "{said}");
    let verified = place.run(&["toolpacks", "lock", "verify"]);
    assert_eq!(verified.status.code(), Some(1), "{verified:?}");
    let valid = place.run(&["toolpacks", "validate"]);
    assert_eq!(valid.status.code(), Some(1), "{valid:?}");
    let servers = place.json(&["servers", "list"]);
    let words: &Value =
        servers.as_array().unwrap().iter().find(|one| one["id"] == "words").unwrap();
    assert_eq!(words["state"], "refused", "{words}");

    // Installing it again puts things right, and it is off again.
    place.ok(&["toolpacks", "install", folder.to_str().unwrap()]);
    place.ok(&["toolpacks", "enable", "words"]);
    assert!(gateway.tool_names(&gateway.token).await.contains(&"say".to_owned()));
}

#[test]
fn a_new_pack_is_valid_and_can_be_installed() {
    let place = TestFolder::new("");
    let written = place.ok(&["toolpacks", "new", "my-pack"]);
    assert!(written.contains("drawgate toolpacks install ./my-pack"), "{written}");
    assert_eq!(place.ok(&["toolpacks", "validate", "./my-pack"]), "./my-pack: valid\n");
    place.ok(&["toolpacks", "install", "./my-pack"]);
    place.ok(&["toolpacks", "enable", "my-pack"]);
    assert_eq!(place.run(&["toolpacks", "lock", "verify"]).status.code(), Some(0));
    let again = place.ok(&["toolpacks", "install", "my-pack"]);
    assert!(again.contains("installed already"), "{again}");
    let taken = place.run(&["toolpacks", "new", "my-pack"]);
    assert!(text(&taken.stderr).contains("already there"), "{taken:?}");
}

#[test]
fn nothing_is_made_where_nobody_uses_packs() {
    let place = TestFolder::new("");
    assert!(place.ok(&["toolpacks", "list"]).contains("drawgate toolpacks install"));
    assert!(!place.path().join("toolpacks").exists());
    let unknown = place.run(&["toolpacks", "show", "none"]);
    assert!(refusal(&unknown).contains("no toolpack `none` is installed"), "{unknown:?}");
}
