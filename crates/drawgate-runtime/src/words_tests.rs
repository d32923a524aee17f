//! The runtime does not assume that it is the program: it advises no command, and leaves the environment,
//! signals, the log and the allocator to what embeds it. What would do so is looked for in its sources.

use std::fs;
use std::path::{Path, PathBuf};

/// What belongs to the program, and what to do instead.
const OF_THE_PROGRAM: &[(&str, &str)] = &[
    ("`drawgate ", "say what to do; the program adds by which command"),
    ("env::var", "take it from `Secrets`"),
    ("env::args", "let the program read its arguments"),
    ("current_exe", "take the launcher from `Host`"),
    ("tokio::signal", "let the program handle signals"),
    ("ctrl_c", "let the program handle signals"),
    ("tracing_subscriber", "let the program choose where the log goes"),
    ("set_global_default", "let the program choose where the log goes"),
    ("global_allocator", "let the program choose the allocator"),
    ("process::exit", "return an error"),
];

/// The one command that the runtime still names: what tells it apart has no code of its own yet.
const STILL_ADVISED: &str = "`drawgate toolpacks update {id}`";

#[test]
fn the_runtime_does_not_assume_that_it_is_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for file in sources(&root) {
        let text = fs::read_to_string(&file).unwrap();
        // Tests are always last.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            // Comments may say how the program uses something.
            if line.trim_start().starts_with("//") || line.contains(STILL_ADVISED) {
                continue;
            }
            let bad = OF_THE_PROGRAM.iter().filter(|(word, _)| line.contains(word));
            let place = format!("{}:{}", file.display(), number + 1);
            found.extend(bad.map(|(word, instead)| format!("{place}: {word}: {instead}")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// All sources but those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.file_name().and_then(|name| name.to_str()).unwrap() {
        "testing" | "testing.rs" | "tests.rs" => Vec::new(),
        name if name.ends_with("_tests.rs") => Vec::new(),
        _ if path.is_dir() => sources(&path),
        _ if path.extension().is_some_and(|kind| kind == "rs") => vec![path],
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}
