//! Core speaks of no protocol and of no command line: the words of both are looked for in its sources.

use std::fs;
use std::path::{Path, PathBuf};

/// What must not appear, in lower case.
const PROTOCOLS: &[&str] = &[
    "mcp",
    "tools/",
    "resources/",
    "prompts/",
    "completion/",
    "logging/",
    "notifications/",
    "jsonrpc",
    "json-rpc",
    "elicitation",
    "sampling/",
    "roots/",
    "grpc",
    "tonic",
    "axum",
    "http",
];
const COMMANDS: &[&str] = &["`drawgate ", "command line", "`--"];

/// Type names that are a contract with other programs.
const CONTRACT: [&str; 3] = ["mcptoolspec", "mcpmanifest", "mcpserverconfig"];

/// What may appear all the same: the beginning of a path, the word, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("redact/", "command line", "arguments may be command lines, whose secrets are masked"),
    ("redact/", "`--", "as above"),
    ("policy/places.rs", "http", "rules about addresses know the schemes of the web"),
    ("model/shape.rs", "http", "addresses of pictures know the schemes of the web"),
    ("registry/schema.rs", "mcp", "the keyword of schemas that marks an argument with a header"),
];

#[test]
fn core_has_no_words_of_protocols_or_of_the_command_line() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for file in sources(&root) {
        let path = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let text = without_tests(&fs::read_to_string(&file).unwrap());
        for (number, line) in text.lines().enumerate() {
            let line =
                CONTRACT.iter().fold(line.to_lowercase(), |line, name| line.replace(name, ""));
            let bad = PROTOCOLS.iter().chain(COMMANDS).filter(|word| line.contains(**word));
            let bad = bad.filter(|word| !is_allowed(&path, word));
            found.extend(bad.map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    assert!(found.is_empty(), "name it neutrally, or let the caller pass it in: {found:#?}");
}

fn is_allowed(path: &str, word: &str) -> bool {
    ALLOWED.iter().any(|(start, allowed, _)| path.starts_with(start) && word == *allowed)
}

/// All sources but those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.file_name().and_then(|name| name.to_str()).unwrap() {
        "testing" => Vec::new(),
        name if name.ends_with("_tests.rs") => Vec::new(),
        _ if path.is_dir() => sources(&path),
        _ if path.extension().is_some_and(|kind| kind == "rs") => vec![path],
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}

/// A source up to its tests, which are always last.
fn without_tests(text: &str) -> String {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()
}
