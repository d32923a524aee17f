//! What people see on terminals of 80 and 120 columns.

use insta::assert_snapshot;
use serde_json::json;

use crate::load::offers;
use crate::support::{Gateway, TestFolder, eventually, text};

/// A server that works, one that can't, one that fails, and a rule that asks a person.
fn config() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/shell.py");
    format!(
        "[approvals]\nhold_seconds = 0\n[policy.defaults]\nfallback = \"allow\"\n\
         [[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n\
         reason = \"writing is serious\"\n\
         [servers.shell]\ncommand = \"python3\"\nargs = [{script:?}]\n\
         [servers.documents]\ncommand = \"/nonexistent/bin/documents-server\"\n\
         [servers.quits]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no database >&2; exit 3\"]\n"
    )
}

async fn prepared() -> (TestFolder, Gateway) {
    let place = TestFolder::new(&config());
    let gateway = place.serve();
    offers(&gateway, "shell__run").await;
    let failed = |one: &serde_json::Value| one["state"] == "failed";
    eventually("two servers have failed", async || {
        let servers = place.json(&["servers", "list"]);
        let count = servers.as_array().unwrap().iter().filter(|one| failed(one)).count();
        (count == 2).then_some(())
    })
    .await;
    let content = "a text that is much longer than what fits into one line of a terminal, even of a wide one with 120 columns";
    for path in ["notes/2026/a.txt", "b.txt"] {
        let arguments = json!({ "path": path, "content": content });
        gateway.call(&gateway.token, "vfs_write", arguments).await;
    }
    gateway.call(&gateway.token, "shell__run", json!({ "command": "echo hello" })).await;
    gateway.call(&gateway.token, "vfs_read", json!({ "path": "missing.txt" })).await;
    (place, gateway)
}

/// Stands for every approval's id.
const ID: &str = "kJ3fZ0aVbT7qLm2xYw9d";

/// What is seen, with what differs from run to run replaced by as many characters.
fn screen(place: &TestFolder, gateway: &Gateway, columns: usize, args: &[&str]) -> String {
    let seen = seen(&text(&place.on_screen(columns, args).stdout));
    for line in seen.lines() {
        // Addresses are not cut, and notes beside a list are prose.
        let is_whole = ["http://", "drawgate: "].iter().any(|it| line.trim_start().starts_with(it));
        assert!(line.chars().count() <= columns || is_whole, "{columns}, {args:?}: {line}");
    }
    let port = gateway.address.rsplit(':').next().unwrap();
    let mut seen = seen.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:77000");
    for approval in place.json(&["approvals", "list"]).as_array().unwrap() {
        let id = approval["id"].as_str().unwrap();
        let masks = (0..=id.len()).rev().map(|length| (&id[..length], &ID[..length]));
        // Whole, or cut where a line ends.
        for (id, mask) in masks.filter(|(id, _)| id.len() > 2) {
            seen = seen.replace(&format!("{id}…"), &format!("{mask}…"));
        }
        seen = seen.replace(id, ID);
    }
    masked(&seen)
}

/// What stays on a screen: signs of life are written over from the beginning of their line.
fn seen(written: &str) -> String {
    let line = |line: &str| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or_default().to_owned() + "\n"
    };
    written.lines().map(line).collect()
}

/// Times and durations are not the same twice.
fn masked(seen: &str) -> String {
    let mut shown = String::new();
    for line in seen.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let masked = words.iter().enumerate().map(|(at, word)| match *word {
            word if has_shape(word, "0000-00-00") => "2026-11-17",
            word if has_shape(word, "00:00:00") => "14:05:09",
            _ if words.get(at + 1) == Some(&"ms") => "7",
            word => word,
        });
        shown.push_str(masked.collect::<Vec<_>>().join(" ").trim_end());
        shown.push('\n');
    }
    shown
}

/// Whether a word has digits where the shape has `0`, and is like it elsewhere.
fn has_shape(word: &str, shape: &str) -> bool {
    let fits = |(c, s): (char, char)| if s == '0' { c.is_ascii_digit() } else { c == s };
    word.len() == shape.len() && word.chars().zip(shape.chars()).all(fits)
}

#[tokio::test]
async fn lists_fit_80_and_120_columns() {
    let (place, gateway) = prepared().await;
    let mut screens = String::new();
    let lists: [&[&str]; 4] = [
        &["tools", "list"],
        &["servers", "list"],
        &["approvals", "list"],
        &["audit", "tail", "-n", "8"],
    ];
    for columns in [80, 120] {
        for args in lists {
            let seen = screen(&place, &gateway, columns, args);
            let command = format!("{columns}$ drawgate {}\n", args.join(" "));
            screens.extend([command.as_str(), &seen, "\n"]);
        }
    }
    assert_snapshot!(screens);
    // How long calls take decides where these are cut.
    for columns in [80, 120] {
        for args in [&["audit", "search"][..], &["agents", "list"]] {
            assert!(!screen(&place, &gateway, columns, args).is_empty(), "{args:?}");
        }
    }
}

#[tokio::test]
async fn colours_are_for_terminals_that_have_them() {
    let place = TestFolder::new("");
    place.ok(&["agents", "add", "bot", "--quiet"]);
    let seen = |term: &str, no_color: &str| {
        let mut command = place.person(80, "y", &["servers", "list"]);
        text(&command.env("TERM", term).env("NO_COLOR", no_color).output().unwrap().stdout)
    };
    assert!(seen("xterm-256color", "").contains("\u{1b}[32mready\u{1b}[0m"));
    for (term, no_color) in [("dumb", ""), ("xterm-256color", "1"), ("", "")] {
        let shown = seen(term, no_color);
        assert!(shown.contains("ready") && !shown.contains('\u{1b}'), "{term}: {shown:?}");
    }
    let piped = place.command(&["servers", "list"]).env("TERM", "xterm").output().unwrap();
    assert!(!text(&piped.stdout).contains('\u{1b}'));
}
