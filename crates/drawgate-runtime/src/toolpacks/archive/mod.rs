//! Reads a pack out of a `.tar.gz`, as GitHub makes them.
//!
//! The format has many dialects, and readers that guess differently see different files. This one
//! reads what `git archive` writes and refuses the rest: regular files and folders below one top
//! folder. Nothing is written before the whole archive has been found good.

mod gzip;
mod header;
mod layout;
mod pax;

use std::path::Path;

use self::header::{BLOCK, Header, Kind};
use self::layout::Layout;
use self::pax::Records;
use super::error::{Code, ToolpackError};
use super::tree::Tree;

/// Largest block of extended attributes: room for a path, and for nothing that is worth an attack.
const MAX_PAX: usize = 64 * 1024;

/// Unpacks an archive into a new folder. `commit` is what it was asked for by: an archive that says
/// of itself that it is of another commit is refused.
pub(super) fn unpack(archive: &[u8], commit: Option<&str>, to: &Path) -> Result<(), ToolpackError> {
    let stream = gzip::inflate(archive)?;
    let layout = read(&stream, commit)?;
    let mut tree = Tree::create(to)?;
    for folder in layout.folders() {
        tree.folder(folder)?;
    }
    for file in layout.files() {
        tree.file(file.path, file.executable, file.content)?;
    }
    tree.finish()
}

/// Reads the whole stream: what it holds, and that it ends where it says.
fn read<'a>(stream: &'a [u8], commit: Option<&str>) -> Result<Layout<'a>, ToolpackError> {
    let mut blocks = Blocks(stream);
    let mut layout = Layout::default();
    let mut records: Option<Records<'a>> = None;
    loop {
        let block = blocks.take(BLOCK)?;
        if is_zero(block) {
            break;
        }
        let header = Header::read(block)?;
        match header.kind {
            Kind::Attributes => {
                let read = Records::read(blocks.attributes(&header)?)?;
                if records.replace(read).is_some() {
                    return Err(malformed("attributes follow attributes"));
                }
            }
            Kind::GlobalAttributes => {
                Records::read(blocks.attributes(&header)?)?.check_commit(commit)?;
            }
            Kind::File | Kind::Folder => {
                let path = path(&header, records.take())?;
                layout.add(&header, &path, blocks.content(header.size)?)?;
            }
        }
    }
    if records.is_some() {
        return Err(malformed("attributes at its end belong to nothing"));
    }
    blocks.end()?;
    layout.finish()
}

/// The path that counts, from the attributes if they have one.
fn path<'a>(header: &Header<'a>, records: Option<Records<'a>>) -> Result<Vec<u8>, ToolpackError> {
    let Some(records) = records else { return header.path() };
    // Readers that believe one size where others believe the other see other files.
    if records.size.is_some_and(|size| size != header.size) {
        return Err(malformed("a file has two sizes"));
    }
    records.path.map_or_else(|| header.path(), |path| Ok(path.to_vec()))
}

/// What is left of the stream.
struct Blocks<'a>(&'a [u8]);

impl<'a> Blocks<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], ToolpackError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or_else(|| malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Content, and what fills its last block up, which must be nothing.
    fn content(&mut self, size: u64) -> Result<&'a [u8], ToolpackError> {
        let size = usize::try_from(size).map_err(|_| malformed("it ends too early"))?;
        let content = self.take(size)?;
        let fill = self.take(size.next_multiple_of(BLOCK).saturating_sub(size))?;
        if is_zero(fill) { Ok(content) } else { Err(malformed("there is something after a file")) }
    }

    fn attributes(&mut self, header: &Header<'_>) -> Result<&'a [u8], ToolpackError> {
        if usize::try_from(header.size).map_or(true, |size| size > MAX_PAX) {
            return Err(too_large(&format!("attributes of more than {MAX_PAX} bytes")));
        }
        self.content(header.size)
    }

    /// After the first of the two blocks that end an archive. Whatever follows would be seen by
    /// readers that do not stop there.
    fn end(mut self) -> Result<(), ToolpackError> {
        let second = self.take(BLOCK)?;
        if is_zero(second) && is_zero(self.0) {
            Ok(())
        } else {
            Err(malformed("there is something after its end"))
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn malformed(what: &str) -> ToolpackError {
    ToolpackError::rejected(
        Code::Format,
        format!("the archive is damaged or not a `.tar.gz`: {what}"),
    )
}

fn too_large(what: &str) -> ToolpackError {
    ToolpackError::rejected(Code::Limit, format!("the archive is too large for a toolpack: {what}"))
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
