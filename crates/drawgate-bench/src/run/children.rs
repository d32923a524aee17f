//! The other roles of this program as child processes, killed when dropped.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::listen::LISTENING;
use crate::load::{Measured, Target};

/// How long a role may take to bind, or a load to end after its time is over.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running `upstream` or `hop`.
pub(crate) struct Server {
    child: Child,
    address: String,
}

/// What a `load` is to do.
pub(crate) struct Load<'a> {
    pub(crate) target: &'a Target,
    pub(crate) clients: usize,
    pub(crate) milliseconds: u64,
    pub(crate) list: Option<usize>,
    pub(crate) watch: Option<u32>,
}

impl Server {
    /// Starts a role and waits until it listens.
    pub(crate) async fn start(arguments: &[&str]) -> Result<Self> {
        Self::listening(own_role(arguments)?, arguments).await
    }

    /// The same, run by another program.
    pub(crate) async fn start_under(under: &[&str], arguments: &[&str]) -> Result<Self> {
        let (runner, options) = under.split_first().context("nothing to run it with")?;
        let mut command = Command::new(runner);
        command.args(options).arg(std::env::current_exe()?).args(arguments);
        command.stdin(Stdio::null()).kill_on_drop(true);
        Self::listening(command, arguments).await
    }

    async fn listening(mut command: Command, arguments: &[&str]) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
        match line.as_deref().and_then(|line| line.strip_prefix(LISTENING)) {
            Some(address) => Ok(Self { child, address: address.to_owned() }),
            None => bail!("`{}` did not start", arguments.join(" ")),
        }
    }

    /// Where it listens, as `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().with_context(|| format!("the server at `{}` has ended", self.address))
    }
}

impl Load<'_> {
    /// Runs the load to its end. A wrong answer, or any error, makes the run void.
    pub(crate) async fn run(&self) -> Result<Measured> {
        let mut command = own_role(["load", "--to", &self.target.to])?;
        if let Some(token) = &self.target.token {
            command.args(["--token", token]);
        }
        command.args(["--clients", &self.clients.to_string()]);
        command.args(["--milliseconds", &self.milliseconds.to_string()]);
        if let Some(tools) = self.list {
            command.args(["--list", &tools.to_string()]);
        }
        if let Some(pid) = self.watch {
            command.args(["--watch", &pid.to_string()]);
        }
        let measured = output(command, self.milliseconds).await?;
        check(measured, self.clients)
    }
}

/// Runs a role that measures, to its end, and reads what it printed.
pub(crate) async fn role<T: DeserializeOwned>(
    arguments: &[String],
    milliseconds: u64,
) -> Result<T> {
    output(own_role(arguments)?, milliseconds).await
}

async fn output<T: DeserializeOwned>(mut command: Command, milliseconds: u64) -> Result<T> {
    let limit = Duration::from_millis(milliseconds) + PATIENCE;
    let output =
        tokio::time::timeout(limit, command.output()).await.context("the load did not end")??;
    if !output.status.success() {
        bail!("the load failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A wrong answer, or any error, makes the run void.
pub(crate) fn check(measured: Measured, clients: usize) -> Result<Measured> {
    match &measured.first_error {
        Some(error) => bail!("{} of {clients} clients got an error: {error}", measured.errors),
        None => Ok(measured),
    }
}

/// This program in another role.
fn own_role<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Command> {
    let program = std::env::current_exe().context("this program does not know its own path")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}
