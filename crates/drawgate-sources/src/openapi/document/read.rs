//! From bytes to a value: JSON strictly, YAML within a budget.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use drawgate_core::json;
use rustix::fs::{Mode, OFlags};
use serde_json::Value;

use super::DocumentError;
use crate::yaml::{self, YamlLimits};

/// The largest document that is read; the largest public ones have 50 MB.
pub(in crate::openapi) const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

/// What a YAML document may hold: GitHub's has 0.7 million values, and those that use aliases at all make
/// few copies.
const LIMITS: YamlLimits =
    YamlLimits { depth: json::MAX_DEPTH, nodes: 3_000_000, aliases: 10_000, replayed: 100_000 };

pub(super) fn value(bytes: &[u8]) -> Result<Value, DocumentError> {
    if bytes.len() > MAX_DOCUMENT {
        return Err(DocumentError::TooLarge(MAX_DOCUMENT));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii_start().starts_with(b"{") {
        return json::parse(bytes).map_err(DocumentError::Json);
    }
    yaml::parse(bytes, LIMITS).map_err(|error| DocumentError::Yaml(error.message))
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
