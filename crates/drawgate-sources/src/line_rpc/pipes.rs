//! Messages as lines in a child's pipes.

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use super::lines::{Line, read_line};
use super::messages::{MessageReader, MessageWriter, Received, SendOutcome};
use crate::pace::Pace;

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
pub struct Lines {
    stdout: BufReader<ChildStdout>,
    max_message: usize,
    pace: Pace,
}

impl Lines {
    /// Reads lines of at most so many bytes; longer ones are lost.
    #[must_use]
    pub fn new(stdout: ChildStdout, max_message: usize) -> Self {
        let stdout = BufReader::with_capacity(READ_BUFFER, stdout);
        Self { stdout, max_message, pace: Pace::default() }
    }
}

impl MessageReader for Lines {
    async fn next(&mut self, buffer: &mut Vec<u8>) -> Received {
        loop {
            match read_line(&mut self.stdout, buffer, self.max_message).await {
                Ok(Line::Whole) if buffer.trim_ascii().is_empty() => {
                    self.pace.lines(1, buffer.len()).await;
                }
                Ok(Line::Whole) => return Received::Message,
                Ok(Line::TooLong) => return Received::TooLong,
                Ok(Line::End) | Err(_) => return Received::End(None),
            }
        }
    }
}
