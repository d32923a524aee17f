//! `drawgate import`, with the real program.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::servers::everything;
use crate::support::{TestFolder, text};

fn read(place: &TestFolder, file: &str) -> String {
    std::fs::read_to_string(place.path().join(file)).unwrap()
}

const SECRET: &str = "ghp_0123456789abcdefghij";

/// What is shown of the client's servers.
const SHOWN: [&str; 5] = [
    "[servers.works]\n",
    "[servers.my-hub]\nurl = \"http://127.0.0.1:9/mcp\"\nheaders = { Authorization = \"env:MY_HUB_AUTHORIZATION\" }",
    "there is another server `taken`",
    "its command line holds a secret",
    "it is Drawgate itself",
];

/// What a person has: a server that works, one with a secret, and some that can't be moved.
fn servers() -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
    let works = match everything() {
        Some(script) => json!({ "command": "node", "args": [script, "stdio"] }),
        None => json!({ "command": "python3", "args": [script] }),
    };
    json!({
        "mcpServers": {
            "works": works,
            "my hub": { "type": "http", "url": "http://127.0.0.1:9/mcp", "headers": { "Authorization": format!("Bearer {SECRET}") } },
            "taken": { "command": "other" },
            "leaky": { "command": "x", "args": ["--token", SECRET] },
            "drawgate": { "command": "/usr/bin/drawgate", "args": ["mcp"] },
        },
        "other": [1, 2.5],
    })
}

#[test]
fn a_client_s_servers_are_moved_behind_the_gate() {
    let start = "# Ours.\n[servers.taken]\nurl = \"http://127.0.0.1:9/mcp\"\n";
    let place = TestFolder::new(start);
    let theirs = format!("{:#}\n", servers());
    std::fs::write(place.path().join(".mcp.json"), &theirs).unwrap();
    let home = place.path().to_str().unwrap().to_owned();
    let gateway = place.serve();
    let import = |args: &[&str]| {
        let mut command = place.command(&[&["import", "claude"], args].concat());
        let output = command.env("HOME", &home).output().unwrap();
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(!said.contains(SECRET), "{said}");
        (output, said)
    };
    // Shown, and not done without a yes.
    let (output, said) = import(&[]);
    assert!(
        !output.status.success() && said.contains("nothing was changed; `--yes` agrees"),
        "{said}"
    );
    for expected in SHOWN {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(
        (read(&place, "drawgate.toml"), read(&place, ".mcp.json")),
        (start.to_owned(), theirs.clone())
    );
    assert!(!place.data().join("secrets.env").exists());

    let (output, said) = import(&["--yes"]);
    assert_eq!(output.status.code(), Some(1), "one does not work. {said}");
    assert!(said.contains("it is in force") && said.contains("works: ready"), "{said}");
    assert!(said.contains("my-hub: failed, and is tried again: no connection"), "{said}");
    assert!(said.contains("the client still starts these servers itself"), "{said}");
    let written = read(&place, "drawgate.toml");
    assert!(written.starts_with(start) && !written.contains(SECRET), "{written}");
    let secrets = place.data().join("secrets.env");
    assert_eq!(
        std::fs::read_to_string(&secrets).unwrap(),
        format!("MY_HUB_AUTHORIZATION='Bearer {SECRET}'\n")
    );
    assert_eq!(secrets.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read(&place, ".mcp.json"), theirs);

    // Once more changes nothing but the client's file.
    let (output, said) = import(&["--yes", "--take-out", "--json"]);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["takenOut"][0]["servers"], json!(["works", "my hub"]), "{report}");
    assert_eq!(read(&place, "drawgate.toml"), written);
    let rest: Value = serde_json::from_str(&read(&place, ".mcp.json")).unwrap();
    let left: Vec<&String> = rest["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(left, ["taken", "leaky", "drawgate"]);
    assert_eq!(rest["other"], json!([1, 2.5]));
    assert_eq!(read(&place, ".drawgate/backups/.mcp.json.1"), theirs);
    let copy = place.path().join(".drawgate/backups/.mcp.json.1").metadata().unwrap();
    assert_eq!(copy.permissions().mode() & 0o777, 0o600);

    let (_, said) = import(&["--yes", "--only", "taken", "--rename", "taken=free"]);
    assert!(
        read(&place, "drawgate.toml").contains("[servers.free]\ncommand = \"other\""),
        "{said}"
    );
    drop(gateway);
}

#[test]
fn without_a_gateway_and_a_file_one_is_made() {
    let place = TestFolder::new("");
    std::fs::remove_file(place.path().join("drawgate.toml")).unwrap();
    std::fs::write(place.path().join("c.toml"), "[mcp_servers.a]\ncommand = \"x\"\n").unwrap();
    let said = place.ok(&["import", "c.toml", "--yes", "--take-out"]);
    assert!(said.contains("made `") && said.contains("no gateway is running"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("a: ")), "each server is tried: {said}");
    assert_eq!(read(&place, ".drawgate/drawgate.toml"), "[servers.a]\ncommand = \"x\"\n");
    assert!(!read(&place, "c.toml").contains("command"));
    // The tools of one that works are known before it is started again.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
    let works = json!({ "mcpServers": { "works": { "command": "python3", "args": [script] } } });
    std::fs::write(place.path().join("w.json"), works.to_string()).unwrap();
    let report = place.json(&["import", "w.json", "--yes"]);
    assert_eq!(report["tried"][0]["state"], "ready", "{report}");
    assert_ne!(report["tried"][0]["tools"], 0, "{report}");
    for (args, expected) in [
        (vec!["import", "c.toml", "--yes"], "there is no server to import"),
        (vec!["import", "none.json"], "there is no client and no file `none.json`"),
        (vec!["import", "c.toml", "--rename", "x"], "write `OLD=NEW`"),
    ] {
        let output = place.run(&args);
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
    }
}
