//! What keeps this crate a library: it reads no environment of its own, and the program that embeds it
//! adds advice about its command line.

use std::fs;
use std::path::{Path, PathBuf};

/// Text that source files must not hold outside of comments.
const PROGRAM_ONLY: &[&str] =
    &["`drawgate ", "current_exe", "env::var", "env::args", "tokio::signal", "tracing_subscriber"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn nothing_assumes_that_it_is_the_program() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for file in files(&source) {
        let text = fs::read_to_string(&file).unwrap();
        let code =
            text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            if PROGRAM_ONLY.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
