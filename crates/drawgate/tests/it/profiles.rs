//! Profiles of agents, from their files to the operator's consent.

use std::fs;

use serde_json::json;

use crate::support::{TestFolder, eventually, text};

const HELPER: &str = "---\nname: helper\ndescription: Helps\ntools: [vfs_read]\nceiling: [file.read]\n\
                      budget: {tokens: 1000}\npermissionMode: plan\nagents: [worker]\n---\nHelp.\n";

fn place(files: &[(&str, &str)]) -> TestFolder {
    let place = TestFolder::new("");
    fs::create_dir(place.path().join("agents")).unwrap();
    for (name, content) in files {
        fs::write(place.path().join("agents").join(name), content).unwrap();
    }
    place
}

#[test]
fn checks_name_every_mistake_and_need_no_gateway() {
    let bad = "---\nname: bad\nbudget: {token: 5}\ntemperature: hot\n---\nHelp.\n";
    let place = place(&[("bad.md", bad), ("helper.md", HELPER)]);
    let output = place.run(&["profiles", "check"]);
    assert!(!output.status.success());
    insta::assert_snapshot!(text(&output.stdout).replace(&place.path().display().to_string(), "."), @r"
    agents/bad.md: can't be used
      problem: line 3: `budget.token`: unknown field; did you mean `tokens`?
      problem: line 4: `temperature`: must be a number from 0 to 2
    agents/helper.md: `helper` is valid
      warning: line 7: `permissionMode`: ignored: a file can't permit calls; grants and policy rules do
    ");
    let report = place.json(&["profiles", "check", "agents/helper.md"]);
    assert_eq!(report[0]["valid"], true);
    assert!(!place.data().exists(), "a check leaves no data folder behind");
}

#[test]
fn a_profile_is_shown_accepted_and_removed_without_a_gateway() {
    let place = place(&[("helper.md", HELPER)]);
    let state = || place.json(&["profiles", "list"])[0]["state"].clone();
    assert_eq!(state(), json!("new"));
    let refused = place.run(&["profiles", "accept", "helper"]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("add `--yes`"), "{}", text(&refused.stderr));
    let shown = place.ok(&["profiles", "accept", "helper", "--yes"]);
    for line in [
        "tools         vfs_read",
        "agents        worker",
        "ceiling       file.read",
        "1000 tokens",
        "permissionMode",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.ends_with("accepted `helper`\n"), "{shown}");
    assert_eq!(state(), json!("accepted"));
    assert!(place.ok(&["profiles", "show", "helper"]).contains("instructions:\nHelp.\n"));
    assert!(place.ok(&["audit", "tail"]).contains("profile_accepted"));
    place.ok(&["profiles", "remove", "helper"]);
    assert_eq!(state(), json!("new"));
    let unknown = place.run(&["profiles", "show", "nobody"]);
    assert!(text(&unknown.stderr).contains("`drawgate profiles list` shows them"));
}

#[test]
fn a_check_finds_unknown_models_and_taken_names() {
    let tool =
        |name: &str, more: &str| format!("  - {{name: {name}, description: d, prompt: p{more}}}\n");
    let one = format!(
        "---\nname: one\ndescription: d\nmodel: nowhere/big\ntools:\n{}{}{}---\nHelp.\n",
        tool("vfs_read", ""),
        tool("spawn_agent", ""),
        tool("shared", ", public: true"),
    );
    let other = format!(
        "---\nname: other\ndescription: d\ntools:\n{}---\nHelp.\n",
        tool("shared", ", model: none")
    );
    let place = place(&[("one.md", &one), ("other.md", &other)]);
    let output = place.run(&["profiles", "check"]);
    assert!(!output.status.success());
    let said = text(&output.stdout);
    for expected in [
        "problem: `model`: unknown model `nowhere/big`",
        "tool `vfs_read`: `name`: `vfs_read` is the name of a built-in tool; choose another",
        "tool `spawn_agent`: `name`: `spawn_agent` is the name of a tool of all agents",
        "tool `shared`: `name`: `shared` is the name of a public tool of the profile `one`",
        "tool `shared`: `model`: unknown model `none`",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn a_profile_that_is_accepted_again_shows_what_has_changed() {
    let place = place(&[("helper.md", HELPER)]);
    place.ok(&["profiles", "accept", "helper", "--yes"]);
    fs::write(place.path().join("agents/helper.md"), HELPER.replace("Help.", "Harm.")).unwrap();
    let shown = place.ok(&["profiles", "accept", "helper", "--yes"]);
    assert!(
        shown.contains("what has changed:\n") && shown.contains("\n  - Help.\n  + Harm.\n"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_running_gateway_follows_the_files() {
    let place = place(&[("helper.md", HELPER)]);
    let _gateway = place.serve();
    place.ok(&["profiles", "accept", "--all", "--yes"]);
    assert_eq!(place.json(&["profiles", "show", "helper"])["state"], "accepted");
    fs::write(place.path().join("agents/helper.md"), HELPER.replace("Help.", "Harm.")).unwrap();
    eventually("the change", async || {
        let shown = place.json(&["profiles", "show", "helper"]);
        (shown["state"] == "changed").then_some(())
    })
    .await;
}
