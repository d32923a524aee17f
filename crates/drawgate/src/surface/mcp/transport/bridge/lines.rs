//! Messages as lines, one each.

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Longest line that is read as a message.
pub(crate) const MAX_LINE: usize = 16 * 1024 * 1024;

/// Writes lines as they come.
pub(crate) async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    while let Some(line) = waiting.recv().await {
        output.write_all(&line).await?;
        output.write_all(b"\n").await?;
        output.flush().await?;
    }
    Ok(())
}

/// A line of the input.
pub(crate) enum InputLine {
    Whole(Bytes),
    TooLong,
}

/// One line, without its end. A line that is too long is read to its end and dropped.
pub(crate) async fn read_line(
    input: &mut (impl AsyncBufReadExt + Unpin),
) -> std::io::Result<Option<InputLine>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return Ok((!line.is_empty()).then(|| InputLine::Whole(line.into())));
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        too_long |= line.len() + taken > MAX_LINE;
        if too_long {
            line.clear();
        } else if let Some(part) = chunk.get(..taken) {
            line.extend_from_slice(part);
        }
        input.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Some(if too_long {
                InputLine::TooLong
            } else {
                InputLine::Whole(line.into())
            }));
        }
    }
}
