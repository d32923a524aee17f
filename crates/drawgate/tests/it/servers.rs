//! `drawgate servers add`, `remove`, `enable`, `disable`, `restart`, `logs`, with the real program.

use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::load::{events, fixture};
use crate::support::{TestFolder, text};

/// A server of the npm registry that the tests of clients have installed.
pub(crate) fn everything() -> Option<String> {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/clients/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    );
    let found = std::fs::canonicalize(script).ok()?;
    Some(found.to_str().unwrap().to_owned())
}

fn config(place: &TestFolder) -> String {
    std::fs::read_to_string(place.path().join("drawgate.toml")).unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn state<'a>(servers: &'a Value, name: &str) -> Option<&'a Value> {
    servers.as_array().unwrap().iter().find(|server| server["id"] == name)
}

#[test]
fn a_server_is_added_switched_and_removed_while_the_gateway_runs() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
    let start = "# Ours.\n\n[limits]\ntimeout_seconds = 17 # enough\n";
    let place = TestFolder::new(start);
    let _gateway = place.serve();
    let added = place.ok(&["servers", "add", "fix", "--sandbox", "none", "--", "python3", script]);
    assert!(added.contains("it is in force\nfix: ready, 10 tools"), "{added}");
    let table = format!(
        "\n[servers.fix]\ncommand = \"python3\"\nargs = [\"{script}\"]\nsandbox = \"none\"\n"
    );
    assert_eq!(config(&place), format!("{start}{table}"));
    assert!(place.ok(&["tools", "call", "fix__echo", "a=1"]).contains('1'));

    let disabled = place.ok(&["servers", "disable", "fix"]);
    assert!(disabled.contains("disabled: `fix`") && disabled.contains("it is in force"));
    assert_eq!(config(&place), format!("{start}{table}enabled = false\n"));
    let listed = place.json(&["servers", "list"]);
    assert_eq!(state(&listed, "fix").unwrap()["state"], "disabled", "{listed}");
    let enabled = place.json(&["servers", "enable", "fix"]);
    assert_eq!(enabled["outcome"], "in_force", "{enabled}");
    assert_eq!(enabled["state"]["state"], "ready", "{enabled}");
    assert!(place.ok(&["servers", "enable", "fix"]).contains("`fix` is enabled already"));

    let pid =
        || state(&place.json(&["servers", "list"]), "fix").unwrap()["diagnostics"]["pid"].clone();
    let before = pid();
    assert!(place.ok(&["servers", "restart", "fix"]).contains("fix: ready, 10 tools"));
    assert_ne!(pid(), before);
    let restarted = events(&place).into_iter().find(|event| event["kind"] == "server_restarting");
    let restarted = restarted.unwrap();
    assert_eq!((&restarted["server"], &restarted["principal"]), (&json!("fix"), &json!("local")));

    assert!(place.ok(&["servers", "remove", "fix"]).contains("removed: `fix`"));
    assert_eq!(config(&place), format!("{start}"));
    assert_eq!(state(&place.json(&["servers", "list"]), "fix"), None);
}

#[test]
fn a_server_from_npm_is_added_and_called() {
    let Some(script) = everything() else {
        eprintln!("skipped: `npm ci` in tests/clients installs the server");
        return;
    };
    let place = TestFolder::new("");
    let _gateway = place.serve();
    let added = place.ok(&["servers", "add", "everything", "--", "node", &script, "stdio"]);
    assert!(added.contains("everything: ready"), "{added}");
    let called = place.ok(&["tools", "call", "everything__echo", "message=hello"]);
    assert!(called.contains("hello"), "{called}");
    let logs = place.ok(&["servers", "logs", "everything"]);
    assert!(logs.contains("Starting default (STDIO) server"), "{logs}");
}

#[test]
fn without_a_gateway_the_file_is_checked_and_written() {
    let place = TestFolder::new("");
    std::fs::remove_file(place.path().join("drawgate.toml")).unwrap();
    let added = place.ok(&["servers", "add", "a", "--url", "wss://a.example/mcp"]);
    let data = place.path().canonicalize().unwrap().join(".drawgate");
    let file = data.join("drawgate.toml");
    assert!(added.contains(&format!("in the new file `{}`", file.display())), "{added}");
    assert!(added.contains(&format!("`drawgate serve --data {}` starts one", data.display())));
    let config = |_: &TestFolder| std::fs::read_to_string(&file).unwrap();
    let expected = "[servers.a]\ntransport = \"websocket\"\nurl = \"wss://a.example/mcp\"\n";
    assert_eq!(config(&place), expected);
    place.ok(&["servers", "remove", "a"]);
    assert_eq!(config(&place), "");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1, "nothing else was made");
    // Paths and programs are meant as they are seen from here.
    place.ok(&["servers", "add", "b", "--read", "notes", "--", "./run.sh", "..", "x"]);
    let here = place.path().canonicalize().unwrap();
    let written: toml::Table = config(&place).parse().unwrap();
    let server = &written["servers"]["b"];
    assert_eq!(server["command"].as_str(), here.join("run.sh").to_str());
    assert_eq!(server["args"][1].as_str(), Some("x"));
    assert_eq!(server["permissions"]["read"][0].as_str(), here.join("notes").to_str());
}

#[test]
fn what_would_be_refused_is_not_written() {
    let start = format!("# Kept.\n{}", fixture());
    let place = TestFolder::new(&start);
    let secret = "sk-abcdefghijklmnopqrstuvwx";
    let env = format!("KEY={secret}");
    let header = format!("X-Key={secret}");
    let arg = format!("--key={secret}");
    let url = "https://a.example/mcp";
    for (args, expected) in [
        (vec!["add", "fixture", "--", "x"], "there is a server `fixture` already"),
        (vec!["add", "builtin", "--", "x"], "was left as it is: it would have mistakes"),
        (vec!["add", "a b", "--", "x"], "`a b` is not a valid source id"),
        (vec!["add", "a", "--", "env:X"], "can't stand in a command line"),
        (vec!["add", "a", "--url", "ftp://a.example"], "was left as it is: it would have mistakes"),
        (vec!["add", "a", "--env", "A", "--", "x"], "write `--env NAME=env:VARIABLE`"),
        (vec!["add", "a", "--env", "A=env:", "--", "x"], "the reference names no variable"),
        (vec!["add", "a", "--env", &env, "--", "x"], "the value of `KEY` looks like a secret"),
        (
            vec!["add", "a", "--url", url, "--header", &header],
            "write `--header X-Key=env:VARIABLE`",
        ),
        (vec!["add", "a", "--", "x", &arg], "an argument looks like a secret"),
        (vec!["add", "a", "--allow-host", "a b", "--", "x"], "`a b`"),
        (vec!["add", "a"], "required"),
        (vec!["add", "a", "--url", url, "--", "x"], "cannot be used with"),
        (vec!["add", "a", "--url", url, "--env", "A=b"], "`env` has no meaning"),
        (vec!["remove", "fixtur"], "did you mean `fixture`?"),
        (vec!["enable", "none"], "the configuration has no server `none`"),
        (vec!["restart", "fixture"], "no gateway is running"),
        (vec!["logs", "fixture"], "no gateway is running"),
    ] {
        let output = place.run(&[&["servers"], args.as_slice()].concat());
        let said = said(&output);
        assert!(!output.status.success() && said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains(secret), "{said}");
        assert_eq!(config(&place), start, "{args:?}");
    }
    let none =
        place.command(&["servers", "add", "a", "--", "x"]).env("DRAWGATE_CONFIG", "none").output();
    assert!(said(&none.unwrap()).contains("there is no file to change"));
}

#[test]
fn a_file_with_mistakes_is_left_alone_until_the_change_repairs_it() {
    let broken = "[servers.a]\ncomand = \"x\"\n\n[servers.b]\ncommand = \"y\"\n";
    let place = TestFolder::new(broken);
    let output = place.run(&["servers", "add", "c", "--", "x"]);
    let text = said(&output);
    assert!(text.contains("it would have mistakes") && text.contains("`comand`"), "{text}");
    assert_eq!(config(&place), broken);
    place.ok(&["servers", "remove", "a"]);
    assert_eq!(config(&place), "[servers.b]\ncommand = \"y\"\n");
}

#[test]
fn a_server_that_does_not_start_is_in_force_and_explained() {
    let place = TestFolder::new("");
    let _gateway = place.serve();
    let output = place.run(&["servers", "add", "a", "--", "no-such-program"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("it is in force") && text.contains("no-such-program"), "{text}");
    let output =
        place.run(&["servers", "add", "b", "--env", "A=env:NOT_SET_ANYWHERE", "--", "cat"]);
    let text = said(&output);
    assert!(text.contains("the environment variable `NOT_SET_ANYWHERE` is not set"), "{text}");
}

#[test]
fn a_gateway_that_follows_another_file_is_told_of() {
    let place = TestFolder::new("");
    let _gateway = place.serve();
    std::fs::write(place.path().join("other.toml"), "").unwrap();
    let add = ["servers", "add", "a", "--config", "other.toml", "--", "cat"];
    let added = place.ok(&add);
    assert!(
        added.contains("the gateway that runs follows") && added.contains("drawgate.toml"),
        "{added}"
    );
    // Without a name it is the file of the gateway that is changed, from every folder.
    let data = place.data();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = place.command(&["servers", "disable", "a", "--data", data.to_str().unwrap()]);
    let output =
        command.current_dir(elsewhere.path()).env_remove("DRAWGATE_CONFIG").output().unwrap();
    assert!(said(&output).contains("the configuration has no server `a`"), "{}", said(&output));
    let mut command = place.command(&[
        "servers",
        "add",
        "b",
        "--data",
        data.to_str().unwrap(),
        "--url",
        "http://127.0.0.1:9/mcp",
    ]);
    let output =
        command.current_dir(elsewhere.path()).env_remove("DRAWGATE_CONFIG").output().unwrap();
    assert!(said(&output).contains("it is in force"), "{}", said(&output));
    assert!(config(&place).contains("[servers.b]"));
}

#[test]
fn logs_are_followed_and_secrets_in_them_masked() {
    let script = "import os, sys\nfor line in sys.stdin:\n    sys.stderr.write('got ' + os.environ['KEY'] + '\\n')\n    sys.stderr.flush()\n";
    let place = TestFolder::new("");
    std::fs::write(place.path().join("talker.py"), script).unwrap();
    let path = place.path().join("talker.py");
    let _gateway = place.serve_with(|command| {
        command.env("TALKER_KEY", "a-secret-of-the-talker");
    });
    let mut add = place.command(&[
        "servers",
        "add",
        "talker",
        "--sandbox",
        "none",
        "--env",
        "KEY=env:TALKER_KEY",
        "--",
        "python3",
        path.to_str().unwrap(),
    ]);
    // It never answers; what it says meanwhile is there all the same.
    let mut adding = add.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let follow = || {
        let mut follow = place.command(&["servers", "logs", "talker", "--follow"]);
        follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let line = loop {
        assert_eq!(adding.try_wait().unwrap(), None, "the server waits for an answer");
        let mut child = follow();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        // Empty as long as the gateway does not know the server.
        if !line.is_empty() {
            break line;
        }
    };
    assert_eq!(line.trim_end(), "got ****");
    adding.kill().unwrap();
    adding.wait().unwrap();
    let log = place.json(&["servers", "logs", "talker"]);
    assert_eq!(log["lines"][0], "got ****", "{log}");
    let output = place.run(&["servers", "logs", "builtin"]);
    assert!(said(&output).contains("is not an MCP server"), "{}", said(&output));
}
