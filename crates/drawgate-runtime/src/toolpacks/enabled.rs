//! Switching a pack on and off: one member of its manifest.
//!
//! The file is its author's, so that only this member's value is touched: order, spaces and line ends
//! stay as they are.

use std::fs;
use std::ops::Range;
use std::path::Path;

use drawgate_core::json;
use drawgate_sources::toolpack::FILE as MANIFEST;
use serde_json::Value;

use super::error::{Code, ToolpackError};
use super::files;
use super::tree::FILE_MODE;

const MEMBER: &str = "enabled";

/// Whether a pack's tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// They are.
    On,
    /// They are not.
    Off,
}

impl Enabled {
    const fn text(self) -> &'static str {
        match self {
            Self::On => "true",
            Self::Off => "false",
        }
    }
}

impl From<bool> for Enabled {
    fn from(enabled: bool) -> Self {
        if enabled { Self::On } else { Self::Off }
    }
}

/// Writes the member into the manifest of a pack. `scratch` is a folder of ours beside it: an
/// unfinished file among the pack's own would be one of them.
pub(super) fn switch(folder: &Path, scratch: &Path, to: Enabled) -> Result<(), ToolpackError> {
    let path = folder.join(MANIFEST);
    // Through a link we would change something that is not the pack's.
    for (place, is_right) in
        [(folder, fs::Metadata::is_dir as fn(&_) -> bool), (&path, fs::Metadata::is_file)]
    {
        let data = place.symlink_metadata().map_err(ToolpackError::io("read", place))?;
        if !is_right(&data) {
            let message = format!("`{}` is not what was installed", place.display());
            return Err(ToolpackError::rejected(Code::Link, message));
        }
    }
    let text = fs::read_to_string(&path).map_err(ToolpackError::io("read", &path))?;
    let changed = edit(&text, to).ok_or_else(|| {
        let message = format!("`{}` is not a JSON object; install the pack again", path.display());
        ToolpackError::rejected(Code::Manifest, message)
    })?;
    if changed == text {
        return Ok(());
    }
    let unfinished = scratch.join(files::random_name()?);
    files::write_new(&unfinished, changed.as_bytes(), FILE_MODE)
        .map_err(ToolpackError::io("write", &path))?;
    files::move_over(&unfinished, &path)
}

/// The manifest's text with the member set. `None` if it is not one JSON object.
pub(super) fn edit(text: &str, to: Enabled) -> Option<String> {
    let Ok(Value::Object(_)) = json::parse(text.as_bytes()) else { return None };
    let members = members(text)?;
    let (range, new) = match members.iter().find(|member| member.key == MEMBER) {
        Some(member) => (member.value.clone(), to.text().to_owned()),
        None => addition(text, &members, to)?,
    };
    Some([text.get(..range.start)?, &new, text.get(range.end..)?].concat())
}

/// The member as one more at the end, spaced as the first one is.
fn addition(text: &str, members: &[Member], to: Enabled) -> Option<(Range<usize>, String)> {
    let open = text.find('{')? + 1;
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return Some((open..open, format!("\"{MEMBER}\": {}", to.text())));
    };
    let space = text.get(open..first.start)?;
    let end = last.value.end;
    Some((end..end, format!(",{space}\"{MEMBER}\": {}", to.text())))
}

/// A member of the outermost object: where it begins, its key, and where its value is.
struct Member {
    start: usize,
    key: String,
    value: Range<usize>,
}

/// The members of the outermost object of a text that is valid JSON.
fn members(text: &str) -> Option<Vec<Member>> {
    let mut rest = Scanner { text, at: text.find('{')? + 1 };
    let mut members = Vec::new();
    loop {
        rest.skip_space();
        if rest.peek()? == b'}' {
            return Some(members);
        }
        if rest.peek()? == b',' {
            rest.at += 1;
            continue;
        }
        let start = rest.at;
        let key = serde_json::from_str(text.get(rest.value()?)?).ok()?;
        rest.skip_space();
        rest.at += usize::from(rest.peek()? == b':');
        rest.skip_space();
        members.push(Member { start, key, value: rest.value()? });
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Passes over one value.
    fn value(&mut self) -> Option<Range<usize>> {
        let rest = self.text.get(self.at..)?;
        let mut values =
            serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
        values.next()?.ok()?;
        let start = self.at;
        self.at += values.byte_offset();
        Some(start..self.at)
    }
}

#[cfg(test)]
#[path = "enabled_tests.rs"]
mod tests;
