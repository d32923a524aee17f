//! Counts what another process does: a gateway that counts its own allocations, and `strace` for its
//! system calls.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::super::gateway::{Gateway, Program};

/// How long a process may take to answer, to attach or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a gateway has allocated since it began.
#[derive(Deserialize)]
pub(super) struct Allocated {
    pub(super) allocations: u64,
    pub(super) bytes: u64,
}

/// A gateway that tells what it has allocated.
pub(super) struct Counted {
    pub(super) gateway: Gateway,
    asked: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
}

impl Counted {
    pub(super) async fn start(program: &Program, config: &str) -> Result<Self> {
        let mut gateway = Gateway::start(program, config).await?;
        let (asked, told) = gateway.pipes().context("the gateway has no pipes")?;
        Ok(Self { gateway, asked, told: BufReader::new(told).lines() })
    }

    pub(super) async fn allocated(&mut self) -> Result<Allocated> {
        self.asked.write_all(b"\n").await?;
        loop {
            let line = tokio::time::timeout(PATIENCE, self.told.next_line()).await??;
            let line = line.context("the gateway has ended")?;
            // The gateway has words of its own, too.
            if let Ok(allocated) = serde_json::from_str(&line) {
                return Ok(allocated);
            }
        }
    }

    /// How large the audit log's WAL is.
    pub(super) fn wal_bytes(&self) -> Result<u64> {
        self.gateway.folder().audit_wal_bytes()
    }
}

/// Counts the system calls of a process with `strace`.
pub(super) struct SystemCalls {
    tracer: Child,
    summary: NamedTempFile,
    /// Kept open: it names every new thread.
    _said: Lines<BufReader<ChildStderr>>,
}

impl SystemCalls {
    /// Begins to count those of all threads that the process has.
    pub(super) async fn attach(pid: u32) -> Result<Self> {
        let summary = NamedTempFile::new()?;
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-p", &pid.to_string(), "-o"]).arg(summary.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut tracer = command.kill_on_drop(true).spawn().context("`strace` does not start")?;
        let said = tracer.stderr.take().context("no stderr")?;
        let mut said = BufReader::new(said).lines();
        match tokio::time::timeout(PATIENCE, said.next_line()).await?? {
            Some(line) if line.contains("attached") => Ok(Self { tracer, summary, _said: said }),
            Some(line) => bail!("{line}"),
            None => bail!("`strace` ended at once"),
        }
    }

    /// Ends, and returns how many there were.
    pub(super) async fn finish(mut self) -> Result<u64> {
        let pid = self.tracer.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.context("`strace` has ended")?, Signal::INT)?;
        tokio::time::timeout(PATIENCE, self.tracer.wait()).await??;
        let summary = std::fs::read_to_string(self.summary.path())?;
        total(&summary).with_context(|| format!("no total in what `strace` says:\n{summary}"))
    }
}

/// The count in the last line of a summary: time, seconds, microseconds of each, calls.
fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().rev().find(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            61.03    0.012119          12       962           epoll_wait\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.019858          10      1905        12 total\n";
        assert_eq!(total(summary), Some(1905));
        assert_eq!(total("nothing"), None);
    }
}
