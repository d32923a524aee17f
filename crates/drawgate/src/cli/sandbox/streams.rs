//! The three streams between a command in the sandbox and the streams of this program.
//!
//! Bytes are passed on as they are and as they come, without a bound: how much to read is up to the
//! reader, and a slow one slows the command down.

use drawgate_host::process::Running;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::terminal::Connected;

/// How much is read at once: the size of a pipe.
const CHUNK: usize = 64 * 1024;

/// What a command's streams are connected with.
pub(super) enum Streams {
    Pipes(Pipes),
    Terminal(Connected),
}

/// The tasks that pass bytes on.
pub(super) struct Pipes {
    outputs: Vec<JoinHandle<()>>,
    input: Option<JoinHandle<()>>,
    /// Says that an output has lost its reader.
    unread: mpsc::Receiver<()>,
}

impl Streams {
    /// Connects the command's streams with this program's own.
    pub(super) fn connect(running: &mut Running, stdin: bool) -> Self {
        let (lost, unread) = mpsc::channel(1);
        let mut outputs = Vec::new();
        if let Some(stdout) = running.take_stdout() {
            outputs.push(tokio::spawn(pass(stdout, tokio::io::stdout(), lost.clone())));
        }
        if let Some(stderr) = running.take_stderr() {
            outputs.push(tokio::spawn(pass(stderr, tokio::io::stderr(), lost)));
        }
        // Closed at once unless it is wanted: the command reads the end of an empty input.
        let pipe = running.take_stdin().filter(|_| stdin);
        let input = pipe.map(|pipe| tokio::spawn(feed(pipe)));
        Self::Pipes(Pipes { outputs, input, unread })
    }

    /// Returns when the reader of an output is gone.
    pub(super) async fn unread(&mut self) {
        let lost = match self {
            Self::Pipes(pipes) => pipes.unread.recv().await,
            Self::Terminal(_) => None,
        };
        if lost.is_none() {
            // Both outputs have ended in order, so nothing can be lost any more.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until all output has been written.
    pub(super) async fn finish(&mut self) {
        match self {
            Self::Pipes(pipes) => pipes.finish().await,
            Self::Terminal(connected) => connected.finish().await,
        }
    }
}

impl Pipes {
    async fn finish(&mut self) {
        if let Some(input) = &self.input {
            input.abort();
        }
        while let Some(output) = self.outputs.last_mut() {
            let _ended = output.await;
            self.outputs.pop();
        }
    }
}

async fn pass(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    lost: mpsc::Sender<()>,
) {
    let mut from = BufReader::with_capacity(CHUNK, from);
    let copied = tokio::io::copy_buf(&mut from, &mut to).await;
    if copied.is_err() || to.flush().await.is_err() {
        let _known = lost.try_send(());
    }
}

async fn feed(mut to: impl AsyncWrite + Unpin) {
    // A command that does not read its input to the end is not at fault.
    let _unread = tokio::io::copy(&mut tokio::io::stdin(), &mut to).await;
}
