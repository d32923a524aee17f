//! What a pack's content is, in one number.
//!
//! It covers the names of all files and folders, which files are programs, and all bytes. It leaves
//! out times and owners, and `enabled`, which decides nothing once a pack is installed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use drawgate_core::{canonical, json};
use drawgate_sources::toolpack::FILE as MANIFEST;
use rustix::fs::Stat;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::ToolpackError;
use super::walk::{self, MAX_BYTES, Visitor};

/// Precedes everything that is hashed, so that no other hash can be mistaken for one of these.
const PREFIX: &[u8] = b"drawgate toolpack 1\0";

/// How every hash begins.
pub(super) const HASH_PREFIX: &str = "sha256:";

/// What of the manifest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManifestScope {
    /// What it says, but for `enabled`.
    Meaning,
    /// Its bytes.
    Bytes,
}

/// The hash of a pack's folder: `sha256:` and 64 digits.
pub(crate) fn hash(folder: &Path, of: ManifestScope) -> Result<String, ToolpackError> {
    let mut hasher = Hasher { folder, of, lines: Vec::new() };
    walk::walk(folder, &mut hasher)?;
    hasher.lines.sort_unstable();
    let mut digest = Sha256::new();
    digest.update(PREFIX);
    for line in &hasher.lines {
        digest.update(line.path.as_bytes());
        digest.update(b"\0");
        digest.update(line.what.as_bytes());
        digest.update(b"\n");
    }
    Ok(named(&canonical::hex(&digest.finalize())))
}

/// The hash of bytes, in the same form.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    named(&canonical::sha256_hex(bytes))
}

/// Whether a text has the form of these hashes.
pub(super) fn is_hash(text: &str) -> bool {
    text.strip_prefix(HASH_PREFIX).is_some_and(|digits| {
        digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn named(digits: &str) -> String {
    format!("{HASH_PREFIX}{digits}")
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HashLine {
    path: String,
    what: String,
}

struct Hasher<'a> {
    folder: &'a Path,
    of: ManifestScope,
    lines: Vec<HashLine>,
}

impl Visitor for Hasher<'_> {
    fn folder(&mut self, path: &str, _stat: &Stat) -> Result<(), ToolpackError> {
        self.lines.push(HashLine { path: path.to_owned(), what: "folder".to_owned() });
        Ok(())
    }

    fn file(&mut self, path: &str, file: File, executable: bool) -> Result<(), ToolpackError> {
        let digits = if path == MANIFEST && self.of == ManifestScope::Meaning {
            meaning(file)
        } else {
            content(file)
        };
        let digits = digits.map_err(ToolpackError::io("read", &self.folder.join(path)))?;
        let kind = if executable { "program" } else { "file" };
        self.lines.push(HashLine { path: path.to_owned(), what: format!("{kind} {digits}") });
        Ok(())
    }
}

fn content(file: File) -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(&mut file.take(MAX_BYTES), &mut digest)?;
    Ok(canonical::hex(&digest.finalize()))
}

/// The manifest without `enabled`, however it is written. What is no JSON object counts as bytes.
fn meaning(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let Ok(Value::Object(mut manifest)) = json::parse(&bytes) else {
        return Ok(format!("bytes {}", canonical::sha256_hex(&bytes)));
    };
    manifest.shift_remove("enabled");
    Ok(canonical::sha256_hex(canonical::to_string(&Value::Object(manifest)).as_bytes()))
}

#[cfg(test)]
#[path = "hash_tests.rs"]
mod tests;
