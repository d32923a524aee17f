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
    plan(client, "drawgate", endpoint, &folders()).unwrap()
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
            assert_snapshot!(name, shown(&plan_for(*client, &endpoint)));
        }
    }
}

#[test]
fn an_empty_file_gets_the_snippet() {
    for client in Client::value_variants() {
        let plan = plan_for(*client, &http());
        assert_eq!(plan.merge(None).unwrap(), plan.snippet);
        assert_eq!(plan.merge(Some("")).unwrap(), plan.snippet);
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

#[test]
fn what_can_not_be_changed_safely_is_refused() {
    let cases = [
        (
            Client::Claude,
            "{\n  \"mcpServers\": {,}\n}",
            "line 2, column 18 is not valid JSON: key must be a string; correct it, or add the \
             entry by hand",
        ),
        (
            Client::Vscode,
            "{\n  // my servers\n  \"servers\": {}\n}",
            "line 2, column 3 is not valid JSON: key must be a string; the file has comments, \
             which would be lost; add the entry by hand",
        ),
        (
            Client::Claude,
            "{\"mcpServers\": {}, \"mcpServers\": {\"a\": {}}}",
            "the file can't be changed safely: duplicate key `mcpServers`; give each key once",
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
            "the file has [mcp_servers.drawgate] already, with other content; replace that table \
             by hand",
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
    let error = plan(Client::Codex, "a.b] c", &stdio(), &folders()).unwrap_err();
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
    plan(client, "drawgate", &stdio(), &folders).unwrap()
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
        let args =
            ConnectArgs { client: Client::Claude, write, stdio: false, http, agent: None, name };
        let report = run(&args, gateway.clone(), &folders).unwrap();
        format!("# http {http}, write {write}\n{report}")
    };
    let steps = [(false, false), (true, true), (true, true), (false, true)];
    let said = steps.map(report).concat();
    let root = fs::canonicalize(folder.path()).unwrap();
    let said = said.replace(root.to_str().unwrap(), "PROJECT");
    assert_snapshot!("command", said.replace(folder.path().to_str().unwrap(), "PROJECT"));
}
