//! Messages as lines in a child's pipes.

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use crate::mcp::lines::{Line, read_line};
use crate::mcp::messages::{MessageReader, MessageWriter, Received, SendOutcome};
use crate::mcp::wire::MAX_MESSAGE;

/// How much is read from the pipe at once.
const READ_BUFFER: usize = 64 * 1024;

impl MessageWriter for ChildStdin {
    async fn send(&mut self, mut message: Vec<u8>) -> SendOutcome {
        message.push(b'\n');
        match self.write_all(&message).await {
            Ok(()) => SendOutcome::Sent,
            // Why it does not read will be known when the child has exited.
            Err(_) => SendOutcome::Over(None),
        }
    }
}

/// A child's output, line by line.
pub(super) struct Lines(BufReader<ChildStdout>);

impl Lines {
    pub(super) fn new(stdout: ChildStdout) -> Self {
        Self(BufReader::with_capacity(READ_BUFFER, stdout))
    }
}

impl MessageReader for Lines {
    async fn next(&mut self, buffer: &mut Vec<u8>) -> Received {
        loop {
            match read_line(&mut self.0, buffer, MAX_MESSAGE).await {
                Ok(Line::Whole) if buffer.trim_ascii().is_empty() => {}
                Ok(Line::Whole) => return Received::Message,
                Ok(Line::TooLong) => return Received::TooLong,
                Ok(Line::End) | Err(_) => return Received::End(None),
            }
        }
    }
}
