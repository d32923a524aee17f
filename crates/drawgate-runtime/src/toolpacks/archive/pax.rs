//! Extended attributes: `LENGTH KEY=VALUE` lines before a file, or before the whole archive.

use std::collections::BTreeSet;

use super::malformed;
use crate::toolpacks::error::{Code, ToolpackError};

/// What git writes before a whole archive: the commit, and the time if it is too late for a header.
const OF_AN_ARCHIVE: [&[u8]; 2] = [b"comment", b"mtime"];

/// Attributes that common programs write for ordinary files and that are not taken over: times,
/// owners, and where a file was. None of them says what a file is, where it goes, or how long it is.
const NOT_TAKEN: [&[u8]; 13] = [
    b"mtime",
    b"atime",
    b"ctime",
    b"uid",
    b"gid",
    b"uname",
    b"gname",
    b"LIBARCHIVE.creationtime",
    b"RHT.security.selinux",
    b"SCHILY.dev",
    b"SCHILY.fflags",
    b"SCHILY.ino",
    b"SCHILY.nlink",
];

/// The same, for attributes that have names of their own.
const NOT_TAKEN_OF: [&[u8]; 3] = [b"LIBARCHIVE.xattr.", b"SCHILY.acl.", b"SCHILY.xattr."];

/// What is taken from the attributes of one file, or of the archive.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Records<'a> {
    pub(super) path: Option<&'a [u8]>,
    pub(super) size: Option<u64>,
    comment: Option<&'a [u8]>,
    keys: BTreeSet<&'a [u8]>,
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
        if !self.keys.iter().all(|key| OF_AN_ARCHIVE.contains(key)) {
            return Err(malformed("attributes of the whole archive are those of a file"));
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

    fn note(&mut self, key: &'a [u8], value: &'a [u8]) -> Result<(), ToolpackError> {
        match key {
            b"path" if value.is_empty() => return Err(bad_line()),
            b"path" => self.path = Some(value),
            b"size" => self.size = Some(decimal(value).ok_or_else(bad_line)?),
            b"comment" => self.comment = Some(value),
            b"linkpath" => {
                let message = "the archive has a link, and a toolpack has none";
                return Err(ToolpackError::rejected(Code::Link, message));
            }
            key if key.starts_with(b"GNU.sparse") => {
                let message = "the archive has a sparse file; a toolpack has only ordinary ones";
                return Err(ToolpackError::rejected(Code::Type, message));
            }
            key if is_harmless(key) => {}
            _ => return Err(malformed("there is an attribute that is not known")),
        }
        let is_new = self.keys.insert(key);
        if is_new { Ok(()) } else { Err(malformed("an attribute is given twice")) }
    }
}

fn is_harmless(key: &[u8]) -> bool {
    let is_of = |start: &&[u8]| key.strip_prefix(*start).is_some_and(|name| !name.is_empty());
    NOT_TAKEN.contains(&key) || NOT_TAKEN_OF.iter().any(is_of)
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
