use std::fs;

use serde_json::Map;

use super::*;

fn folders() -> Folders {
    Folders { home: "/home/ada".into(), project: "/home/ada/project".into() }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other}"),
    }
}

/// A server of a file, translated.
fn translated(file: &str, server: Value) -> Result<Translated, String> {
    translate("srv", &object(server), &Surroundings::of(Path::new(file), &folders()))
}

/// The table, without its header.
#[track_caller]
fn check(file: &str, server: Value, expected: &str) -> Translated {
    let done = translated(file, server).unwrap();
    let text = done.server.text().unwrap();
    assert_eq!(text.strip_prefix("[servers.srv]\n"), Some(expected));
    done
}

/// Servers that are taken over as they are.
#[track_caller]
fn check_all(cases: impl IntoIterator<Item = (&'static str, Value, &'static str)>) {
    for (file, server, expected) in cases {
        let done = check(file, server, expected);
        assert_eq!((done.secrets, done.notes), (Vec::new(), Vec::new()), "{file}");
    }
}

#[test]
fn every_client_writes_addresses_in_its_own_way() {
    check_all([
        (
            ".mcp.json",
            json!({ "type": "http", "url": "https://a.example/mcp" }),
            "url = \"https://a.example/mcp\"\n",
        ),
        (
            ".mcp.json",
            json!({ "type": "sse", "url": "https://a.example/sse", "headers": { "X-Team": "blue" } }),
            "transport = \"sse\"\nurl = \"https://a.example/sse\"\nheaders = { X-Team = \"blue\" }\n",
        ),
        (
            "/home/ada/.gemini/settings.json",
            json!({ "url": "https://a.example/sse" }),
            "transport = \"sse\"\nurl = \"https://a.example/sse\"\n",
        ),
        (
            "/home/ada/.gemini/settings.json",
            json!({ "httpUrl": "https://a.example/mcp", "headers": { "X-Key": "$A_KEY" } }),
            "url = \"https://a.example/mcp\"\nheaders = { X-Key = \"env:A_KEY\" }\n",
        ),
        (
            "a.json",
            json!({ "serverUrl": "wss://a.example" }),
            "transport = \"websocket\"\nurl = \"wss://a.example\"\n",
        ),
        (
            "/home/ada/.codex/config.toml",
            json!({ "url": "https://a.example", "env_http_headers": { "X-A": "A_VAR" }, "http_headers": { "X-B": "b" } }),
            "url = \"https://a.example\"\nheaders = { X-B = \"b\", X-A = \"env:A_VAR\" }\n",
        ),
    ]);
}

#[test]
fn every_client_writes_programs_in_its_own_way() {
    check_all([
        (
            ".mcp.json",
            json!({ "type": "stdio", "command": "npx", "args": ["-y", "x", "./a", 1] }),
            "command = \"npx\"\nargs = [\"-y\", \"x\", \"/home/ada/project/./a\", \"1\"]\n",
        ),
        (
            "/p/.vscode/mcp.json",
            json!({ "command": "${workspaceFolder}/run", "args": ["${userHome}/n"], "env": { "A": "${env:B}" } }),
            "command = \"/home/ada/project/run\"\nargs = [\"/home/ada/n\"]\nenv = { A = \"env:B\" }\n",
        ),
        (
            "/home/ada/.codex/config.toml",
            json!({ "command": "x", "env": { "N": 1, "B": true, "Z": null }, "env_vars": ["T"], "enabled": false }),
            "command = \"x\"\nenv = { N = \"1\", B = \"true\", T = \"env:T\" }\nenabled = false\n",
        ),
        (
            "a.json",
            json!({ "command": "npx -y thing", "disabled": true }),
            "command = \"npx\"\nargs = [\"-y\", \"thing\"]\nenabled = false\n",
        ),
        ("a.json", json!({ "command": "/opt/my tool/run" }), "command = \"/opt/my tool/run\"\n"),
        (
            "a.json",
            json!({ "command": "x", "env": { "PRICE": "5 $ each", "MODE": "${HOME}" } }),
            "command = \"x\"\nenv = { PRICE = \"5 $ each\", MODE = \"/home/ada\" }\n",
        ),
    ]);
}

/// A value that becomes a reference to this variable; the secret that is kept, or the note.
#[track_caller]
fn check_reference(server: Value, variable: &str, secret: Option<&str>, note: &str) {
    let done = translated("a.json", server).unwrap();
    let settings = done.server.env.iter().chain(&done.server.headers);
    let settings: Vec<&str> = settings.map(|(_, setting)| setting.as_str()).collect();
    assert_eq!(settings, [format!("env:{variable}")]);
    let kept = done.secrets.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    assert_eq!(
        kept.collect::<Vec<_>>(),
        secret.map(|it| (variable, it)).into_iter().collect::<Vec<_>>()
    );
    let said = done.notes.join("\n");
    assert!(said.contains(note) && said.is_empty() == note.is_empty(), "{said}");
}

#[test]
fn secrets_in_headers_become_references() {
    let url = "https://a.example/mcp";
    let header = |value: &str| json!({ "url": url, "headers": { "Authorization": value } });
    let export = "`export SRV_AUTHORIZATION=\"Bearer ${T}\"`";
    for (server, secret, note) in [
        (header("Bearer abc"), Some("Bearer abc"), ""),
        (header("Bearer ${T}"), None, export),
        (header("Bearer ${T:-x}"), None, "SRV_AUTHORIZATION=\"Bearer ${T:-x}\"`"),
        (header("Bearer ${input:t}"), None, "the client asked for it"),
        (json!({ "url": url, "bearer_token_env_var": "T" }), None, export),
    ] {
        check_reference(server, "SRV_AUTHORIZATION", secret, note);
    }
}

#[test]
fn secrets_in_the_environment_become_references() {
    let quoted = "`export SRV_X=\"a\\`b\\\"${Y}\"`";
    for (name, value, variable, secret, note) in [
        ("API_KEY", "1", "SRV_API_KEY", Some("1"), ""),
        ("SRV_TOKEN", "abcdefgh", "SRV_TOKEN", Some("abcdefgh"), ""),
        ("DB", "postgres://u:p@h/d", "SRV_DB", Some("postgres://u:p@h/d"), ""),
        ("X", "ghp_abcdefghijklmnop", "SRV_X", Some("ghp_abcdefghijklmnop"), ""),
        ("X", "env:Y", "SRV_X", Some("env:Y"), ""),
        ("X", "a`b\"${Y}", "SRV_X", None, quoted),
        ("X", "${Y}", "Y", None, ""),
    ] {
        let server = json!({ "command": "x", "env": { name: value } });
        check_reference(server, variable, secret, note);
    }
}

#[test]
fn variables_of_env_before_a_runner_are_the_server_s_and_secrets_are_kept_out() {
    let server = json!({ "command": "env", "args": ["MODE=fast", "DB_PASS=abc", "uvx", "pkg"] });
    let done = check(
        ".mcp.json",
        server,
        "command = \"uvx\"\nargs = [\"pkg\"]\nenv = { MODE = \"fast\", DB_PASS = \"env:SRV_DB_PASS\" }\n",
    );
    assert_eq!(done.secrets, [("SRV_DB_PASS".to_owned(), "abc".to_owned())]);
}

#[test]
fn what_can_not_be_moved_safely_stays_and_says_why() {
    let program = |args: Value| json!({ "command": "x", "args": args });
    let address = |url: &str| json!({ "url": url });
    let cases = [
        (json!({}), "it has neither `command` nor `url`"),
        (json!({ "command": "" }), "`command` is empty"),
        (json!({ "command": 1 }), "`command` is not a text"),
        (program(json!("a")), "`args` is not a list"),
        (program(json!([{}])), "`args` are not texts"),
        (program(json!(["--api-key", "abcdefgh1"])), "its command line holds a secret"),
        (program(json!(["--token=abcdefgh1"])), "its command line holds a secret"),
        (
            program(json!(["--header", "Authorization: Bearer x"])),
            "its command line holds a secret",
        ),
        (program(json!(["sk-abcdefghijklmnop"])), "its command line holds a secret"),
        (program(json!(["postgres://u:p@h/d"])), "its command line holds a secret"),
        (program(json!(["${TOKEN}"])), "`args` refers to the variable `TOKEN`"),
        (program(json!(["${fileBasename:x y}"])), "is not known here"),
        (address("https://u:p@a.example"), "its address holds a secret"),
        (address("https://a.example/mcp?apiKey=x"), "its address holds a secret"),
        (address("https://a.example/${T}"), "its address holds a secret or refers to a variable"),
        (json!({ "url": "https://a.example", "type": "smoke" }), "its type `smoke` is not known"),
        (json!({ "url": "https://a.example", "headers": [] }), "`headers` is not an object"),
        (json!({ "command": "x", "env": { "A": {} } }), "`env` has a value that is not a text"),
        (
            json!({ "command": "x", "env": { "A": "${B:-$(rm)}" } }),
            "the default of `B` can't be imported",
        ),
        (json!({ "command": "/usr/bin/drawgate", "args": ["mcp"] }), "it is Drawgate itself"),
    ];
    for (server, expected) in cases {
        let said = translated("a.json", server.clone()).unwrap_err();
        assert!(said.contains(expected), "{server}: {said}");
    }
    let done =
        translated("a.json", json!({ "command": "x", "cwd": "w", "timeout": 5, "trust": true }))
            .unwrap();
    let said = done.notes.join("\n");
    assert!(said.contains("working_dir = \"/home/ada/project/w\""), "{said}");
    assert!(said.contains("not taken over: `timeout`, `trust`"), "{said}");
}

#[test]
fn names_are_normalised() {
    for (name, expected) in [
        ("files", "files"),
        ("My Files!", "My-Files"),
        ("@scope/pkg", "scope-pkg"),
        ("…", "server"),
        ("builtin", "builtin-server"),
    ] {
        assert_eq!(normalised(name), expected);
    }
    assert_eq!(normalised(&"x".repeat(100)).len(), 64);
}

/// A folder that is home and project, with this file in it.
fn place(file: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn each_client_is_read_where_it_keeps_its_servers() {
    let one = r#"{ "mcpServers": { "a": { "command": "x" } } }"#;
    let vscode = r#"{ "servers": { "a": { "command": "x" } }, "inputs": [] }"#;
    for (client, file, text) in [
        (Client::Claude, ".mcp.json", one),
        (Client::Claude, ".claude.json", one),
        (Client::Claude, ".config/Claude/claude_desktop_config.json", one),
        (Client::ClaudeDesktop, ".config/Claude/claude_desktop_config.json", one),
        (Client::Windsurf, ".codeium/windsurf/mcp_config.json", one),
        (Client::Claude, "Library/Application Support/Claude/claude_desktop_config.json", one),
        (Client::Cursor, ".cursor/mcp.json", one),
        (Client::Gemini, ".gemini/settings.json", one),
        (Client::Vscode, ".vscode/mcp.json", vscode),
        (Client::Vscode, ".config/Code/User/mcp.json", vscode),
        (Client::Codex, ".codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n"),
    ] {
        let (folder, path) = place(file, text);
        let folders = Folders { home: folder.path().into(), project: folder.path().into() };
        let name = client.to_possible_value().unwrap();
        let found = entries(Path::new(name.get_name()), &folders).unwrap();
        let found: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.file.clone())).collect();
        assert_eq!(found, [("a", path)]);
    }
    let (folder, _) = place("x", "");
    let folders = Folders { home: folder.path().into(), project: folder.path().into() };
    let said = entries(Path::new("claude"), &folders).unwrap_err().to_string();
    assert!(said.contains("Claude Code has no servers") && said.contains(".claude.json"), "{said}");
    let said = entries(Path::new("nothing.json"), &folders).unwrap_err().to_string();
    assert!(said.contains("no client and no file `nothing.json`"), "{said}");
    let project = json!({ "projects": { folder.path().to_str().unwrap(): { "mcpServers": { "p": { "command": "x" } } },
        "/other": { "mcpServers": { "q": { "command": "x" } } } } });
    fs::write(folder.path().join(".claude.json"), project.to_string()).unwrap();
    let found = entries(Path::new("claude"), &folders).unwrap();
    assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["p"]);
}

#[test]
fn files_that_can_not_be_read_are_named() {
    for (file, text, expected) in [
        ("a.json", "{ words }", "can't be read"),
        ("a.json", "{ // words", "can't be read"),
        ("a.json", r#"{ "mcpServers": [] }"#, "`mcpServers` of"),
        ("a.json", r#"{ "mcpServers": { "a": 1 } }"#, "`a` of"),
        ("a.json", r#"{ "servers": { "a": {}, "a": {} } }"#, "can't be read"),
        ("a.toml", "mcp_servers = [", "can't be read"),
    ] {
        let (_folder, path) = place(file, text);
        let error = entries(&path, &folders()).unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}

#[test]
fn comments_and_last_commas_of_editors_are_read_and_kept() {
    let text = "{\n  // mine, \"quoted\"\n  \"servers\": {\n    \"a\": { /* { */ \"command\": \"x//y\", \"args\": [\"a,]\", \"\\\",}\" , // last\n ], },\n  },\n}\n";
    let (folder, path) = place(".vscode/mcp.json", text);
    let found = read::file(&path, folder.path()).unwrap().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        Value::from(found[0].server.clone()),
        json!({ "command": "x//y", "args": ["a,]", "\",}"] })
    );
    let all: Vec<&Entry> = found.iter().collect();
    remove(&path, &folder.path().join("data"), &all).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  // mine, \"quoted\"\n  \"servers\": {},\n}\n"
    );
}

#[test]
fn servers_are_taken_out_and_the_rest_stays() {
    let json = "{\n    \"x\": 1,\n    \"mcpServers\": {\n        \"a\": {},\n        \"b\": {\n            \"command\": \"x\"\n        },\n        \"c\": {}\n    },\n    \"y\": 1.0\n}\n";
    let toml = "# Mine.\nmodel = \"m\" # good\n\n# About a.\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.b]\ncommand = \"y\"\n\n[tui]\nx = 1\n";
    for (file, text, name, expected) in [
        (
            "a.json",
            json,
            "b",
            json.replace("        \"b\": {\n            \"command\": \"x\"\n        },\n", ""),
        ),
        ("config.toml", toml, "b", toml.replace("[mcp_servers.b]\ncommand = \"y\"\n\n", "")),
    ] {
        let (folder, path) = place(file, text);
        let found = read::file(&path, folder.path()).unwrap().unwrap();
        let gone: Vec<&Entry> = found.iter().filter(|it| it.name == name).collect();
        let data = folder.path().join("data");
        let taken = remove(&path, &data, &gone).unwrap();
        let Change::Updated(backup) = taken else { panic!("{taken:?}") };
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(fs::read_to_string(&backup).unwrap(), text);
        fs::write(&path, text).unwrap();
        let again = remove(&path, &data, &gone).unwrap();
        assert_ne!(again, Change::Updated(backup), "no copy is overwritten");
    }
}
