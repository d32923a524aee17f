//! Checks of a crate's own source files: that it is a library, and that its folders depend on one
//! another in one direction.

use std::fs;
use std::path::{Path, PathBuf};

/// Text that only a program may have outside of comments and tests, and what to do instead.
const PROGRAM_ONLY: &[(&str, &str)] = &[
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

/// Checks that a crate does not assume that it is the program. Takes `env!("CARGO_MANIFEST_DIR")`.
pub fn check_library(manifest_dir: &str) {
    let mut found = Vec::new();
    for file in all_files(&Path::new(manifest_dir).join("src")) {
        for (number, line) in code(&file) {
            let bad = PROGRAM_ONLY.iter().filter(|(text, _)| line.contains(text));
            let place = format!("{}:{number}", file.display());
            found.extend(bad.map(|(text, instead)| format!("{place}: {text}: {instead}")));
            if names_option(&line) {
                found
                    .push(format!("{place}: say what to change; the program adds by which option"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Checks that each module of a crate's root uses, by `crate::`, only those that come before it in
/// `order`, which must name them all.
pub fn check_layers(manifest_dir: &str, order: &[&str]) {
    let source = Path::new(manifest_dir).join("src");
    let position = |module: &str| order.iter().position(|known| *known == module);
    let mut found = Vec::new();
    for file in all_files(&source) {
        let below = file.strip_prefix(&source).unwrap_or(&file);
        let own = below.iter().next().unwrap_or_default().to_string_lossy();
        let own = own.trim_end_matches(".rs").to_owned();
        if matches!(own.as_str(), "lib" | "main") {
            continue;
        }
        let Some(place) = position(&own) else {
            found.push(format!("`{own}` has no place in the order"));
            continue;
        };
        for (number, line) in code(&file) {
            let used = line.split("crate::").skip(1).map(module_name);
            let bad =
                used.filter(|used| *used != own && position(used).is_some_and(|at| at > place));
            found.extend(bad.map(|used| format!("{}:{number}: {own} uses {used}", file.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Whether a line names an option of a command line, as messages write it.
fn names_option(line: &str) -> bool {
    let mut after = line.split("`--").skip(1);
    after.any(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
}

fn module_name(path: &str) -> &str {
    let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    path.get(..end.unwrap_or(path.len())).unwrap_or(path)
}

/// The lines of a file that are neither comments nor tests, with their numbers.
fn code(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // Tests are always last.
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned()));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//")).collect()
}

/// All source files of a crate but those of tests.
fn all_files(source: &Path) -> Vec<PathBuf> {
    let files = source_files(source);
    assert!(!files.is_empty(), "no source files in `{}`", source.display());
    files
}

fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // What is in `bin` is a program.
        let is_test = matches!(name.as_str(), "bin" | "testing" | "testing.rs" | "tests.rs")
            || name.ends_with("_tests.rs");
        if is_test {
            continue;
        }
        if path.is_dir() {
            files.extend(source_files(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.push(path);
        }
    }
    files
}
