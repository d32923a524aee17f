//! Names of files in the workspace.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Longest path; what the kernel accepts is longer.
const MAX_PATH: usize = 1024;
/// Longest component; the kernel's own limit.
const MAX_COMPONENT: usize = 255;
/// Deepest nesting.
pub(super) const MAX_DEPTH: usize = 32;
/// What names of unfinished files begin with.
pub(super) const UNFINISHED: &str = ".drawgate-unfinished-";

/// What is percent-encoded in a URI: all but letters, digits and `-._~/`.
const NOT_PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A relative path without `.` or `..`, such as `notes/today.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePath(String);

/// Why a string is not such a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a path in the workspace: {reason}; use one such as `notes/today.md`")]
pub(super) struct PathError {
    shown: String,
    reason: &'static str,
}

impl FilePath {
    pub(super) fn new(text: &str) -> Result<Self, PathError> {
        match fault(text) {
            None => Ok(Self(text.to_owned())),
            Some(reason) => {
                let shown: String = text.chars().take(80).collect();
                Err(PathError { shown: shown.escape_debug().to_string(), reason })
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders, outermost first, and the file's own name.
    pub(super) fn split(&self) -> (impl Iterator<Item = &str>, &str) {
        let (folders, name) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        (folders.split('/').filter(|folder| !folder.is_empty()), name)
    }

    /// For a URI.
    pub(super) fn as_uri_path(&self) -> String {
        utf8_percent_encode(&self.0, NOT_PLAIN).to_string()
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.len() > MAX_PATH {
        return Some("it is longer than 1024 bytes");
    }
    if text.chars().any(char::is_control) {
        return Some("it contains a control character");
    }
    if text.starts_with('/') {
        return Some("it begins with `/`");
    }
    if text.split('/').count() > MAX_DEPTH {
        return Some("it is nested deeper than 32 folders");
    }
    text.split('/').find_map(component_fault)
}

fn component_fault(component: &str) -> Option<&'static str> {
    match component {
        "" => Some("a part of it is empty"),
        "." | ".." => Some("`.` and `..` are not possible"),
        long if long.len() > MAX_COMPONENT => Some("a part of it is longer than 255 bytes"),
        reserved if reserved.starts_with(UNFINISHED) => Some("the name is reserved"),
        _ => None,
    }
}
