//! Checks of a crate's own source files: that it is a library, and that its folders depend on one
//! another in one direction.

mod paths;

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

/// Checks that each module of a crate's root uses only those that come before it in `order`, which must name them
/// all.
pub fn check_layers(manifest_dir: &str, order: &[&str]) {
    check_order(manifest_dir, &[], order);
}

/// Checks the same of the modules of one folder below `src`, which also use nothing that the folder's own `mod.rs`
/// defines.
pub fn check_layers_below(manifest_dir: &str, folder: &str, order: &[&str]) {
    let root: Vec<String> = folder.split('/').map(str::to_owned).collect();
    check_order(manifest_dir, &root, order);
}

fn check_order(manifest_dir: &str, root: &[String], order: &[&str]) {
    let source = Path::new(manifest_dir).join("src");
    let folder = root.iter().fold(source.clone(), |folder, name| folder.join(name));
    let position = |module: &str| order.iter().position(|known| *known == module);
    let mut found = Vec::new();
    for file in all_files(&folder) {
        let module = module_path(&file, &source);
        let Some(own) = module.get(root.len()) else { continue };
        let Some(place) = position(own) else {
            found.push(format!("`{own}` has no place in the order"));
            continue;
        };
        let code: Vec<String> = code(&file).into_iter().map(|(_, line)| line).collect();
        for path in paths::of(&code.join("\n"), &module) {
            let used = path.strip_prefix(root).and_then(|below| below.first());
            let Some(used) = used.filter(|used| *used != own) else { continue };
            let allowed = match position(used) {
                Some(at) => at < place,
                // What a crate's root has for all is not a module.
                None => root.is_empty(),
            };
            if !allowed {
                found.push(format!("{}: {own} uses {}", file.display(), path.join("::")));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The module that a file is. A crate's root and the root of a folder are named by their folder alone.
fn module_path(file: &Path, source: &Path) -> Vec<String> {
    let below = file.strip_prefix(source).unwrap_or(file).with_extension("");
    let mut names: Vec<String> =
        below.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// Whether a line names an option of a command line, as messages write it.
fn names_option(line: &str) -> bool {
    let mut after = line.split("`--").skip(1);
    after.any(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
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
