//! One run of a program: started, read to its end, and never left behind. Dropping the future kills it
//! and all it started.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::source::{ProgressSink, SourceError};
use drawgate_host::Host;
use drawgate_host::process::{Running, Spawn, SpawnError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until};

use super::bounded_output::BoundedOutput;
use super::progress::{OutputProgress, PartialLine};
use crate::confine::ended_by_box;

/// How long pipes are read after the program has ended: another process may still hold them open.
const DRAIN: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;
/// A secret may stand in the output in another spelling, such as hexadecimal, and be longer.
const SPELLING: usize = 4;

/// A program that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

pub(super) async fn run(
    host: &Host,
    spawn: &Spawn,
    progress: Option<Arc<dyn ProgressSink>>,
) -> Result<Finished, SourceError> {
    let mut child = host.start(spawn).await.map_err(not_started)?;
    // It gets the end of its input at once.
    drop(child.take_stdin());
    let pipes = (child.take_stdout(), child.take_stderr());
    let (Some(stdout), Some(stderr)) = pipes else {
        return Err(SourceError::unreachable("the program's pipes are missing"));
    };
    let known = host.secrets.known_values();
    let mut report = OutputProgress::new(progress, &known);
    let (mut stdout, mut stderr) = (Stream::new(stdout), Stream::new(stderr));
    let status = follow(&mut child, &mut stdout, &mut stderr, &mut report).await;
    let status = status.map_err(|error| SourceError::lost(error.to_string()))?;
    // What the box says counts more than how the program ended, which may be the box's own doing.
    if let Some(error) = child.box_failure().await {
        return Err(ended_by_box(&error));
    }
    let margin = known.iter().map(String::len).max().unwrap_or_default() * SPELLING;
    Ok(Finished {
        status,
        stdout: stdout.kept.into_text(margin),
        stderr: stderr.kept.into_text(margin),
    })
}

/// Reads both streams until they and the program have ended.
async fn follow(
    child: &mut Running,
    stdout: &mut Stream<impl AsyncRead + Unpin>,
    stderr: &mut Stream<impl AsyncRead + Unpin>,
    report: &mut OutputProgress,
) -> io::Result<ExitStatus> {
    let mut exit: Option<(ExitStatus, Instant)> = None;
    loop {
        if let (Some((status, _)), false, false) = (exit, stdout.is_open, stderr.is_open) {
            return Ok(status);
        }
        let due = report.due();
        tokio::select! {
            count = stdout.read(), if stdout.is_open => stdout.took(count?, report),
            count = stderr.read(), if stderr.is_open => stderr.took(count?, report),
            status = child.wait(), if exit.is_none() => exit = Some((status?, Instant::now() + DRAIN)),
            () = at(due), if due.is_some() => report.send(),
            () = at(exit.map(|(_, end)| end)), if exit.is_some() => {
                (stdout.is_open, stderr.is_open) = (false, false);
            }
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// One of the program's outputs.
struct Stream<P> {
    pipe: P,
    is_open: bool,
    buffer: Vec<u8>,
    kept: BoundedOutput,
    line: PartialLine,
}

impl<P: AsyncRead + Unpin> Stream<P> {
    fn new(pipe: P) -> Self {
        let (kept, line) = (BoundedOutput::default(), PartialLine::default());
        Self { pipe, is_open: true, buffer: vec![0; CHUNK], kept, line }
    }

    async fn read(&mut self) -> io::Result<usize> {
        self.pipe.read(&mut self.buffer).await
    }

    fn took(&mut self, count: usize, report: &mut OutputProgress) {
        let bytes = self.buffer.get(..count).unwrap_or_default();
        self.is_open = !bytes.is_empty();
        self.kept.push(bytes);
        report.take(bytes, &mut self.line);
    }
}

fn not_started(error: SpawnError) -> SourceError {
    match error {
        SpawnError::Sandbox(error) => SourceError::Sandbox(error.to_string()),
        SpawnError::Start { program, source } => {
            SourceError::unreachable(format!("`{program}` can't be started: {source}"))
        }
        SpawnError::NotFound(_)
        | SpawnError::WorkingDir(_)
        | SpawnError::Variable(_)
        | SpawnError::Refused(_) => SourceError::unreachable(error.to_string()),
    }
}
