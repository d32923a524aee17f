//! From bytes to a value: JSON strictly, YAML within a budget.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use drawgate_core::json;
use rustix::fs::{Mode, OFlags};
use serde_json::Value;

use super::DocumentError;

/// The largest document that is read; the largest public ones have 50 MB.
pub(in crate::openapi) const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

/// Scalars, lists and maps of a YAML document; GitHub's has 0.7 million.
const MAX_NODES: usize = 3_000_000;
/// Copies that aliases may make; documents that use them at all make few.
const MAX_REPLAYED: usize = 100_000;
const MAX_ALIASES: usize = 10_000;
/// How much of a parser's message is shown.
const SHOWN: usize = 300;

pub(super) fn value(bytes: &[u8]) -> Result<Value, DocumentError> {
    if bytes.len() > MAX_DOCUMENT {
        return Err(DocumentError::TooLarge(MAX_DOCUMENT));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii_start().starts_with(b"{") {
        return json::parse(bytes).map_err(DocumentError::Json);
    }
    yaml(bytes)
}

pub(super) fn file(path: &Path) -> Result<Vec<u8>, DocumentError> {
    let bad = |reason: String| DocumentError::File { path: path.display().to_string(), reason };
    if !path.is_absolute() {
        return Err(bad("the path must be absolute".to_owned()));
    }
    // Not blocking: opening a named pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP => bad("it is a symbolic link; name the file itself".to_owned()),
        other => bad(other.to_string()),
    })?;
    let file = File::from(file);
    let about = file.metadata().map_err(|error| bad(error.to_string()))?;
    if !about.is_file() {
        return Err(bad("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let limit = MAX_DOCUMENT as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| bad(error.to_string()))?;
    Ok(bytes)
}

fn yaml(bytes: &[u8]) -> Result<Value, DocumentError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: json::MAX_DEPTH,
            max_documents: 1,
            max_nodes: MAX_NODES,
            max_events: MAX_NODES * 2,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
            max_replay_stack_depth: 16,
        },
    };
    serde_saphyr::from_slice_with_options(bytes, options)
        .map_err(|error| DocumentError::Yaml(error.to_string().chars().take(SHOWN).collect()))
}
