//! Verifying an audit log that was exported to a file.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use drawgate_core::audit::{Anchor, Pins, Report, Verifier, VerifyKeys};
use drawgate_core::store::StoreError;

use super::sqlite::unavailable;
use crate::user_files;

/// Longest line of an export that is read as one: the largest event, with room.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// Verifies an export. Without a public key or an anchor nothing is proved.
pub fn verify_file(
    path: &Path,
    keys: Option<VerifyKeys>,
    anchors: Vec<Anchor>,
) -> Result<Report, StoreError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        unavailable("read the export", &format!("`{}`: {error}", path.display()))
    };
    let mut lines = BufReader::new(user_files::open(path).map_err(|error| unreadable(&error))?);
    let mut verifier = Verifier::new(Pins { install: None, keys, anchors });
    let mut line = Vec::new();
    while !verifier.is_bad() {
        line.clear();
        std::io::Read::take(&mut lines, MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(&error))?;
        match (line.as_slice(), line.strip_suffix(b"\n")) {
            ([], _) => break,
            (_, Some(whole)) => push_line(&mut verifier, &String::from_utf8_lossy(whole)),
            (part, None) => {
                push_last(&mut verifier, &String::from_utf8_lossy(part));
                break;
            }
        }
    }
    Ok(verifier.finish(None))
}

fn push_line(verifier: &mut Verifier, line: &str) {
    // Checkpoints and prune records end in their signature; an event has none, and begins differently.
    if line.starts_with("{\"at\":") && line.contains("\"pruned\":") {
        verifier.pruned(line);
    } else if line.starts_with("{\"at\":") {
        verifier.checkpoint(line);
    } else {
        verifier.push(line);
    }
}

/// A last line without its end is a torn write, unless it is whole.
fn push_last(verifier: &mut Verifier, line: &str) {
    match drawgate_core::json::parse(line.as_bytes()) {
        Ok(_) => push_line(verifier, line),
        Err(_) => verifier.torn(),
    }
}
