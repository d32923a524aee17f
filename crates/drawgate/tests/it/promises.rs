//! SECURITY.md names, beside each promise, the tests that hold it, and ARCHITECTURE.md beside each invariant
//! what holds it. The tests must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What a promise or an invariant may name instead of a test.
const OTHERS: [&str; 3] = ["the compiler", "the type", "the lint"];

#[test]
fn every_promise_names_tests_that_exist() {
    check("SECURITY.md", "What ", 20);
}

#[test]
fn every_invariant_names_what_holds_it() {
    check("ARCHITECTURE.md", "Invariants", 10);
}

/// Looks at the lists in the sections of a document whose titles begin like this.
fn check(document: &str, section: &str, fewest: usize) {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let known = tests();
    let promises = promises(&text, section);
    assert!(promises.len() > fewest, "only {} were found in {document}", promises.len());
    let mut wrong = Vec::new();
    for promise in promises {
        let Some((said, held)) = promise.rsplit_once("Held by ") else {
            wrong.push(format!("names no test: {promise}"));
            continue;
        };
        let names: Vec<&str> = held.split('`').skip(1).step_by(2).collect();
        if OTHERS.iter().any(|other| held.contains(other)) {
            continue;
        }
        if names.is_empty() {
            wrong.push(format!("names no test: {said}"));
        }
        let unknown = names.iter().filter(|name| !known.contains(last(name)));
        wrong.extend(unknown.map(|name| format!("there is no test `{name}`: {said}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_is_in_the_lowest_layer_of_the_sandbox_alone() {
    // The binding allows what is generated, and has none of its own.
    let (written, generated) =
        ("crates/drawgate-host/src/sandbox/init/sys.rs", "crates/drawgate-node/src/lib.rs");
    let opens = |text: &str| {
        text.lines().map(str::trim_start).any(|line| {
            line.starts_with('#')
                && ["allow(unsafe_code", "expect(unsafe_code"]
                    .iter()
                    .any(|word| line.contains(word))
        })
    };
    let has = |text: &str| {
        text.lines().any(|line| line.contains("unsafe {") || line.contains("unsafe fn "))
    };
    let files = sources().into_iter().filter(|path| {
        let (name, text) = (path.strip_prefix(root()).unwrap(), fs::read_to_string(path).unwrap());
        let is_generated = name == Path::new(generated);
        let is_binding = name.starts_with("crates/drawgate-node");
        name != Path::new(written)
            && ((opens(&text) && !is_generated) || (is_binding && has(&text)))
    });
    let files: Vec<PathBuf> = files.collect();
    assert!(files.is_empty(), "unsafe code is allowed in {files:?}");
}

/// What a model may come to read names no command: many have a shell.
#[test]
fn no_surface_of_callers_names_a_command() {
    let program = root().join("crates/drawgate/src");
    let is_for_callers = |path: &PathBuf| {
        let Ok(name) = path.strip_prefix(&program) else { return false };
        let is_control = name.starts_with("surface/control") || name.ends_with("control.rs");
        (name.starts_with("surface") && !is_control)
            || name.starts_with("server")
            || name == Path::new("server.rs")
    };
    let files: Vec<PathBuf> = sources().into_iter().filter(is_for_callers).collect();
    assert!(files.len() > 40, "only {} files were found", files.len());
    let mut named = Vec::new();
    for path in files.iter().filter(|path| !path.to_string_lossy().ends_with("_tests.rs")) {
        let text = fs::read_to_string(path).unwrap();
        let said = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let said =
            said.filter(|line| line.contains("`drawgate ") || line.contains("drawgate approvals"));
        named.extend(said.map(|line| format!("{}: {line}", path.display())));
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The items of the document's lists in these sections.
fn promises(text: &str, section: &str) -> Vec<String> {
    let mut promises: Vec<String> = Vec::new();
    let mut is_promising = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            is_promising = title.starts_with(section);
        } else if is_promising && line.starts_with("- ") {
            promises.push(line.to_owned());
        } else if is_promising && line.starts_with("  ") {
            let promise = promises.last_mut().unwrap();
            promise.push(' ');
            promise.push_str(line.trim());
        }
    }
    promises
}

/// The names of all test functions of the workspace.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in sources() {
        let text = fs::read_to_string(path).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, rest)) = line.split_once("fn ") {
                if is_test {
                    names.extend(rest.split('(').next().map(str::to_owned));
                }
                is_test = false;
            }
        }
    }
    names
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

fn last(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}
