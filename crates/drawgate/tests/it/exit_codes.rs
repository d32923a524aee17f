//! Exit codes that scripts can trust, and errors that they can read.

use drawgate::cli::exit::Exit;
use serde_json::{Value, json};

use crate::support::{TestFolder, text};

#[test]
fn the_table_in_the_docs_is_the_one_of_the_program() {
    let text = include_str!("../../../../docs/commands.md");
    let (_, after) = text.split_once("## Exit codes").unwrap();
    let rows = after.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows: Vec<(u8, &str)> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|row| {
            let mut cells = row.split('|').map(str::trim).skip(1);
            let number = cells.next().unwrap().parse().unwrap();
            (number, cells.next().unwrap().trim_matches('`'))
        })
        .collect();
    let known: Vec<(u8, &str)> =
        Exit::ALL.iter().map(|exit| (exit.number(), exit.as_str())).collect();
    assert_eq!(rows, known);
}

/// Commands that fail, each in the way that scripts can tell apart.
const ENDS: &[(&[&str], Exit)] = &[
    (&["tool", "list"], Exit::Usage),
    (&["tools"], Exit::Usage),
    (&["tools", "list", "--frob"], Exit::Usage),
    (&["tools", "call"], Exit::Usage),
    (&["tools", "call", "vfs_read", "path"], Exit::Usage),
    (&["serve", "--listen", "nonsense"], Exit::Usage),
    (&["servers", "add", "a b", "--url", "http://127.0.0.1:9"], Exit::Usage),
    (&["servers", "add", "a", "--url", "http://x", "--header", "KEY=hunter2"], Exit::Usage),
    (&["servers", "allow", "a", "--env", "KEY=hunter2"], Exit::Usage),
    (&["import", "broken.toml", "--rename", "a=b c"], Exit::Usage),
    (&["profiles", "new", "a/b"], Exit::Usage),
    (&["secrets", "set", "a-b"], Exit::Usage),
    (&["grants", "add", "x", "--scope", "workspace", "--for", "soon"], Exit::Usage),
    (&["audit", "search", "--since", "soon"], Exit::Usage),
    (&["--config", "missing.toml", "tools", "list"], Exit::Configuration),
    (&["--config", "broken.toml", "serve"], Exit::Configuration),
    (&["--config", "broken.toml", "config", "show"], Exit::Configuration),
    (&["packs", "show", "one"], Exit::Unavailable),
    (&["approvals", "watch"], Exit::Unavailable),
    (&["grants", "add", "x", "--scope", "workspace", "--approval", "T-1"], Exit::Operator),
    (
        &[
            "grants",
            "add",
            "x",
            "--scope",
            "workspace",
            "--approval",
            "T-1",
            "--token-file",
            "broken.toml",
        ],
        Exit::Operator,
    ),
    (&["agents", "remove", "nobody"], Exit::Failed),
    (&["servers", "doctor", "nobody"], Exit::Failed),
    (&["approvals", "approve", "none"], Exit::Failed),
    (&["init"], Exit::Failed),
];

#[test]
fn errors_are_json_for_who_asks_for_it_everywhere() {
    let place = TestFolder::new("");
    std::fs::write(place.path().join("broken.toml"), "listen = \n").unwrap();
    place.make_data(&place.data());
    place.ok(&["agents", "list"]);
    for (args, exit) in ENDS {
        let plain = place.run(args);
        let said = text(&plain.stderr);
        assert_eq!(plain.status.code(), Some(exit.number().into()), "{args:?}: {said}");
        let output = place.run(&[args, &["--json"][..]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit.number().into()), "{args:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        let error: Value = serde_json::from_str(said.lines().last().unwrap_or_default())
            .unwrap_or_else(|_| panic!("{args:?}: {said}"));
        assert_eq!(error["error"]["code"], json!(exit.as_str()), "{args:?}: {said}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains("Usage:"), "{args:?}: {message}");
    }
}

#[test]
fn help_and_version_are_answers() {
    let place = TestFolder::new("");
    for args in [&["--help"][..], &["--version"], &["tools", "--help"], &["help", "tools"]] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}
