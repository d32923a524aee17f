//! A person's terminal and the one of a command in the box, connected: bytes and sizes pass, and nothing
//! else. The command's is a pair of its own, so that it can't feed input to the person's.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::OwnedFd;

use drawgate_host::process::Terminal;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// Whether a person sits at this program's input and output.
pub(super) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The two terminals, connected. Dropped, the person's is as it was before.
pub(super) struct Connected {
    output: JoinHandle<()>,
    others: [JoinHandle<()>; 2],
    before: Termios,
}

impl Connected {
    /// Connects them, and lets every key pass.
    pub(super) fn connect(terminal: Terminal) -> io::Result<Self> {
        let near = terminal.into_near();
        resize(&near);
        let [output, input, size] = [near.try_clone()?, near.try_clone()?, near];
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        let mut sizes = signal(SignalKind::window_change())?;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let output = tokio::spawn(pass(file(output), tokio::io::stdout()));
        let input = tokio::spawn(pass(tokio::io::stdin(), file(input)));
        let size = tokio::spawn(async move {
            while sizes.recv().await.is_some() {
                resize(&size);
            }
        });
        Ok(Self { output, others: [input, size], before })
    }

    /// Waits until all output has been written.
    pub(super) async fn finish(&mut self) {
        let _ended = (&mut self.output).await;
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.output.abort();
        self.others.iter().for_each(JoinHandle::abort);
        let _gone = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn file(end: OwnedFd) -> tokio::fs::File {
    tokio::fs::File::from_std(File::from(end))
}

fn resize(terminal: &OwnedFd) {
    if let Ok(size) = tcgetwinsize(io::stdout()) {
        let _gone = tcsetwinsize(terminal, size);
    }
}

/// The end of a terminal is an error, and no fault.
async fn pass(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}
