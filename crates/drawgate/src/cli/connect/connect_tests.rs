use std::fs;
use std::path::Path;

use clap::ValueEnum;
use insta::assert_snapshot;

use super::*;

fn folders() -> Folders {
    Folders { home: "/home/ada".into(), project: "/home/ada/project".into() }
}

fn stdio() -> Endpoint {
    let options = ["--data", "/home/ada/my data", "--config", "/etc/drawgate.toml"];
    let options = options.into_iter().map(str::to_owned).collect();
    Endpoint::stdio(Path::new("/usr/bin/drawgate"), options, None)
}

fn http() -> Endpoint {
    Endpoint::http(([127, 0, 0, 1], 7700).into(), "http", None)
}

fn plan_for(client: Client, endpoint: &Endpoint) -> Plan {
    plan(client, None, "drawgate", endpoint, &folders()).unwrap()
}

fn shown(plan: &Plan) -> String {
    let command = plan.command_line.as_deref().unwrap_or("(none)");
    let (path, notes) = (plan.path.display(), plan.notes.join("\n"));
    format!("path: {path}\ncommand: {command}\nnotes:\n{notes}\n---\n{}", plan.snippet)
}

#[test]
fn every_client_in_both_forms() {
    for client in Client::value_variants() {
        for (form, endpoint) in [("stdio", stdio()), ("http", http())] {
            let name = format!("{client:?}_{form}").to_lowercase();
            match plan(*client, None, "drawgate", &endpoint, &folders()) {
                Ok(plan) => assert_snapshot!(name, shown(&plan)),
                Err(error) => assert_snapshot!(name, error),
            }
        }
    }
}

#[test]
fn every_client_has_one_file_for_each_scope() {
    let mut all = String::new();
    for client in Client::value_variants() {
        for scope in [None, Some(Scope::User), Some(Scope::Project)] {
            let said = match plan(*client, scope, "drawgate", &stdio(), &folders()) {
                Ok(plan) => {
                    let command = plan.command_line.unwrap_or_default();
                    format!(
                        "{} {}",
                        plan.path.display(),
                        command.split(" drawgate").next().unwrap()
                    )
                }
                Err(error) => error.to_string(),
            };
            let scope = scope.map_or("usual", Scope::as_str);
            all.push_str(format!("{client:?} {scope}: {said}").trim_end());
            all.push('\n');
        }
    }
    assert_snapshot!("scopes", all);
}

#[test]
fn an_empty_file_gets_the_snippet() {
    for client in Client::value_variants() {
        let plan = plan_for(*client, &stdio());
        assert_eq!(plan.merge(None).unwrap(), plan.snippet);
        assert_eq!(plan.merge(Some("")).unwrap(), plan.snippet);
    }
}

#[test]
fn a_file_with_comments_alone_is_empty_and_a_byte_order_mark_is_read_away() {
    let comment = "// mine\n";
    let plan = plan_for(Client::Cursor, &stdio());
    assert_eq!(plan.merge(Some(comment)).unwrap(), format!("{comment}{}", plan.snippet));
    for (text, kept) in [("\u{feff}{ \"a\": 1 }", "\"a\": 1"), ("\u{feff}// mine\n", "// mine")] {
        let (folder, path) = with_file(Client::Cursor, text);
        in_folder(folder.path(), Client::Cursor).apply(&folder.path().join("data")).unwrap();
        let written = fs::read_to_string(path).unwrap();
        assert!(written.contains(kept) && written.contains("\"drawgate\""), "{written}");
        assert!(!written.contains('\u{feff}'), "{written}");
    }
}

#[test]
fn merging_twice_changes_nothing() {
    let existing = [
        (Client::Claude, "{\n\t\"mcpServers\": {\"other\": {\"command\": \"x\"}}\n}\n"),
        (Client::Codex, "model = \"o3\" # mine\n"),
        (Client::Gemini, "{\"theme\": \"dark\"}"),
        (Client::Cursor, "{}"),
        (Client::Vscode, "{\"inputs\": [{\"id\": \"other\"}], \"servers\": {}}"),
    ];
    for (client, text) in existing {
        for endpoint in [stdio(), http()] {
            let plan = plan_for(client, &endpoint);
            let once = plan.merge(Some(text)).unwrap();
            assert_eq!(plan.merge(Some(&once)).unwrap(), once, "{client:?}");
        }
    }
}

#[test]
fn json_keeps_everything_else() {
    let before = r#"{
    "theme": "dark",
    "mcpServers": {
        "other": { "command": "x", "args": [] },
        "drawgate": { "httpUrl": "http://old/", "headers": {}, "trust": true },
        "last": {}
    },
    "z": 1
}
"#;
    assert_snapshot!(
        "gemini_merged",
        plan_for(Client::Gemini, &stdio()).merge(Some(before)).unwrap()
    );
}

#[test]
fn inputs_are_added_once() {
    let before = r#"{ "inputs": [{ "id": "mine", "type": "promptString" }] }"#;
    let merged = plan_for(Client::Vscode, &http()).merge(Some(before)).unwrap();
    assert_snapshot!("vscode_merged", merged);
}

#[test]
fn toml_keeps_comments_and_order() {
    let before = "# my settings\nmodel = \"o3\"\n\n[mcp_servers.other] # keep\ncommand = \"x\"";
    assert_snapshot!(
        "codex_merged",
        plan_for(Client::Codex, &stdio()).merge(Some(before)).unwrap()
    );
}

const COMMENTED: &str = "{
  // my servers, \"quoted\"
  \"servers\": {
    \"mine\": { /* { */ \"command\": \"x//y\", \"args\": [\"a,]\",], }, // last
  },
  \"inputs\": [
    { \"id\": \"mine\" }, // asked
  ],
}
";

#[test]
fn comments_and_trailing_commas_survive_and_go_on_working() {
    for endpoint in [stdio(), http()] {
        let plan = plan_for(Client::Vscode, &endpoint);
        let merged = plan.merge(Some(COMMENTED)).unwrap();
        for line in COMMENTED.lines() {
            assert!(merged.contains(line), "`{line}` is gone:\n{merged}");
        }
        assert_eq!(plan.merge(Some(&merged)).unwrap(), merged);
    }
    assert_snapshot!(
        "vscode_commented",
        plan_for(Client::Vscode, &http()).merge(Some(COMMENTED)).unwrap()
    );
}

/// A folder that is home and project, with a client's file in it.
fn with_file(client: Client, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path(), client).path;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn removal(folder: &Path, client: Client, name: &str, write: bool) -> anyhow::Result<String> {
    let folders = Folders { home: folder.to_owned(), project: folder.to_owned() };
    let args = DisconnectArgs { client, scope: None, write, name: name.to_owned() };
    let said = disconnect(&args, &folder.join("data"), &folders)?.to_string();
    Ok(said.replace(folder.to_str().unwrap(), "HOME"))
}

#[test]
fn disconnecting_restores_what_was_there() {
    let json =
        "{\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"}\n\t},\n\t\"z\": 1.0\n}\n";
    let toml = "model = \"o3\" # mine\n\n# Others.\n[mcp_servers.other]\ncommand = \"x\" # keep\n\n# The end.\n";
    for client in Client::value_variants() {
        let text = match client {
            Client::Codex => toml,
            Client::Vscode => COMMENTED,
            _ => json,
        };
        for endpoint in [stdio(), http()] {
            let (folder, path) = with_file(*client, text);
            let folders =
                Folders { home: folder.path().to_owned(), project: folder.path().to_owned() };
            let Ok(plan) = plan(*client, None, "drawgate", &endpoint, &folders) else { continue };
            plan.apply(&folder.path().join("data")).unwrap();
            let said = removal(folder.path(), *client, "drawgate", false).unwrap();
            assert!(said.contains("would be removed from"), "{said}");
            assert_ne!(fs::read_to_string(&path).unwrap(), text);
            let said = removal(folder.path(), *client, "drawgate", true).unwrap();
            assert!(said.contains("removed `drawgate` from"), "{said}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "{client:?}");
            let said = removal(folder.path(), *client, "drawgate", true).unwrap();
            assert!(said.contains("nothing to remove"), "{said}");
        }
    }
}

#[test]
fn only_the_gateway_is_disconnected() {
    let theirs = r#"{ "mcpServers": { "drawgate": { "command": "npx", "args": ["mcp"] } } }"#;
    let (folder, path) = with_file(Client::Claude, theirs);
    let error = removal(folder.path(), Client::Claude, "drawgate", true).unwrap_err();
    assert!(error.to_string().contains("does not lead to Drawgate"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
    let empty = tempfile::tempdir().unwrap();
    let said = removal(empty.path(), Client::Cursor, "drawgate", true).unwrap();
    assert!(said.contains("nothing to remove"), "{said}");
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is made");
    in_folder(empty.path(), Client::Cursor).apply(&empty.path().join("data")).unwrap();
    let said = removal(empty.path(), Client::Cursor, "gate", true).unwrap();
    assert!(said.contains("use `--scope project --name drawgate`"), "{said}");
}

#[test]
fn what_can_not_be_changed_safely_is_refused() {
    let cases = [
        (
            Client::Claude,
            "{\n  \"mcpServers\": {,}\n}",
            "line 2, column 18 is not valid JSON: unexpected token in object; correct it, or add \
             the entry by hand",
        ),
        (
            Client::Claude,
            "{\"mcpServers\": {}, \"mcpServers\": {\"a\": {}}}",
            "duplicate key `mcpServers`; give each key once; correct it, or add the entry by hand",
        ),
        (
            Client::Cursor,
            "[]",
            "`the file` is not an object; correct it by hand and run the command again",
        ),
        (
            Client::Cursor,
            "{\"mcpServers\": []}",
            "`mcpServers` is not an object; correct it by hand and run the command again",
        ),
        (
            Client::Gemini,
            "{\"mcpServers\": {\"drawgate\": 1}}",
            "`drawgate` is not an object; correct it by hand and run the command again",
        ),
        (
            Client::Codex,
            "model = \"o3\"\n[broken",
            "line 2, column 8 is not valid TOML: unclosed table, expected `]`; correct it, or add \
             the entry by hand",
        ),
        (
            Client::Codex,
            "[mcp_servers.drawgate]\ncommand = \"old\"",
            "the file has [mcp_servers.drawgate] already, with other content; remove it by \
             `drawgate disconnect`, or change that table by hand",
        ),
        (
            Client::Codex,
            "mcp_servers = { other = { command = \"x\" } }",
            "`mcp_servers` is not written as tables; correct it by hand and run the command again",
        ),
    ];
    for (client, text, expected) in cases {
        let error = plan_for(client, &stdio()).merge(Some(text)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{client:?} {text}");
    }
}

#[test]
fn a_name_that_clients_would_trip_over_is_refused() {
    let error = plan(Client::Codex, None, "a.b] c", &stdio(), &folders()).unwrap_err();
    assert!(error.to_string().contains("use 1 to 64 of"), "{error}");
}

#[test]
fn a_client_here_reaches_a_gateway_that_listens_everywhere() {
    let Endpoint::Http { url, .. } = Endpoint::http(([0, 0, 0, 0], 8443).into(), "https", None)
    else {
        panic!("an HTTP endpoint");
    };
    assert_eq!(url, "https://127.0.0.1:8443/mcp");
}

fn in_folder(folder: &Path, client: Client) -> Plan {
    let folders = Folders { home: folder.to_owned(), project: folder.to_owned() };
    plan(client, None, "drawgate", &stdio(), &folders).unwrap()
}

#[test]
fn writing_creates_then_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for client in Client::value_variants() {
        let plan = in_folder(folder.path(), *client);
        assert_eq!(plan.apply(&data).unwrap(), Written::Created);
        assert_eq!(fs::read_to_string(&plan.path).unwrap(), plan.snippet);
        assert_eq!(plan.apply(&data).unwrap(), Written::Unchanged);
    }
}

#[test]
fn writing_keeps_the_mode_and_a_copy_out_of_the_project() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join(".mcp.json");
    fs::write(&path, "{\"a\": 1}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let data = data.path().join("data");
    let applied = in_folder(folder.path(), Client::Claude).apply(&data).unwrap();
    let backup = data.join("backups/.mcp.json.1");
    assert_eq!(applied, Written::Updated { backup: backup.clone() });
    assert_eq!(fs::read_to_string(&backup).unwrap(), "{\"a\": 1}");
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::read_to_string(&path).unwrap().contains("\"a\": 1"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn a_malformed_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let plan = in_folder(folder.path(), Client::Claude);
    fs::write(&plan.path, "{ oops").unwrap();
    let error = plan.apply(&folder.path().join("data")).unwrap_err();
    assert!(error.to_string().ends_with("was left as it is"), "{error}");
    assert_eq!(fs::read_to_string(&plan.path).unwrap(), "{ oops");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_command_prints_then_writes() {
    let folder = tempfile::tempdir().unwrap();
    let folders = Folders { home: folder.path().join("home"), project: folder.path().into() };
    let gateway = Gateway {
        listen: ([127, 0, 0, 1], 7700).into(),
        scheme: "http",
        data: &folder.path().join("data"),
        program: Path::new("/usr/bin/drawgate"),
        options: Vec::new(),
    };
    let report = |(http, write)| {
        let name = "drawgate".to_owned();
        let args = ConnectArgs {
            client: Client::Claude,
            scope: None,
            write,
            stdio: false,
            http,
            agent: None,
            name,
        };
        let report = run(&args, gateway.clone(), &folders).unwrap();
        format!("# http {http}, write {write}\n{report}")
    };
    let steps = [(false, false), (true, true), (true, true), (false, true)];
    let said = steps.map(report).concat();
    let root = fs::canonicalize(folder.path()).unwrap();
    let said = said.replace(root.to_str().unwrap(), "PROJECT");
    assert_snapshot!("command", said.replace(folder.path().to_str().unwrap(), "PROJECT"));
}
