//! Hostile arguments through a real gateway: each stays one argument, or is refused.

use serde_json::{Value, json};

use super::{install_and_enable, listed, path_with, program, refusal, said, write};
use crate::support::{TestFolder, text};

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
    let place = TestFolder::new("");
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

/// The table that the templates are tested with one by one.
const TABLE: &str = include_str!("../../../../drawgate-sources/src/command/template/injection.tsv");

/// Leaves its arguments in the workspace, byte for byte.
const RECORDER: &str = "#!/bin/sh\ncat /proc/$$/cmdline > argv\n";

/// A row of the table.
struct Injection {
    name: &'static str,
    template: String,
    arguments: Value,
    expected: &'static str,
}

fn table() -> Vec<Injection> {
    let row = |line: &'static str| {
        let [name, template, arguments, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let template = serde_json::from_str(template).unwrap();
        let arguments = match arguments {
            "@repeat A 131072" => json!({ "q": "A".repeat(131_072) }),
            arguments => serde_json::from_str(arguments).unwrap(),
        };
        Injection { name, template, arguments, expected }
    };
    TABLE.lines().skip(1).map(row).collect()
}

impl Injection {
    /// A tool of the row's own name, with the parameters that the row takes for granted.
    fn tool(&self) -> Value {
        let (parameter, kind) = match self.name {
            name if name.starts_with("int_") || name == "unknown_arg" => {
                ("limit", json!({ "type": "integer" }))
            }
            name if name.starts_with("splat_") => {
                ("paths", json!({ "type": "array", "items": { "type": "string" } }))
            }
            "pattern_anchored" => ("q", json!({ "type": "string", "pattern": "[0-9]+" })),
            "enum" => ("q", json!({ "type": "string", "enum": ["open", "closed"] })),
            "tpl_inner" => {
                ("q", json!({ "type": "string", "pattern": "[A-Za-z0-9_.-]+/[A-Za-z0-9_-]+" }))
            }
            _ => ("q", json!({ "type": "string" })),
        };
        json!({
            "name": self.name, "type": "command", "description": "A command.",
            "command_template": self.template,
            "parameters": { "type": "object", "properties": { parameter: kind }, "required": [parameter] },
        })
    }

    fn is_refused_when_loaded(&self) -> bool {
        self.expected.starts_with("E_TEMPLATE")
    }
}

fn pack_of(tools: &[Value]) -> Value {
    json!({ "id": "table", "name": "Table", "version": "1.0.0", "tools": tools })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_table_holds_behind_a_gateway() {
    let place = TestFolder::new("");
    for name in ["gh", "grep", "wc"] {
        program(&place, name, RECORDER);
    }
    let bin = place.path().join("bin");
    let (loaded, called): (Vec<_>, Vec<_>) =
        table().into_iter().partition(Injection::is_refused_when_loaded);
    assert_eq!((loaded.len(), called.len()), (9, 48));
    for row in loaded {
        let folder = write(&place, &pack_of(&[row.tool()]));
        let said = refusal(&place.run(&["toolpacks", "install", folder.to_str().unwrap()]));
        assert!(said.contains(row.expected), "{}: {said}", row.name);
    }
    let gateway = place.serve_with(|command| {
        command.env("PATH", path_with(&bin)).env("GITHUB_TOKEN", "token-of-the-gateway");
    });
    let tools: Vec<Value> = called.iter().map(Injection::tool).collect();
    install_and_enable(&place, &write(&place, &pack_of(&tools)));
    listed(&gateway, "splat_ok").await;
    let workspace = place.data().join("workspace");
    for row in called {
        let argv = workspace.join("argv");
        let _earlier = std::fs::remove_file(&argv);
        let result = gateway.call(&gateway.token, row.name, row.arguments).await;
        let head: String = result.to_string().chars().take(600).collect();
        let Ok(command) = serde_json::from_str::<Vec<String>>(row.expected) else {
            assert_eq!(result["isError"], true, "{}: {head}", row.name);
            // What the schema forbids is refused before the template sees it.
            let by_schema = ["E_TYPE", "E_MISSING", "E_SCHEMA"].contains(&row.expected)
                && head.contains("INVALID_ARGUMENTS");
            assert!(by_schema || head.contains(row.expected), "{}: {head}", row.name);
            assert!(!argv.exists(), "{} was run: {head}", row.name);
            continue;
        };
        assert_ne!(result["isError"], true, "{}: {head}", row.name);
        let program = bin.join(&command[0]).display().to_string();
        let words =
            ["/bin/sh", &program].into_iter().chain(command[1..].iter().map(String::as_str));
        let words: String = words.flat_map(|word| [word, "\0"]).collect();
        assert_eq!(text(&std::fs::read(&argv).unwrap()), words, "{}", row.name);
    }
    let left: Vec<_> =
        std::fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "argv"), "{left:?}");
}
