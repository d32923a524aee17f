//! What a pack declares to need.

use std::collections::BTreeSet;

use drawgate_core::model::shown_name;
use drawgate_host::egress::HostRule;

use super::super::problem::{Sink, element};
use super::super::types::DeclaredPermissions;
use super::text::check_variable;
use super::variables::check_given;

/// Most paths, hosts or variables.
const MAX_EACH: usize = 256;
/// Longest path.
const MAX_PATH: usize = 1024;
/// Folders that are no business of a pack: the kernel's, and those that hold every user's home.
const CLOSED: [&str; 8] = ["/proc", "/sys", "/dev", "/run", "/boot", "/home", "/root", "/Users"];

pub(super) fn check(declared: &DeclaredPermissions, sink: &mut Sink) {
    let lists = [
        ("$.permissions.paths.read", &declared.paths.read),
        ("$.permissions.paths.write", &declared.paths.write),
        ("$.permissions.hosts", &declared.hosts),
        ("$.permissions.env", &declared.env),
    ];
    for (path, items) in lists {
        if items.len() > MAX_EACH {
            let message = format!("{} are too many", items.len());
            sink.add(path, message, format!("use at most {MAX_EACH}"));
        }
        each_once(path, items, sink);
    }
    for list in ["read", "write"] {
        let paths = if list == "read" { &declared.paths.read } else { &declared.paths.write };
        for (index, text) in paths.iter().enumerate() {
            check_path(&element(&format!("$.permissions.paths.{list}"), index), text, sink);
        }
    }
    for (index, host) in declared.hosts.iter().enumerate() {
        if let Err(error) = host.parse::<HostRule>() {
            sink.fault(&element("$.permissions.hosts", index), error.to_string());
        }
    }
    for (index, name) in declared.env.iter().enumerate() {
        let path = element("$.permissions.env", index);
        if let Some(bare) = name.strip_prefix("env:") {
            let message = format!("`{}` is a reference, not a name", shown_name(name));
            sink.add(&path, message, format!("write `{}`", shown_name(bare)));
        } else {
            check_variable(&path, name, sink);
            check_given(&path, name, sink);
        }
    }
}

fn each_once(path: &str, items: &[String], sink: &mut Sink) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(item) {
            let message = format!("`{}` is there twice", shown_name(item));
            sink.add(&element(path, index), message, "remove one of them");
        }
    }
}

fn check_path(path: &str, text: &str, sink: &mut Sink) {
    let bad = |sink: &mut Sink, message: &str, advice: &str| {
        let message = format!("`{}`: {message}", shown_name(text));
        sink.add(path, message, advice);
    };
    let inside = text.strip_prefix("~/").unwrap_or(text);
    let parts: Vec<&str> = inside.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if text.is_empty() || text.len() > MAX_PATH || text.contains(char::is_control) {
        return bad(sink, "not a path", "name a file or a folder, such as `~/notes`");
    }
    if parts.contains(&"..") {
        return bad(sink, "a path must not go up with `..`", "write where it leads");
    }
    if text.starts_with('~') && !text.starts_with("~/") && text != "~" {
        return bad(sink, "other users' homes can't be named", "use `~/…`, or an absolute path");
    }
    if text == "~" || (text.starts_with("~/") && parts.is_empty()) {
        return bad(
            sink,
            "a whole home folder is too much",
            "name a folder in it, such as `~/notes`",
        );
    }
    if text.starts_with('/') {
        let Some(first) = parts.first() else {
            return bad(sink, "the whole machine is too much", "name the folders that are needed");
        };
        let top = format!("/{first}");
        let kernel = matches!(top.as_str(), "/proc" | "/sys" | "/dev" | "/run" | "/boot");
        if kernel || (parts.len() == 1 && CLOSED.contains(&top.as_str())) {
            bad(sink, "no pack may have it", "name a folder of files that the pack works with");
        }
    }
}
