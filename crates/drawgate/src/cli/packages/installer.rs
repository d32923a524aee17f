//! Runs the operator's own package manager, with the operator's own environment: which registry it asks,
//! how it logs in there and whose certificates it trusts are its own affair.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use drawgate_host::Host;
use drawgate_host::process::Spawn;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::super::machine;

/// How long one step may take.
const LONGEST: Duration = Duration::from_mins(15);
/// How much of what a program says is kept.
const MAX_OUTPUT: u64 = 64 * 1024;
/// How many of its last lines are shown when it fails.
const SHOWN_LINES: usize = 15;

/// Programs that install into a folder.
pub(super) struct Installer {
    host: Host,
    tree: PathBuf,
}

impl Installer {
    pub(super) fn new(host: Host, tree: &Path) -> Self {
        Self { host, tree: tree.to_owned() }
    }

    /// The folder.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Where a program is, if it is installed.
    pub(super) fn find(&self, program: &str) -> Option<String> {
        Some(self.host.processes.find(program)?.to_str()?.to_owned())
    }

    /// Runs a program to its end, in the folder. What it says is the reason if it fails.
    pub(super) async fn run(&self, program: &str, args: &[&str]) -> anyhow::Result<()> {
        let spawn = Spawn {
            program: program.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: machine::environment(),
            working_dir: Some(self.tree.clone()),
            ..Spawn::default()
        };
        let shown = Path::new(program).file_name().unwrap_or_default().display().to_string();
        let mut child = self.host.start(&spawn).await?;
        drop(child.take_stdin());
        let (stdout, stderr) = (child.take_stdout(), child.take_stderr());
        let work = async {
            let (said, complaints) = tokio::join!(heard(stdout), heard(stderr));
            child.wait().await.map(|status| (status, said, complaints))
        };
        let done = timeout(LONGEST, work).await;
        let done =
            done.with_context(|| format!("`{shown}` took longer than {} s", LONGEST.as_secs()))?;
        let (status, said, complaints) =
            done.with_context(|| format!("`{shown}` can't be waited for"))?;
        if status.success() {
            return Ok(());
        }
        let lines: Vec<&str> =
            said.lines().chain(complaints.lines()).filter(|line| !line.trim().is_empty()).collect();
        let last = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES));
        let last: Vec<String> = last.map(|line| format!("  {line}")).collect();
        bail!("`{shown}` failed:\n{}", last.join("\n"))
    }

    /// A file in the folder.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<String> {
        let path = self.tree.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("can't read `{}`", path.display()))
    }

    /// Writes a file in the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.tree.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write `{}`", path.display()))
    }
}

/// Reads a stream to its end, so that the program never waits, and keeps the end of it.
async fn heard(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut kept = Vec::new();
    loop {
        let mut next = Vec::new();
        match (&mut stream).take(MAX_OUTPUT).read_to_end(&mut next).await {
            Ok(0) | Err(_) => return String::from_utf8_lossy(&kept).into_owned(),
            Ok(_) => kept = next,
        }
    }
}
