//! The command line as people and scripts use it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::load::{fixture, offers};
use crate::support::{TestFolder, text};

/// Every command, with what a person must learn from its help.
const HELP: &[(&[&str], &str)] = &[
    (&[], "drawgate connect claude --write"),
    (&["serve"], "packs and agents over gRPC, at one address"),
    (&["mcp"], "standard input and output"),
    (&["init"], "never overwritten"),
    (&["config", "check"], "every problem with its location"),
    (&["config", "show"], "secrets are never shown"),
    (&["config", "schema"], "for editors"),
    (&["config", "policy-schema"], "for editors"),
    (&["secrets", "set"], "asked for at a terminal without showing it"),
    (&["secrets", "list"], "values are never shown"),
    (&["status"], "every tool and every live grant"),
    (&["service", "install"], "does not see those of your shell"),
    (&["service", "remove"], "configuration and data stay"),
    (&["tools", "list"], "As this agent sees them"),
    (&["tools", "show"], "in full"),
    (&["tools", "call"], "read by the type that the tool declares"),
    (&["servers", "list"], "their state"),
    (&["servers", "add"], "A secret never stands in a command line"),
    (&["servers", "fetch"], "with the registry that it is configured for"),
    (&["servers", "allow"], "asks about each thing that the server was refused"),
    (&["servers", "remove"], "the comment right above it goes too"),
    (&["servers", "enable"], "that was disabled"),
    (&["servers", "disable"], "its settings stay"),
    (&["servers", "restart"], "start it again"),
    (&["servers", "logs"], "the last 256 lines, secrets masked"),
    (&["servers", "doctor"], "what to do"),
    (&["servers", "login"], "agrees in a browser"),
    (&["servers", "logout"], "revoke the tokens"),
    (&["servers", "review"], "exits 3 if"),
    (&["agents", "add"], "Print the token alone"),
    (&["agents", "list"], "what they may do"),
    (&["agents", "rotate"], "the old one stops working immediately"),
    (&["agents", "remove"], "its token stops working immediately"),
    (&["keys", "add"], "standard input"),
    (&["keys", "list"], "that can't be used"),
    (&["keys", "remove"], "connections that use them close immediately"),
    (&["keys", "server"], "the gateway's own key"),
    (&["grants", "add"], "`90s`, `15m`, `8h`, `7d`"),
    (&["grants", "list"], "that are live"),
    (&["grants", "revoke"], "covers no further call"),
    (&["approvals", "list"], "--all"),
    (&["approvals", "watch"], "and a notification of the desktop"),
    (&["approvals", "show"], "in full"),
    (&["approvals", "approve"], "the waiting call continues"),
    (&["approvals", "deny"], "the waiting call is refused"),
    (&["audit", "tail"], "--follow"),
    (&["audit", "search"], "Who deleted the file at 14:05?"),
    (&["audit", "show"], "by sequence, call id, request id or approval id"),
    (&["audit", "export"], "one a line"),
    (&["audit", "prune"], "a signed record"),
    (&["audit", "anchor"], "kept elsewhere"),
    (&["audit", "verify"], "Exits 0 if the log is intact and signed"),
    (&["backup"], "of one moment, verified, whole or not at all"),
    (&["restore"], "never overwritten"),
    (&["artifacts", "list"], "newest first"),
    (&["artifacts", "get"], "or write it to a file"),
    (&["artifacts", "remove"], "Its hash or its URI"),
    (&["packs", "list"], "List packs that are connected"),
    (&["packs", "show"], "Show one pack and its tools"),
    (&["packs", "kick"], "its tools are removed immediately"),
    (&["plugins", "list"], "whether they are at work"),
    (&["plugins", "show"], "what it asks for, its tools, hooks and settings"),
    (&["plugins", "check"], "every problem with its field"),
    (&["plugins", "add"], "put it to work after a yes"),
    (&["plugins", "enable"], "one that failed is tried again"),
    (&["plugins", "disable"], "its settings stay"),
    (&["plugins", "set"], "how it is asked about calls"),
    (&["plugins", "remove"], "that was added, and its copy"),
    (&["profiles", "list"], "whether they are accepted"),
    (&["profiles", "show"], "limits and instructions"),
    (&["profiles", "check"], "exits 1 if there is one"),
    (&["profiles", "accept"], "after a yes"),
    (&["profiles", "remove"], "its file stays"),
    (&["profiles", "new"], "to start from"),
    (&["providers", "list"], "List the configured providers"),
    (&["providers", "add"], "The key is not an option"),
    (&["providers", "check"], "which shows that addresses and keys are right"),
    (&["run"], "Ctrl-C cancels the run and everything below it"),
    (&["runs", "list"], "newest first"),
    (&["runs", "show"], "its steps, its budget"),
    (&["runs", "follow"], "until it ends"),
    (&["runs", "cancel"], "everything below it"),
    (&["runs", "resume"], "that was suspended"),
    (&["threads", "list"], "newest first"),
    (&["threads", "show"], "Show a conversation"),
    (&["threads", "say"], "the agent goes on with it"),
    (&["tasks", "list"], "newest first"),
    (&["tasks", "show"], "what reviewers said"),
    (&["toolpacks", "list"], "List installed toolpacks"),
    (&["toolpacks", "install"], "it stays off until you enable it"),
    (&["toolpacks", "enable"], "callers can use its tools immediately"),
    (&["toolpacks", "disable"], "callers can't use its tools any more"),
    (&["toolpacks", "show"], "what it is able to do"),
    (&["toolpacks", "validate"], "every problem with its place"),
    (&["toolpacks", "doctor"], "Exits 1 if something fails"),
    (&["toolpacks", "remove"], "Remove a toolpack"),
    (&["toolpacks", "update"], "show what would change"),
    (&["toolpacks", "new"], "Write a toolpack to start from"),
    (&["toolpacks", "schema"], "for editors"),
    (&["toolpacks", "lock", "verify"], "exits 1 if something differs"),
    (&["sandbox", "exec"], "Try to break out"),
    (&["sandbox", "doctor"], "exits 1 if the default one does not"),
    (&["connect"], "a copy is kept in the data folder"),
    (&["disconnect"], "everything else in it stays"),
    (&["import"], "Secrets are not copied into the configuration"),
    (&["completions"], "bash"),
];

/// The names under `Commands:` in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap();
    let named = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_a_help_that_teaches() {
    let place = TestFolder::new("");
    let help = |args: &[&str]| place.ok(&[args, &["--help"]].concat());
    let of_all = "Options of every command:";
    for (args, lesson) in HELP {
        let text = help(args).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(lesson), "{args:?}: {text}");
        assert!(
            text.contains("--config") && text.contains("DRAWGATE_DATA") && text.contains("--json"),
            "{args:?}"
        );
        let (own, of_every) = text.split_once(of_all).unwrap_or_else(|| panic!("{args:?}: {text}"));
        assert!(own.contains("--help") && !own.contains("--config <FILE>"), "{args:?}: {text}");
        assert!(of_every.contains("--config <FILE>"), "{args:?}: {text}");
    }
    for command in subcommands(&help(&[])) {
        let below = subcommands(&help(&[&command]));
        let rows = HELP.iter().filter(|(args, _)| args.first() == Some(&command.as_str())).count();
        assert_eq!(rows, below.len().max(1), "`{command}` has a command that is not in the table");
    }
}

#[test]
fn global_options_stand_anywhere_and_in_the_environment() {
    let place = TestFolder::new("");
    let other = place.path().join("other.toml");
    std::fs::write(&other, "[limits]\ntimeout_seconds = 17\n").unwrap();
    let config = other.to_str().unwrap();
    let expected = json!(17);
    let seen = |output: &str| {
        serde_json::from_str::<Value>(output).unwrap()["limits"]["timeout_seconds"].clone()
    };
    assert_eq!(seen(&place.ok(&["--config", config, "config", "show"])), expected);
    assert_eq!(seen(&place.ok(&["config", "--config", config, "show"])), expected);
    assert_eq!(seen(&place.ok(&["config", "show", "--config", config])), expected);
    let output =
        place.command(&["config", "show"]).env("DRAWGATE_CONFIG", config).output().unwrap();
    assert_eq!(seen(&text(&output.stdout)), expected);

    place.ok(&["--data", "first", "agents", "add", "ann"]);
    place.ok(&["agents", "add", "ann", "--data", "second"]);
    assert!(
        place
            .command(&["agents", "add", "ann"])
            .env("DRAWGATE_DATA", "third")
            .output()
            .unwrap()
            .status
            .success()
    );
    for folder in ["first", "second", "third"] {
        assert!(place.path().join(folder).join("admin.token").exists(), "{folder}");
    }
    assert!(!place.data().exists());

    for args in [
        ["--listen", "127.0.0.1:7711", "connect", "claude", "--http"],
        ["connect", "claude", "--http", "--listen", "127.0.0.1:7711"],
    ] {
        assert!(place.ok(&args).contains("http://127.0.0.1:7711/mcp"), "{args:?}");
    }
    let connect = place
        .command(&["connect", "claude", "--http"])
        .env("DRAWGATE_LISTEN", "127.0.0.1:7712")
        .output();
    assert!(text(&connect.unwrap().stdout).contains("http://127.0.0.1:7712/mcp"));
}

#[tokio::test]
async fn lists_are_tables_or_json_with_and_without_a_gateway() {
    let place = TestFolder::new(&fixture());
    let token = place.ok(&["agents", "add", "worker", "--capability", "demo", "--quiet"]);
    assert_eq!(token.lines().count(), 1);
    assert!(token.trim().len() > 32 && !token.trim().contains(char::is_whitespace), "{token}");
    place.ok(&["grants", "add", "demo", "--agent", "worker", "--for", "1h"]);
    let gateway = place.serve();
    offers(&gateway, "fixture__big").await;
    gateway.call(&gateway.token, "fixture__big", json!({ "bytes": 1_100_000 })).await;
    let lists: [&[&str]; 6] = [
        &["tools", "list"],
        &["servers", "list"],
        &["agents", "list"],
        &["grants", "list"],
        &["artifacts", "list"],
        &["servers", "doctor"],
    ];
    let check = |when: &str| {
        for list in lists {
            let found = place.json(list);
            assert!(!found.as_array().unwrap().is_empty(), "{when}: {list:?}");
            let table = place.ok(list);
            assert!(
                serde_json::from_str::<Value>(&table).is_err() && table.lines().count() > 1,
                "{when}: {table}"
            );
        }
        assert_eq!(place.json(&["approvals", "list"]), json!([]));
        for line in place.ok(&["audit", "tail", "--json"]).lines() {
            assert!(serde_json::from_str::<Value>(line).unwrap()["sequence"].is_u64());
        }
    };
    check("running");
    assert!(!place.ok(&["agents", "list"]).contains(token.trim()));
    assert_eq!(gateway.terminate(), Some(0));
    check("alone");
}

#[test]
fn init_writes_once() {
    let place = TestFolder::new("");
    std::fs::remove_file(place.path().join("drawgate.toml")).unwrap();
    place.ok(&["init"]);
    place.ok(&["config", "check"]);
    let again = place.run(&["init"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("`drawgate init OTHER.toml` writes elsewhere"),
        "{}",
        text(&again.stderr)
    );
    place.ok(&["init", "other.toml"]);
}

#[test]
fn connect_writes_the_clients_file() {
    let place = TestFolder::new("");
    place.ok(&["connect", "claude", "--write"]);
    let file = std::fs::read_to_string(place.path().join(".mcp.json")).unwrap();
    let written: Value = serde_json::from_str(&file).unwrap();
    let server = &written["mcpServers"]["drawgate"];
    assert!(server["command"].as_str().unwrap().ends_with("drawgate"), "{file}");
    assert_eq!(server["args"][0], "mcp");
    // What it wrote works: the client starts it, says hello, and goes.
    let args: Vec<&str> =
        server["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let mut command = place.command(&args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, format!("{hello}\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&line).unwrap()["result"]["protocolVersion"],
        "2025-06-18"
    );
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn completions_for_the_common_shells() {
    let place = TestFolder::new("");
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]);
        assert!(script.len() > 1000 && script.contains("approvals"), "{shell}");
    }
}

#[test]
fn the_doctor_names_what_is_wrong_and_what_to_do() {
    let place = TestFolder::new(
        "[servers.dead]\ncommand = \"/nonexistent/program\"\n\
         [servers.quits]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no database >&2; exit 3\"]\n\
         [servers.hangs]\ncommand = \"sleep\"\nargs = [\"600\"]\nstart_timeout_seconds = 3\n\
         [servers.unset]\ncommand = \"sh\"\nenv = { KEY = \"env:NOT_SET_ANYWHERE\" }\n",
    );
    let output = place.run(&["servers", "doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    let lessons = [
        "builtin: ready, 5 tools",
        "dead: failed, and is tried again: there is no program `/nonexistent/program`; install it, or give its full path",
        "quits: failed, and is tried again: the server exited with code 3",
        "    no database",
        "hangs: failed, and is tried again: the server did not finish its start",
        "the environment variable `NOT_SET_ANYWHERE` is not set; set it, or",
    ];
    for lesson in lessons {
        assert!(shown.contains(lesson), "{lesson}: {shown}");
    }
    assert_eq!(shown.matches("is not set").count(), 1, "the cause is told once: {shown}");
    assert_eq!(place.run(&["servers", "doctor", "builtin"]).status.code(), Some(0));
}

/// What people get wrong, each with one line of an answer. `ADDRESS` is one that is taken.
const MISTAKES: &[&[&str]] = &[
    &["--config", "missing.toml", "tools", "list"],
    &["--config", "typo.toml", "tools", "list"],
    &["--config", "broken.toml", "serve"],
    &["serve", "--listen", "0.0.0.0:0"],
    &["tools", "call", "no_such_tool"],
    &["tools", "show", "no_such_tool"],
    &["tools", "call", "vfs_wriet", "path=x"],
    &["tools", "show", "vfs_raed"],
    &["tools", "list", "--agent", "idel"],
    &["servers", "doctor", "bultin"],
    &["servers", "restart", "bultin"],
    &["agents", "remove", "idel"],
    &["agents", "add", "x", "--tools", "vfs_raed"],
    &["connect", "claude", "--agent", "idel"],
    &["plugins", "show", "validatoin"],
    &["tools", "call", "vfs_write", "path"],
    &["tools", "call", "vfs_write", "path=x"],
    &["tools", "call", "vfs_write", "path=x", "path=y"],
    &["tools", "call", "vfs_write", "path:=x"],
    &["tools", "call", "vfs_write", "--input", "path"],
    &["tools", "call", "vfs_read", "path=x", "--agent", "idle"],
    &["serve", "--listen", "ADDRESS"],
    &["packs", "show", "one"],
    &["packs", "kick", "one"],
    &["keys", "add", "--agent", "b", "--tools", "x", "key.pub"],
    &["keys", "add", "--pack", "p", "key.pub"],
    &["init"],
    &["agents", "add", "bad name"],
    &["agents", "remove", "nobody"],
    &["grants", "add", "demo", "--agent", "idle", "--for", "soon"],
    &["grants", "add", "demo", "--agent", "nobody"],
    &["grants", "add", "demo", "--scope", "user:nobody"],
    &["grants", "revoke", "g_0"],
    &["approvals", "approve", "a_0"],
    &["approvals", "deny", "a_0"],
    &["audit", "show", "99999"],
    &["artifacts", "get", "0"],
    &["servers", "doctor", "nobody"],
    &["toolpacks", "enable", "nothing"],
];

#[test]
fn common_mistakes_get_a_helpful_line() {
    let place = TestFolder::new("");
    std::fs::write(place.path().join("typo.toml"), "[servers.a]\ncomand = \"npx\"\n").unwrap();
    std::fs::write(place.path().join("broken.toml"), "listen = \n").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.ok(&["agents", "add", "idle", "--quiet"]);
    let mut lines = String::new();
    for mistake in MISTAKES {
        let words: Vec<&str> =
            mistake.iter().map(|word| if *word == "ADDRESS" { &address } else { *word }).collect();
        let output = place.run(&words);
        assert_eq!(text(&output.stdout), "", "{mistake:?}");
        let said = text(&output.stderr).replace(&address, "ADDRESS");
        assert_eq!(said.lines().count(), 1, "{mistake:?}: {said}");
        lines.extend([output.status.code().unwrap().to_string().as_str(), " ", &said]);
    }
    assert_snapshot!(lines, @r#"
    78 drawgate: missing.toml: error: there is no such file; name another with `--config`, or make one with `drawgate init`
    78 drawgate: typo.toml:2:1: error: unknown key `comand` in [servers.a]; did you mean `command`?
    78 drawgate: broken.toml:1:10: error: not valid TOML: string values must be quoted, expected literal string
    1 drawgate: `0.0.0.0:0` is reachable from other machines; set `[server.tls]`, or say `--insecure` if something in front of it encrypts
    1 drawgate: RESOURCE_NOT_FOUND: unknown tool `no_such_tool`; `drawgate tools list` shows what can be called
    1 drawgate: unknown tool `no_such_tool`; `drawgate tools list` shows them
    1 drawgate: RESOURCE_NOT_FOUND: unknown tool `vfs_wriet`; did you mean `vfs_write`?
    1 drawgate: unknown tool `vfs_raed`; did you mean `vfs_read`?
    1 drawgate: there is no agent `idel`; did you mean `idle`?
    1 drawgate: there is no server `bultin`; did you mean `builtin`?
    69 drawgate: no gateway is running; `drawgate serve` starts one
    1 drawgate: there is no agent `idel`; did you mean `idle`?
    1 drawgate: no tool is called `vfs_raed`; did you mean `vfs_read`?
    1 drawgate: there is no agent `idel`; did you mean `idle`? `drawgate agents add idel --tools 'PATTERN …'` adds it
    1 drawgate: there is no plugin `validatoin`; did you mean `validation`?
    64 drawgate: `path` is not an argument; write `name=text` or `name:=JSON`
    1 drawgate: INVALID_ARGUMENTS: arguments of `vfs_write` are invalid: `/`: "content" is a required property; `drawgate tools show vfs_write` has what it takes
    64 drawgate: `path` is given twice; give each argument once
    64 drawgate: what follows `path:=` is not JSON (expected value at line 1 column 1); write text as `path=TEXT`
    64 drawgate: `--input` is not JSON (expected value at line 1 column 1); write it like `--input '{"path": "a.txt"}'`
    1 drawgate: PERMISSION_DENIED: `builtin:vfs_read` needs `file.read`, which no live grant gives; `drawgate grants add file.read --agent idle --for 8h` gives it
    1 drawgate: can't listen on `ADDRESS`; another program listens there: stop it, or choose another port with `--listen`: Address already in use (os error 98)
    69 drawgate: no gateway runs here, and packs connect to a running one; `drawgate serve` starts it
    69 drawgate: no gateway runs here, and packs connect to a running one; `drawgate serve` starts it
    64 drawgate: `--tools` is for packs; what an agent may hold is `--capability CAPABILITY`
    1 drawgate: `key.pub` can't be read; give the file of a public key (`ssh-keygen -t ed25519 -f key` makes a pair): No such file or directory (os error 2)
    1 drawgate: `drawgate.toml` is there already and stays as it is; `drawgate init OTHER.toml` writes elsewhere
    1 drawgate: `bad name` is not a valid agent name; use 1 to 64 of `a-z A-Z 0-9 _ - .`
    1 drawgate: there is no agent `nobody`; `drawgate agents list` shows them
    64 drawgate: `soon` is not a time; write it like `90s`, `15m`, `8h` or `7d`
    1 drawgate: there is no agent `nobody`; `drawgate agents list` and `drawgate keys list` show them, `drawgate agents add nobody` adds one
    1 drawgate: there is no agent `nobody`; `drawgate agents list` and `drawgate keys list` show them, `drawgate agents add nobody` adds one
    1 drawgate: there is no grant `g_0`; `drawgate grants list` shows them
    1 drawgate: there is no approval `a_0`; `drawgate approvals list` shows them
    1 drawgate: there is no approval `a_0`; `drawgate approvals list` shows them
    1 drawgate: there is no event, call, request or approval `99999`; `drawgate audit tail` shows the newest events
    1 drawgate: there is no artifact `0`; `drawgate artifacts list` shows them
    1 drawgate: there is no server `nobody`; `drawgate servers list` shows them
    1 drawgate: no toolpack `nothing` is installed; there are none yet
    "#);
}

#[test]
fn words_that_clap_knows_better() {
    let place = TestFolder::new("");
    for (args, lesson) in [
        (vec!["tool", "list"], "'tools'"),
        (vec!["connect", "emacs"], "vscode"),
        (vec!["connect", "claude", "--scope", "global"], "[possible values: user, project]"),
        (vec!["disconnect", "emacs"], "windsurf"),
        (vec!["serve", "--listen", "nonsense"], "--listen <ADDR>"),
        (vec!["serve", "--listen", "localhost:7700"], "write it like `127.0.0.1:7700`"),
        (vec!["tools", "call"], "<NAME>"),
        (vec!["grants", "add", "demo"], "--agent <NAME>"),
    ] {
        let output = place.run(&args);
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(text(&output.stderr).contains(lesson), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_data_folder_that_cannot_be_used_is_named() {
    let place = TestFolder::new("");
    std::fs::write(place.path().join("file"), "").unwrap();
    let (add, verify) = (["agents", "add", "ann"], ["audit", "verify"]);
    let rows: [(&str, &[&str], &str); 4] = [
        ("file", &add, "os error"),
        ("file", &verify, "os error"),
        ("/proc/nowhere", &add, "os error"),
        ("/proc/nowhere", &verify, "no gateway has run on it yet"),
    ];
    for (folder, command, cause) in rows {
        let output = place.run(&[&["--data", folder], command].concat());
        assert_eq!(output.status.code(), Some(1), "{folder}");
        let shown = text(&output.stderr);
        assert!(shown.contains(folder) && shown.lines().count() == 1, "{shown}");
        assert_eq!(shown.matches(cause).count(), 1, "the cause is told once: {shown}");
    }
}

#[tokio::test]
async fn a_reader_that_leaves_early_is_no_error() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    for _ in 0..200 {
        let arguments = json!({ "path": "a.txt", "content": "x".repeat(2000) });
        gateway.call(&gateway.token, "vfs_write", arguments).await;
    }
    let commands: [&[&str]; 4] = [
        &["audit", "export", "--json"],
        &["audit", "export", "--events-only"],
        &["audit", "tail", "--lines", "1000", "--json"],
        &["config", "schema"],
    ];
    for command in commands {
        let mut child =
            place.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), text(&output.stderr).as_str()),
            (Some(0), ""),
            "{command:?}"
        );
    }
    // One that follows the log ends too, with the first event that nobody reads.
    let mut follow =
        place.command(&["audit", "tail", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, follow.stdout.take().unwrap()).read_line(&mut line).unwrap();
    gateway.call(&gateway.token, "vfs_list", json!({})).await;
    assert_eq!(follow.wait().unwrap().code(), Some(0));
}

#[test]
fn a_full_disk_under_an_export_is_an_error() {
    let place = TestFolder::new("");
    place.ok(&["agents", "add", "ann"]);
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let output = place.command(&["audit", "export"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("standard output can't be written"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test]
async fn status_shows_the_gateway_and_as_json_all_tools_and_grants() {
    let place = TestFolder::new(&fixture());
    let offline = place.run(&["status", "--json"]);
    assert_eq!(offline.status.code(), Some(69));
    let offline: Value = serde_json::from_slice(&offline.stdout).unwrap();
    assert_eq!(offline["running"], false);
    let gateway = place.serve();
    offers(&gateway, "fixture__echo").await;
    let grant = place.ok(&["grants", "add", "demo", "--scope", "workspace", "--quiet"]);
    let status = place.json(&["status"]);
    assert_eq!((&status["running"], &status["pid"]), (&json!(true), &json!(gateway.child.id())));
    let snapshot = &status["snapshot"];
    let tools = snapshot["tools"].as_array().unwrap();
    assert_eq!(status["tools"], tools.len());
    let echo = tools.iter().find(|tool| tool["toolId"] == "fixture:echo").unwrap();
    assert_eq!((&echo["serverId"], &echo["tool"]["name"]), (&json!("fixture"), &json!("echo")));
    let grants = snapshot["grants"].as_array().unwrap();
    assert!(grants.iter().any(|one| one["grantId"] == grant.trim()), "{grants:?}");
    assert!(snapshot["auditCursor"].as_u64().unwrap() >= status["auditHead"].as_u64().unwrap());
    let shown = place.ok(&["status"]);
    assert!(shown.contains(&gateway.address) && shown.contains("under way"), "{shown}");
}
