//! One header of an archive.

use super::{is_zero, malformed, too_large};
use crate::toolpacks::error::{Code, ToolpackError};
use crate::toolpacks::paths;
use crate::toolpacks::walk::{MAX_BYTES, is_executable};

/// Everything in an archive comes in blocks of this size.
pub(super) const BLOCK: usize = 512;

/// Where the checksum stands, which counts as spaces in its own sum.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// What a header is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Attributes of what follows.
    Attributes,
    /// Attributes of the whole archive.
    GlobalAttributes,
}

/// A header whose checksum is right and whose kind is one of those that a pack may have.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) executable: bool,
    name: &'a [u8],
    prefix: &'a [u8],
}

impl<'a> Header<'a> {
    pub(super) fn read(block: &'a [u8]) -> Result<Self, ToolpackError> {
        if number(field(block, CHECKSUM)?)? != Some(checksum(block)) {
            return Err(malformed("the checksum of a header is wrong"));
        }
        let name = field(block, 0..100)?;
        let kind = kind(field(block, 156..157)?, name)?;
        let size = number(field(block, 124..136)?)?
            .filter(|size| *size <= MAX_BYTES)
            .ok_or_else(|| too_large(&format!("a file of more than {MAX_BYTES} bytes")))?;
        if kind == Kind::Folder && size != 0 {
            return Err(malformed("a folder has content"));
        }
        let mode =
            number(field(block, 100..108)?)?.ok_or_else(|| malformed("a mode is too large"))?;
        let executable = is_executable(u32::try_from(mode & 0o777).unwrap_or(0));
        Ok(Self { kind, size, executable, name, prefix: prefix(block)? })
    }

    /// The path that stands in the header itself.
    pub(super) fn path(&self) -> Result<Vec<u8>, ToolpackError> {
        let (name, prefix) = (text(self.name)?, text(self.prefix)?);
        let parts: &[&[u8]] = if prefix.is_empty() { &[name] } else { &[prefix, name] };
        Ok(parts.join(&b'/'))
    }
}

fn field(block: &[u8], range: std::ops::Range<usize>) -> Result<&[u8], ToolpackError> {
    block.get(range).ok_or_else(|| malformed("it ends too early"))
}

/// The first part of a long path. Only one of the two dialects has it; the other keeps there what
/// only its own programs understand.
fn prefix(block: &[u8]) -> Result<&[u8], ToolpackError> {
    match field(block, 257..265)? {
        b"ustar\x0000" => field(block, 345..500),
        b"ustar  \0" if is_zero(field(block, 345..512)?) => Ok(&[]),
        _ => Err(malformed("a header is in an unusual dialect")),
    }
}

fn kind(flag: &[u8], name: &[u8]) -> Result<Kind, ToolpackError> {
    let refused = |code, what: &str| {
        Err(ToolpackError::rejected(code, format!("`{}` is {what}", paths::shown(first(name)))))
    };
    match flag {
        b"0" | b"\0" => Ok(Kind::File),
        b"5" => Ok(Kind::Folder),
        b"x" => Ok(Kind::Attributes),
        b"g" => Ok(Kind::GlobalAttributes),
        b"1" => {
            refused(Code::Link, "a hard link, and a toolpack has none; put the file itself there")
        }
        b"2" | b"K" => refused(
            Code::Link,
            "a symbolic link, and a toolpack has none; put the file itself there",
        ),
        b"L" => refused(Code::Path, "a long name as only GNU tar writes it; use the PAX format"),
        _ => refused(
            Code::Type,
            "neither a regular file nor a folder, and a toolpack has nothing else",
        ),
    }
}

/// A field up to its first NUL, for messages.
fn first(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A field's text. What follows its end would be seen by readers that do not stop there.
fn text(field: &[u8]) -> Result<&[u8], ToolpackError> {
    let text = first(field);
    if field.get(text.len()..).is_none_or(is_zero) {
        return Ok(text);
    }
    let message =
        format!("a toolpack can't hold `{}`: there is a NUL in its name", paths::shown(field));
    Err(ToolpackError::rejected(Code::Path, message))
}

/// An octal number, padded as usual; `None` for one so large that it is written in another way.
fn number(field: &[u8]) -> Result<Option<u64>, ToolpackError> {
    if field.first().is_some_and(|byte| byte & 0x80 != 0) {
        return Ok(None);
    }
    let digits = field.trim_ascii_start();
    let end = digits.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at_checked(end).unwrap_or((digits, &[]));
    let plain = digits.iter().all(|byte| matches!(byte, b'0'..=b'7'));
    if !plain || !rest.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return Err(malformed("a number in a header can't be read"));
    }
    Ok(Some(digits.iter().fold(0, |sum: u64, byte| {
        sum.saturating_mul(8).saturating_add(u64::from(byte.saturating_sub(b'0')))
    })))
}

fn checksum(block: &[u8]) -> u64 {
    let plain =
        |(at, byte): (usize, &u8)| u64::from(if CHECKSUM.contains(&at) { b' ' } else { *byte });
    block.iter().enumerate().map(plain).sum()
}
