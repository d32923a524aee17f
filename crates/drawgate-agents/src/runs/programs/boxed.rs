//! One start of a program in its sandbox, from the prompt on its standard input to its end.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::json;
use drawgate_host::Host;
use drawgate_host::process::{Running, Spawn};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The longest line that is read; a longer one is skipped.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// How much of what it complains about is kept: the end.
const MAX_COMPLAINTS: usize = 4 * 1024;
/// How long a program may take to ask its model for the first time.
const START_TIME: Duration = Duration::from_mins(1);
/// How long a program may go on after the gateway has refused it the rest of its work.
const GRACE: Duration = Duration::from_secs(30);

/// What to start, and when to stop it.
pub(super) struct Start {
    pub(super) host: Arc<Host>,
    pub(super) spawn: Spawn,
    pub(super) prompt: String,
    /// Where the lines go that it prints.
    pub(super) lines: mpsc::Sender<Value>,
    /// Ends it at once.
    pub(super) killed: CancellationToken,
    /// Ends it after a while: it has no more to do.
    pub(super) refused: CancellationToken,
    /// Cancelled when it has asked its model; a program that never does hangs.
    pub(super) asked: CancellationToken,
}

/// How a program ended.
#[derive(Debug)]
pub(super) struct Exit {
    /// Its exit code or signal, in words.
    pub(super) status: String,
    /// The end of its complaints.
    pub(super) complaints: String,
}

impl Start {
    /// Runs the program to its end, or kills it; nothing of it is left then.
    pub(super) async fn run(self) -> Result<Exit, String> {
        let started = self.host.start(&self.spawn).await;
        let mut running = started.map_err(|error| described(&error))?;
        let complaints = {
            let streams = self.streams(&mut running);
            tokio::select! {
                complaints = streams => Some(complaints),
                () = self.killed.cancelled() => None,
                () = self.late() => None,
                () = self.hangs() => None,
            }
        };
        if complaints.is_none() {
            running.kill_tree();
        }
        let status = running.wait().await.map_err(|error| error.to_string())?;
        if let Some(failure) = running.box_failure().await {
            return Err(described(&failure));
        }
        if complaints.is_none() && !self.asked.is_cancelled() && !self.killed.is_cancelled() {
            return Err(format!("it asked its model nothing for {} seconds", START_TIME.as_secs()));
        }
        Ok(Exit { status: status.to_string(), complaints: complaints.unwrap_or_default() })
    }

    async fn hangs(&self) {
        if tokio::time::timeout(START_TIME, self.asked.cancelled()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    async fn late(&self) {
        self.refused.cancelled().await;
        tokio::time::sleep(GRACE).await;
    }

    async fn streams(&self, running: &mut Running) -> String {
        let (stdin, stdout) = (running.take_stdin(), running.take_stdout());
        let stderr = running.take_stderr();
        let ((), (), complaints) = tokio::join!(
            tell(stdin, self.prompt.as_bytes()),
            async {
                if let Some(stdout) = stdout {
                    read_lines(stdout, &self.lines).await;
                }
            },
            async {
                match stderr {
                    Some(stderr) => last_words(stderr).await,
                    None => String::new(),
                }
            },
        );
        complaints
    }
}

/// An error with its causes.
fn described(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

async fn tell(stdin: Option<ChildStdin>, prompt: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A program that does not read its prompt says why.
        let _ = stdin.write_all(prompt).await;
        let _ = stdin.shutdown().await;
    }
}

/// Passes on all lines that are JSON.
async fn read_lines(mut stream: impl AsyncRead + Unpin, lines: &mpsc::Sender<Value>) {
    let mut line = Vec::new();
    let mut is_too_long = false;
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut chunk).await.unwrap_or(0);
        let mut rest = chunk.get(..read).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = rest.split_at(end);
            line.extend_from_slice(head);
            rest = tail.get(1..).unwrap_or_default();
            let whole = std::mem::take(&mut line);
            if !std::mem::take(&mut is_too_long) && !pass_on(&whole, lines).await {
                return;
            }
        }
        line.extend_from_slice(rest);
        if line.len() > MAX_LINE {
            line.clear();
            is_too_long = true;
        }
    }
    if !is_too_long {
        // The last line may have no end.
        let _ = pass_on(&line, lines).await;
    }
}

/// Whether there is still somebody who reads.
async fn pass_on(line: &[u8], lines: &mpsc::Sender<Value>) -> bool {
    match json::parse_lossy(line) {
        Ok(value) => lines.send(value).await.is_ok(),
        // Programs also print notes for people.
        Err(_) => true,
    }
}

/// Reads to the end, and keeps the last part.
async fn last_words(mut stream: impl AsyncRead + Unpin) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut chunk = vec![0; 4 * 1024];
    loop {
        let read = stream.read(&mut chunk).await.unwrap_or(0);
        if read == 0 {
            return String::from_utf8_lossy(&kept).trim().to_owned();
        }
        kept.extend_from_slice(chunk.get(..read).unwrap_or_default());
        let excess = kept.len().saturating_sub(MAX_COMPLAINTS);
        kept.drain(..excess);
    }
}

#[cfg(test)]
#[path = "boxed_tests.rs"]
mod tests;
