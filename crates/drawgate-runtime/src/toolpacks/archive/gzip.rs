//! Takes the compression off, never beyond a limit.

use std::io::{ErrorKind, Read as _};

use flate2::bufread::GzDecoder;

use super::{malformed, too_large};
use crate::toolpacks::error::ToolpackError;
use crate::toolpacks::walk::MAX_BYTES;

/// Most bytes out of one byte. Text comes to about ten, and tables to fifty.
const MAX_RATIO: u64 = 100;

/// What may come out whatever went in: an archive of a few small files is mostly zeros.
const ALWAYS: u64 = 1024 * 1024;

/// The whole content of exactly one member.
pub(super) fn inflate(archive: &[u8]) -> Result<Vec<u8>, ToolpackError> {
    let compressed = u64::try_from(archive.len()).unwrap_or(u64::MAX);
    let limit = compressed.saturating_mul(MAX_RATIO).saturating_add(ALWAYS).min(MAX_BYTES);
    let mut decoder = GzDecoder::new(archive).take(limit + 1);
    let mut stream = Vec::new();
    decoder.read_to_end(&mut stream).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => malformed("it ends too early"),
        _ => malformed("its compression is damaged"),
    })?;
    if u64::try_from(stream.len()).map_or(true, |length| length > limit) {
        return Err(too_large(&format!(
            "it unpacks to more than {limit} bytes; {MAX_BYTES} are the limit, and {MAX_RATIO} times its own size"
        )));
    }
    // Readers that go on see another archive there, and those that stop do not.
    if !decoder.into_inner().into_inner().is_empty() {
        return Err(malformed("there is something after its end"));
    }
    Ok(stream)
}
