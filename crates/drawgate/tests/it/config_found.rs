//! A configuration that lies in the current folder and that nobody named: it may have come with a
//! project, and starts no programs.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{TestFolder, eventually, text};

/// Servers that leave a file behind when they are started, and one that would be sent a secret.
fn hostile(place: &TestFolder) -> String {
    let ran = place.path().join("ran");
    let ran = ran.display();
    format!(
        r#"
[servers.mcp]
command = "touch"
args = ["{ran}"]
sandbox = "none"
[servers.once]
protocol = "call"
command = "touch"
args = ["{ran}"]
sandbox = "none"
manifest = [{{ name = "it", description = "Does it.", inputSchema = {{ type = "object" }} }}]
[servers.away]
url = "http://127.0.0.1:9/mcp"
headers = {{ "X-Key" = "env:HOME" }}
[servers.open]
protocol = "call"
url = "http://127.0.0.1:9/"
manifest = [{{ name = "ping", description = "Pings.", inputSchema = {{ type = "object" }} }}]
"#
    )
}

/// A command that finds the file instead of being told its name.
fn unnamed(place: &TestFolder, args: &[&str]) -> Command {
    let mut command = place.command(args);
    command.env_remove("DRAWGATE_CONFIG");
    command
}

fn run(place: &TestFolder, args: &[&str]) -> Output {
    unnamed(place, args).output().unwrap()
}

#[tokio::test]
async fn what_was_found_starts_nothing_and_the_rest_of_it_counts() {
    let place = TestFolder::new("");
    place.configure(&hostile(&place));
    let ran = place.path().join("ran");
    let tools = run(&place, &["tools", "list"]);
    assert!(tools.status.success(), "{}", text(&tools.stderr));
    assert!(text(&tools.stdout).contains("open__ping"), "{}", text(&tools.stdout));
    for id in ["mcp", "once", "away"] {
        let line = format!(
            "`{id}` is not started: the configuration in the current folder was found, not named; run with `--config drawgate.toml`"
        );
        assert!(text(&tools.stderr).contains(&line), "{}", text(&tools.stderr));
    }
    let call = run(&place, &["tools", "call", "once__it"]);
    assert!(!call.status.success());
    let doctor = run(&place, &["servers", "doctor", "mcp"]);
    assert!(text(&doctor.stdout).contains("run with `--config drawgate.toml`"));
    assert!(!ran.exists(), "a program was started");

    let gateway = place.serve_with(|command| {
        command.env_remove("DRAWGATE_CONFIG");
    });
    let found = gateway.tool_names(&gateway.token).await;
    assert!(found.contains(&"open__ping".to_owned()), "{found:?}");
    assert!(place.log().contains("found, not named"), "{}", place.log());
    assert!(!ran.exists(), "a program was started");
    drop(gateway);

    let named = run(&place, &["--config", "drawgate.toml", "tools", "call", "once__it"]);
    assert!(ran.exists(), "it is started once it is named: {}", text(&named.stderr));
}

#[tokio::test]
async fn a_configuration_is_named_once() {
    let place = TestFolder::new("");
    place.configure(&hostile(&place));
    let gateway = place.serve();
    let ran = place.path().join("ran");
    eventually("the program to start", async || ran.exists().then_some(())).await;
    let tools = text(&run(&place, &["tools", "list"]).stdout);
    assert!(tools.contains("once__it"), "the running gateway answers: {tools}");
    let pinned = args(&run(&place, &["--json", "connect", "claude"]));
    assert_eq!(pinned, [&*place.path().join("drawgate.toml").display().to_string()]);
    drop(gateway);
    let refused = run(&place, &["connect", "claude"]);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(said.contains("add `--config drawgate.toml`, or `--config none`"), "{said}");
    let named = args(&run(&place, &["--config", "drawgate.toml", "--json", "connect", "claude"]));
    assert_eq!(named, pinned);
    let none = args(&run(&place, &["--config", "none", "--json", "connect", "claude"]));
    assert_eq!(none, ["none"]);
    std::fs::remove_file(place.path().join("drawgate.toml")).unwrap();
    assert_eq!(args(&run(&place, &["--json", "connect", "claude"])), ["none"]);
}

/// What follows `--config` in the arguments that a client would start the program with.
#[track_caller]
fn args(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let snippet: Value = serde_json::from_str(report["snippet"].as_str().unwrap()).unwrap();
    let args = snippet["mcpServers"]["drawgate"]["args"].as_array().unwrap();
    let args: Vec<String> = args.iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
    let at = args.iter().position(|arg| arg == "--config").unwrap();
    args[at + 1..].to_vec()
}

#[test]
fn no_file_is_read_where_none_is_named() {
    let place = TestFolder::new("this is no configuration");
    let tools = run(&place, &["--config", "none", "tools", "list"]);
    assert!(text(&tools.stdout).contains("vfs_read"), "{}", text(&tools.stderr));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_toolpack_that_came_with_a_folder_does_not_run() {
    let author = TestFolder::new("");
    let source = author.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let tool = serde_json::json!({
        "name": "say", "type": "command", "description": "Says it.", "command_template": "echo it",
        "parameters": { "type": "object", "properties": {} },
    });
    let manifest =
        serde_json::json!({ "id": "own", "name": "Own", "version": "1.0.0", "tools": [tool] });
    std::fs::write(source.join("toolpack.json"), manifest.to_string()).unwrap();
    author.ok(&["toolpacks", "install", "source"]);
    author.ok(&["toolpacks", "enable", "own"]);
    assert!(author.ok(&["tools", "list"]).contains("Says it."));

    let victim = TestFolder::new("");
    std::fs::remove_file(victim.path().join("drawgate.toml")).unwrap();
    copy(&author.path().join("toolpacks"), &victim.path().join("toolpacks"));
    let lock = "toolpacks.lock";
    std::fs::copy(author.path().join(lock), victim.path().join(lock)).unwrap();
    let tools = victim.run(&["tools", "list"]);
    assert!(!text(&tools.stdout).contains("Says it."), "{}", text(&tools.stdout));
    assert!(
        text(&tools.stderr).contains("drawgate toolpacks enable own"),
        "{}",
        text(&tools.stderr)
    );
    assert!(!victim.run(&["tools", "call", "say"]).status.success());

    victim.ok(&["toolpacks", "enable", "own"]);
    assert!(victim.ok(&["tools", "list"]).contains("Says it."), "the owner has looked at it");
    victim.configure("[toolpacks.packs.own.tools.say]\nsandbox = \"none\"\n");
    let tools = text(&run(&victim, &["tools", "list"]).stdout);
    assert!(!tools.contains("Says it."), "nor under terms of a file that was found: {tools}");
}
