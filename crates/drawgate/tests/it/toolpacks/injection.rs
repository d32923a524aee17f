//! Hostile arguments through a real gateway: each stays one argument, or is refused.

use serde_json::{Value, json};

use super::{install_and_enable, listed, path_with, program, said, write};
use crate::support::Place;

/// Prints each argument on a line of its own, so that two can't be taken for one.
const GH: &str = "#!/bin/sh\nfor word in \"$@\"; do printf '<%s>\\n' \"$word\"; done\n";

type Expected = Result<&'static [&'static str], &'static str>;

/// A tool, a value of its parameter, and the words that the program gets or the code of a refusal.
const ROWS: &[(&str, &str, Expected)] = &[
    ("hunt", "\"x; touch PWNED\"", Ok(&["issue", "list", "--search", "x; touch PWNED"])),
    ("hunt", "\"$(touch PWNED)\"", Ok(&["issue", "list", "--search", "$(touch PWNED)"])),
    ("hunt", "\"`touch PWNED`\"", Ok(&["issue", "list", "--search", "`touch PWNED`"])),
    (
        "hunt",
        "\"x' ; touch PWNED ; '\"",
        Ok(&["issue", "list", "--search", "x' ; touch PWNED ; '"]),
    ),
    (
        "hunt",
        "\"env:HOME ${IFS} {{q}} *\"",
        Ok(&["issue", "list", "--search", "env:HOME ${IFS} {{q}} *"]),
    ),
    ("hunt", "\"two  words\"", Ok(&["issue", "list", "--search", "two  words"])),
    ("hunt", "\"--web\"", Err("E_OPTION")),
    ("hunt", "\"x\\ntouch PWNED\"", Err("E_CONTROL")),
    ("hunt", "\"x\\u0000--web\"", Err("E_NUL")),
    ("hunt", "\"\"", Err("E_EMPTY")),
    ("view", "\"-R\"", Err("E_OPTION")),
    ("view", "\"\u{2014}web\"", Ok(&["issue", "view", "\u{2014}web"])),
    ("equals", "\"--web\"", Ok(&["issue", "list", "--search=--web"])),
    ("after", "\"-e\"", Ok(&["-n", "--", "-e", "notes.txt"])),
    ("all", "[\"a b\", \"-c\", \"$(id)\"]", Ok(&["-l", "--", "a b", "-c", "$(id)"])),
];

fn pack() -> Value {
    let tool = |name: &str, template: &str, kind: Value| {
        json!({
            "name": name, "type": "command", "description": "A command.", "command_template": template,
            "parameters": { "type": "object", "properties": { "q": kind }, "required": ["q"] },
        })
    };
    let (text, list) =
        (json!({ "type": "string" }), json!({ "type": "array", "items": { "type": "string" } }));
    json!({
        "id": "hostile", "name": "Hostile", "version": "1.0.0",
        "tools": [
            tool("hunt", "gh issue list --search {{q}}", text.clone()),
            tool("view", "gh issue view {{q}}", text.clone()),
            tool("equals", "gh issue list --search={{q}}", text.clone()),
            tool("after", "gh -n -- {{q}} notes.txt", text),
            tool("all", "gh -l -- {{q...}}", list),
        ],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_argument_stays_one_argument() {
    let place = Place::new("");
    let bin = program(&place, "gh", GH);
    let gateway = place.serve_with(|command| {
        command.env("PATH", path_with(&bin));
    });
    install_and_enable(&place, &write(&place, &pack()));
    listed(&gateway, "hunt").await;
    for (tool, value, expected) in ROWS {
        let value: Value = serde_json::from_str(value).unwrap();
        let result = gateway.call(&gateway.token, tool, json!({ "q": value })).await;
        match expected {
            Ok(words) => {
                let lines = format!("<{}>\n", words.join(">\n<"));
                assert!(said(&result).contains(&lines), "{tool} {value}: {result}");
                assert_ne!(result["isError"], true, "{tool} {value}: {result}");
            }
            Err(code) => {
                assert_eq!(result["isError"], true, "{tool} {value}: {result}");
                assert!(result.to_string().contains(code), "{tool} {value}: {code}: {result}");
            }
        }
    }
    let workspace = place.data().join("workspace");
    let left: Vec<_> =
        std::fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == "PWNED"), "{left:?}");
}
