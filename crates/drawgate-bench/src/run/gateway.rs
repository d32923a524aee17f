//! A Drawgate under measure: its folder, its process, and a caller's token.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep};

use crate::load::{Client, Target};
use crate::process_stat;

/// How long Drawgate may take to become ready, and to drain at the end.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a command on the data of a gateway may take; there may be a million events to read.
const COMMAND_LIMIT: Duration = Duration::from_mins(5);

/// Time between two looks at a gateway that is starting.
const PAUSE: Duration = Duration::from_millis(1);

/// How many lines of a gateway's log an error shows.
const LOG_TAIL: usize = 20;

/// The program to measure.
pub(crate) struct Program {
    path: PathBuf,
    /// What runs the gateway; its commands are run as they are.
    under: Vec<String>,
    /// Whether the gateway is asked and answers over its standard input and output.
    is_asked: bool,
}

/// A running Drawgate, killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    folder: Folder,
    target: Target,
}

/// The folder of one gateway: configuration, data and log.
pub(crate) struct Folder(TempDir);

/// Configuration of a server over HTTP whose tools need a capability, so that grants are at work.
pub(crate) fn http_server(address: &str) -> String {
    format!(
        "[servers.up]\ntransport = \"streamable_http\"\nurl = \"http://{address}/mcp\"\n\
         names = \"flat\"\ncapabilities = [\"bench\"]\n"
    )
}

/// The same with this program over stdio.
pub(crate) fn stdio_server() -> Result<String> {
    let program = std::env::current_exe()?;
    let program = program.to_str().context("this program's path is not UTF-8")?;
    Ok(format!(
        "[servers.up]\ntransport = \"stdio\"\ncommand = {}\nargs = [\"upstream\", \"--stdio\"]\n\
         names = \"flat\"\ncapabilities = [\"bench\"]\n",
        serde_json::to_string(program)?
    ))
}

impl Program {
    /// The given program, or the `drawgate` in the folder of this one.
    pub(crate) fn find(given: Option<&Path>) -> Result<Self> {
        let path = match given {
            Some(path) => std::path::absolute(path)?,
            None => std::env::current_exe()?.with_file_name("drawgate"),
        };
        if !path.is_file() {
            bail!("there is no `{}`; build it, or give `--drawgate PATH`", path.display());
        }
        Ok(Self { path, under: Vec::new(), is_asked: false })
    }

    /// The gateway with an allocator that counts, which is in the folder of this program.
    pub(crate) fn counting() -> Result<Self> {
        let path = std::env::current_exe()?.with_file_name("drawgate-counted");
        if !path.is_file() {
            bail!("there is no `{}`; build it with this program", path.display());
        }
        Ok(Self { path, under: Vec::new(), is_asked: true })
    }

    /// The same program, run by another one.
    pub(crate) fn under(&self, command: &[&str]) -> Self {
        let under = command.iter().map(|part| (*part).to_owned()).collect();
        Self { path: self.path.clone(), under, is_asked: self.is_asked }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A command on this folder, which is also where it runs.
    fn command(&self, folder: &Folder, under: &[String]) -> Command {
        let mut command = match under.split_first() {
            None => Command::new(&self.path),
            Some((runner, arguments)) => {
                let mut command = Command::new(runner);
                command.args(arguments).arg(&self.path);
                command
            }
        };
        command.env("DRAWGATE_CONFIG", folder.config()).env_remove("DRAWGATE_LISTEN");
        command.arg("--data").arg(folder.data()).current_dir(folder.0.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a command on the data of `folder` to its end.
    pub(crate) async fn output(&self, folder: &Folder, arguments: &[&str]) -> Result<Output> {
        let output = self.command(folder, &[]).args(arguments).output();
        let output = tokio::time::timeout(COMMAND_LIMIT, output).await.map_err(Into::into);
        let output = output.and_then(|ended| ended.map_err(anyhow::Error::from));
        output.with_context(|| format!("can not run `drawgate {}`", arguments.join(" ")))
    }

    /// Starts `serve` and returns at once, with the address that it will listen on.
    pub(crate) fn serve(&self, folder: &Folder) -> Result<(Child, String)> {
        let address = free_address()?;
        let mut command = self.command(folder, &self.under);
        command.args(["--listen", &address, "serve"]);
        command.stdout(Stdio::null()).stderr(File::create(folder.log())?);
        if self.is_asked {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        }
        let child = command.spawn();
        let runner = self.under.first().map_or("the gateway", String::as_str);
        Ok((child.with_context(|| format!("`{runner}` does not start"))?, address))
    }
}

impl Folder {
    /// A new folder, with this configuration if there is one.
    pub(crate) fn new(config: Option<&str>) -> Result<Self> {
        let folder = TempDir::with_prefix("drawgate-bench-")?;
        if let Some(config) = config {
            std::fs::write(folder.path().join("drawgate.toml"), config)?;
        }
        Ok(Self(folder))
    }

    /// The configuration, or the word for none.
    fn config(&self) -> PathBuf {
        let file = self.0.path().join("drawgate.toml");
        if file.exists() { file } else { "none".into() }
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// Writes a file beside the configuration.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.0.path().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(std::fs::write(path, content)?)
    }

    /// Writes the list of authorised keys, which nobody else may write.
    fn authorize(&self, keys: &str) -> Result<()> {
        DirBuilder::new().mode(0o700).create(self.data())?;
        let path = self.data().join("authorized_keys");
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(file.write_all(keys.as_bytes())?)
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("stderr.log")
    }

    /// All that the gateway logged.
    pub(crate) fn log_text(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// How large the audit log's WAL is.
    pub(crate) fn audit_wal_bytes(&self) -> Result<u64> {
        let path = self.data().join("audit.db-wal");
        let found = std::fs::metadata(&path);
        Ok(found.with_context(|| format!("can not look at `{}`", path.display()))?.len())
    }

    /// How large all of its data is.
    pub(crate) fn data_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for file in std::fs::read_dir(self.data())? {
            bytes += file?.metadata()?.len();
        }
        Ok(bytes)
    }

    /// The administrator's token, once it is written.
    pub(crate) fn admin_token(&self) -> Result<String> {
        let path = self.data().join("admin.token");
        let token = std::fs::read_to_string(&path)
            .with_context(|| format!("can not read `{}`", path.display()))?;
        Ok(token.trim().to_owned())
    }

    /// The end of what the gateway logged, for an error that has to explain itself.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log_text();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(LOG_TAIL)..).unwrap_or_default();
        format!("\n{}", tail.join("\n"))
    }
}

impl Gateway {
    /// Starts a gateway and waits until an agent of its own can list a server's tools through it.
    pub(crate) async fn start(program: &Program, config: &str) -> Result<Self> {
        let folder = Folder::new(Some(config))?;
        let (mut child, address) = program.serve(&folder)?;
        let mut target = Target { to: address, token: None };
        wait_until(&mut child, &folder, "ready", || is_ready(&target)).await?;
        target.token = Some(add_agent(program, &folder).await?);
        wait_until(&mut child, &folder, "listing the server's tools", || first_list(&target))
            .await?;
        Ok(Self { child, folder, target })
    }

    /// Starts a gateway that nothing is configured for, with a list of authorised keys.
    pub(crate) async fn start_for_peers(program: &Program, keys: &str) -> Result<Self> {
        let folder = Folder::new(None)?;
        folder.authorize(keys)?;
        Self::start_in(program, folder).await
    }

    /// Starts a gateway in a folder that has all that it needs.
    pub(crate) async fn start_in(program: &Program, folder: Folder) -> Result<Self> {
        let (mut child, address) = program.serve(&folder)?;
        let target = Target { to: address, token: None };
        wait_until(&mut child, &folder, "ready", || is_ready(&target)).await?;
        Ok(Self { child, folder, target })
    }

    /// Where its owner's commands reach it.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.folder.data().join("control.sock")
    }

    /// How to call it.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Its standard input and output, if it was started with some.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.child.stdin.take().zip(self.child.stdout.take())
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("drawgate has ended")
    }

    /// Its resident memory now.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        resident_mib(self.pid()?)
    }

    /// Ends it the orderly way and returns its folder.
    pub(crate) async fn stop(self) -> Result<Folder> {
        stop(self.child, &self.folder).await?;
        Ok(self.folder)
    }
}

/// Resident memory of a process.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    let kib = u32::try_from(process_stat::resident_kib(pid)?)?;
    Ok(f64::from(kib) / 1024.0)
}

/// Asks a gateway to end, and waits; anything but exit code 0 breaks the run.
pub(crate) async fn stop(mut child: Child, folder: &Folder) -> Result<()> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    kill_process(pid.context("drawgate has already ended")?, Signal::TERM)?;
    let status = tokio::time::timeout(PATIENCE, child.wait())
        .await
        .with_context(|| format!("drawgate did not end on SIGTERM:{}", folder.log_tail()))??;
    if !status.success() {
        bail!("drawgate ended with {status} on SIGTERM:{}", folder.log_tail());
    }
    Ok(())
}

/// Tries until it works, the gateway ends, or patience does.
pub(crate) async fn wait_until<F>(
    child: &mut Child,
    folder: &Folder,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tried = tokio::time::timeout_at(deadline, attempt()).await;
        let Err(error) = tried.map_err(Into::into).flatten() else { return Ok(()) };
        if let Some(status) = child.try_wait()? {
            bail!("drawgate ended with {status} before it was {what}:{}", folder.log_tail());
        }
        if Instant::now() >= deadline {
            let tail = folder.log_tail();
            return Err(error.context(format!("drawgate is not {what} in time:{tail}")));
        }
        sleep(PAUSE).await;
    }
}

/// Opens a session and lists the tools, of which there must be some.
pub(crate) async fn first_list(target: &Target) -> Result<()> {
    let mut client = Client::connect(target).await?;
    client.initialize().await?;
    client.list(1).await?;
    Ok(())
}

async fn is_ready(target: &Target) -> Result<()> {
    match Client::connect(target).await?.get("/readyz").await? {
        200 => Ok(()),
        status => bail!("`/readyz` answers {status}"),
    }
}

/// Makes an agent that may use the server's tools and nothing else.
async fn add_agent(program: &Program, folder: &Folder) -> Result<String> {
    let arguments = ["agents", "add", "bench", "--capability", "bench", "--quiet"];
    let output = program.output(folder, &arguments).await?;
    if !output.status.success() {
        bail!("can not add an agent: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// An address that was free a moment ago.
pub(crate) fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
