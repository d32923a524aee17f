//! Packs from a repository: pinned to a commit, and changed only after a yes.

use http::StatusCode;
use serde_json::{Value, json};

use super::github::{FileServer, commit, locked};
use super::{commands, listed, refusal};
use crate::support::{TestFolder, text};

fn version(number: &str, tools: &[(&str, &str)]) -> Value {
    let mut manifest = commands("pack", tools);
    manifest["version"] = number.into();
    manifest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_is_pinned_to_its_commit_and_hashes() {
    let github = FileServer::start().await;
    let place = TestFolder::new(&github.config());
    github.publish("v1.0.0", &commit('a'), &version("1.0.0", &[("say", "echo -- {{what}}")]));
    let installed = place
        .command(&["toolpacks", "install", "octo/pack@v1.0.0"])
        .env("GITHUB_TOKEN", "token-of-the-test")
        .output()
        .unwrap();
    let said = text(&installed.stdout);
    assert!(installed.status.success(), "{said}{}", text(&installed.stderr));
    assert!(said.contains("github:octo/pack@v1.0.0 (commit aaaaaaaaaaaa)"), "{said}");
    assert_eq!(github.tokens(), ["Bearer token-of-the-test", "Bearer token-of-the-test"]);
    let entry = locked(&place, "pack");
    assert_eq!(entry["commit"], commit('a'));
    assert_eq!(entry["ref"], "v1.0.0");
    assert_eq!(entry["source"], "github:octo/pack");
    for hash in [&entry["contentHash"], &entry["archiveHash"]] {
        assert!(hash.as_str().unwrap().starts_with("sha256:"), "{entry}");
    }
    assert!(!entry["definitions"]["say"].as_str().unwrap().is_empty(), "{entry}");
    assert!(place.path().join("toolpacks/pack/data/large.txt").exists());

    // The same commit with something else in it: nothing changes.
    github.publish("v1.0.0", &commit('a'), &version("1.0.0", &[("say", "printf -- {{what}}")]));
    let refused = refusal(&place.run(&["toolpacks", "install", "octo/pack@v1.0.0"]));
    assert!(refused.contains("tampered"), "{refused}");
    assert_eq!(locked(&place, "pack"), entry);
    // The same tag at another commit: that is an update, and not an installation.
    github.publish("v1.0.0", &commit('b'), &version("1.0.0", &[("say", "printf -- {{what}}")]));
    let refused = refusal(&place.run(&["toolpacks", "install", "octo/pack@v1.0.0"]));
    assert!(refused.contains("drawgate toolpacks update pack"), "{refused}");
    assert_eq!(locked(&place, "pack"), entry);
    assert_eq!(place.run(&["toolpacks", "lock", "verify"]).status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_shows_the_difference_and_waits_for_a_yes() {
    let github = FileServer::start().await;
    let place = TestFolder::new(&github.config());
    let gateway = place.serve();
    github.publish(
        "main",
        &commit('a'),
        &version("1.0.0", &[("say", "echo -- {{what}}"), ("old", "ls -- {{dir}}")]),
    );
    place.ok(&["toolpacks", "install", "octo/pack"]);
    place.ok(&["toolpacks", "enable", "pack"]);
    assert_eq!(place.ok(&["toolpacks", "update"]), "`pack` is up to date\n");

    let mut next = version("1.1.0", &[("say", "echo -n -- {{what}}"), ("new", "ls -- {{dir}}")]);
    next["permissions"] = json!({ "hosts": ["api.example.com"] });
    github.publish("main", &commit('b'), &next);
    let waits = place.run(&["toolpacks", "update", "pack"]);
    let said = text(&waits.stdout);
    assert_eq!(waits.status.code(), Some(1), "{said}");
    for words in
        ["1.0.0 becomes 1.1.0", "+ tool new", "- tool old", "say", "api.example.com", "--yes"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(locked(&place, "pack")["commit"], commit('a'));
    assert!(gateway.tool_names(&gateway.token).await.contains(&"old".to_owned()));

    let done = place.json(&["toolpacks", "update", "pack", "--yes"]);
    assert_eq!(done[0]["outcome"], "updated", "{done}");
    assert_eq!(done[0]["toolpack"]["state"], "enabled", "what was on stays on: {done}");
    assert_eq!(locked(&place, "pack")["commit"], commit('b'));
    listed(&gateway, "new").await;
    assert!(!gateway.tool_names(&gateway.token).await.contains(&"old".to_owned()));
    let event = super::events(&place, "toolpack_updated").pop().unwrap();
    assert_eq!(event["commit"], commit('b'));
    assert!(event["contentHashBefore"].is_string(), "{event}");

    github.publish("main", &commit('c'), &version("0.9.0", &[("say", "echo -- {{what}}")]));
    let older = place.run(&["toolpacks", "update", "--yes"]);
    assert_eq!(older.status.code(), Some(1));
    assert!(text(&older.stdout).contains("--allow-downgrade"), "{older:?}");
    place.ok(&["toolpacks", "update", "--yes", "--allow-downgrade"]);
    assert_eq!(locked(&place, "pack")["version"], "0.9.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_asked_again_too() {
    let place = TestFolder::new("");
    let folder = super::write(&place, &version("1.0.0", &[("say", "echo -- {{what}}")]));
    super::install(&place, &folder);
    assert_eq!(place.ok(&["toolpacks", "update", "pack"]), "`pack` is up to date\n");
    super::write(&place, &version("1.0.1", &[("say", "echo -- {{what}}")]));
    let done = place.ok(&["toolpacks", "update", "pack", "--yes"]);
    assert!(done.contains("updated `pack`"), "{done}");
    let other = place.run(&["toolpacks", "update", "none"]);
    assert!(refusal(&other).contains("no toolpack `none` is installed"), "{other:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_github_are_explained() {
    let github = FileServer::start().await;
    let place = TestFolder::new(&github.config());
    let install = |source: &str| refusal(&place.run(&["toolpacks", "install", source]));
    let missing = install("octo/none");
    assert!(
        missing.contains("GitHub knows no `octo/none") && missing.contains("GITHUB_TOKEN"),
        "{missing}"
    );
    github.refuse(
        StatusCode::FORBIDDEN,
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000000")],
    );
    let limited = install("octo/pack");
    assert!(limited.contains("no more requests until 2027-01-15"), "{limited}");
    github.refuse(StatusCode::UNAUTHORIZED, &[]);
    assert!(install("octo/pack").contains("does not accept the token"));
    let neither = install("https://example.com/x");
    assert!(neither.contains("neither a folder nor a repository"), "{neither}");
    let nothing = install("./no/such/folder");
    assert!(nothing.contains("no/such/folder"), "{nothing}");
    assert_eq!(place.json(&["toolpacks", "list"])["toolpacks"], json!([]));
}
