//! Extended attributes: `LENGTH KEY=VALUE` lines before a file, or before the whole archive.

use super::malformed;
use crate::toolpacks::error::{Code, ToolpackError};

/// What is taken from the attributes of one file, or of the archive.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Records<'a> {
    pub(super) path: Option<&'a [u8]>,
    pub(super) size: Option<u64>,
    comment: Option<&'a [u8]>,
}

impl<'a> Records<'a> {
    /// Reads all lines. One that is not well-formed is an error: to pass over it would hide it.
    pub(super) fn read(mut content: &'a [u8]) -> Result<Self, ToolpackError> {
        let mut records = Self::default();
        while !content.is_empty() {
            let (key, value, rest) = line(content).ok_or_else(bad_line)?;
            records.note(key, value)?;
            content = rest;
        }
        Ok(records)
    }

    /// For attributes of the whole archive: git notes the commit there, and nothing else may be.
    pub(super) fn check_commit(&self, commit: Option<&str>) -> Result<(), ToolpackError> {
        if self.path.is_some() || self.size.is_some() {
            return Err(malformed("attributes of the whole archive name a file"));
        }
        match (self.comment, commit) {
            (Some(found), Some(wanted)) if found != wanted.as_bytes() => {
                let message = format!(
                    "the archive says that it is of commit `{}`, but `{wanted}` was asked for",
                    crate::toolpacks::paths::shown(found)
                );
                Err(ToolpackError::rejected(Code::Pin, message))
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, key: &[u8], value: &'a [u8]) -> Result<(), ToolpackError> {
        let twice = match key {
            b"path" if value.is_empty() => return Err(bad_line()),
            b"path" => self.path.replace(value).is_some(),
            b"size" => self.size.replace(decimal(value).ok_or_else(bad_line)?).is_some(),
            b"comment" => self.comment.replace(value).is_some(),
            b"linkpath" => {
                let message = "the archive has a link, and a toolpack has none";
                return Err(ToolpackError::rejected(Code::Link, message));
            }
            key if key.starts_with(b"GNU.sparse") => {
                let message = "the archive has a sparse file; a toolpack has only ordinary ones";
                return Err(ToolpackError::rejected(Code::Type, message));
            }
            key if is_harmless(key) => false,
            _ => return Err(malformed("there is an attribute that is not known")),
        };
        if twice { Err(malformed("an attribute is given twice")) } else { Ok(()) }
    }
}

/// Attributes about times and owners, which are not taken over, and those of one vendor.
fn is_harmless(key: &[u8]) -> bool {
    let known: [&[u8]; 7] = [b"mtime", b"atime", b"ctime", b"uid", b"gid", b"uname", b"gname"];
    let of_a_vendor = key.first().is_some_and(u8::is_ascii_uppercase) && key.contains(&b'.');
    known.contains(&key) || of_a_vendor
}

/// The first line's key and value, and what follows it.
fn line(content: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = content.iter().position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(content.get(..space)?)?).ok()?;
    let (line, rest) = content.split_at_checked(length)?;
    let record = line.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let (key, value) = record.split_at_checked(equals)?;
    let value = value.strip_prefix(b"=")?;
    let plain = !key.is_empty() && key.iter().all(u8::is_ascii_graphic);
    plain.then_some((key, value, rest))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let plain = digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
    let zero = digits == b"0";
    (plain || zero).then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

fn bad_line() -> ToolpackError {
    malformed("an attribute can't be read")
}
