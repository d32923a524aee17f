//! `drawgate sandbox exec`: one command in the box, as if it were started by a shell.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, bail};
use drawgate_host::Host;
use drawgate_host::egress::{HostRule, Reach};
use drawgate_host::own_files;
use drawgate_host::process::{Processes, Running, Spawn, SpawnError, Terminal};
use drawgate_host::sandbox::{ArgumentPaths, Confinement, Profile, ResourceLimits, SandboxError};
use drawgate_host::secrets::Secrets;
use drawgate_host::store::DataDir;
use serde_json::{Map, Value};

use super::super::exit::{self, Exit};
use super::super::{Globals, machine, packages};
use super::streams::Streams;
use super::terminal::{self, Connected};
use super::watch::Interruptions;
use drawgate_runtime::config::{Config, DEFAULT_FILE};

/// The command ran into its time limit; as `timeout` of the shell says it.
const TIMED_OUT: u8 = 124;

/// The command was not started, as `env` and `timeout` say it.
const NOT_STARTED: u8 = 125;

/// The command is there but can't be executed, and there is no such command, as shells say it.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What shells add to the number of the signal that ended a command.
const SIGNAL_BASE: u8 = 128;

/// How long output that is left after a kill may take to be written.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct ExecArgs {
    /// How far the command is trusted: `strict`, `workspace`, `network` or `none`
    ///
    /// `strict`: the workspace and the system's programs, nothing else. `workspace`: also what
    /// `--read` and `--write` name. `network`: also the hosts of `--allow-host`, through a filtering
    /// proxy. `none`: no box at all, to compare.
    #[arg(long, value_name = "PROFILE", default_value_t)]
    profile: Profile,
    /// The folder that the command may write; it starts there, and it is its `HOME`
    #[arg(long, value_name = "DIR")]
    workspace: PathBuf,
    /// Kill the command and all that it started after this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    timeout: Duration,
    /// A file or folder that it may read; may be repeated
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A further folder that it may write; may be repeated
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
    /// A protected name, such as `AGENTS.md`, that it may write all the same; may be repeated
    #[arg(long, value_name = "NAME")]
    unprotected: Vec<String>,
    /// A host that it may reach with the profile `network`, such as `api.example.com` or
    /// `127.0.0.1:8080`; may be repeated
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<HostRule>,
    /// A variable of the environment that it gets: `NAME` passes on your own, `NAME=VALUE` sets one
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// A resource limit, such as `memory_mb=256` or `processes=32`; may be repeated
    #[arg(long, value_name = "NAME=NUMBER", value_parser = limit)]
    limit: Vec<(String, u64)>,
    /// Pass standard input on; without this the command finds it empty, unless input and output are a
    /// terminal: then the command gets one too
    #[arg(long)]
    stdin: bool,
    /// The command and its arguments, as they are: no shell reads them
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Exit code: the command's own; 128 + N if signal N ended it; 124 if it ran out of time; 125 if it was
not started, with the reason on standard error; 126 if it can't be executed; 127 if there is no such
command.

Try to break out:
  drawgate sandbox exec --workspace . --timeout 600 -- sh
  drawgate sandbox exec --workspace . --timeout 5 -- sh -c 'ls /home; cat /etc/shadow; id'
  drawgate sandbox exec --workspace . --timeout 5 -- curl https://example.com
  drawgate sandbox exec --workspace . --timeout 5 --profile network --allow-host example.com -- \\
      curl https://example.com";

/// How the command came to its end.
enum CommandEnd {
    Exited(ExitStatus),
    TimedOut,
    Interrupted(u8),
    Unread,
}

/// Runs the command; what keeps it from starting is told on standard error.
pub(super) async fn run(args: &ExecArgs, globals: &Globals) -> ExitCode {
    match execute(args, globals).await {
        Ok(code) => code,
        Err(error) => {
            exit::complain(Exit::Failed, &format!("{error:#}"), globals.json);
            ExitCode::from(refusal(&error))
        }
    }
}

fn refusal(error: &anyhow::Error) -> u8 {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(SpawnError::NotFound(_)), _) => NOT_FOUND,
        (_, Some(SandboxError::Program { .. })) => NOT_EXECUTABLE,
        _ => NOT_STARTED,
    }
}

async fn execute(args: &ExecArgs, globals: &Globals) -> anyhow::Result<ExitCode> {
    let host = machine::host()?;
    let spawn = spawn(args, &host.secrets)?;
    trust(globals, &host.processes);
    // Before the start: a signal at the default would leave the command without the process that ends it.
    let mut interruptions = Interruptions::new()?;
    let (mut running, mut streams) = start(args, &host, &spawn)?;
    let deadline = tokio::time::Instant::now() + args.timeout;
    let ending = tokio::select! {
        ended = ended(&mut running, &mut streams) => ended?,
        () = tokio::time::sleep_until(deadline) => CommandEnd::TimedOut,
        signal = interruptions.next() => CommandEnd::Interrupted(signal),
    };
    if !matches!(ending, CommandEnd::Exited(_)) {
        running.kill_tree();
        running.wait().await?;
        // A reader that has stopped reading must not keep this program alive.
        let _unread = tokio::time::timeout(OUTPUT_GRACE, streams.finish()).await;
    }
    // A person's terminal is as it was before anything is said.
    drop(streams);
    if let Some(failure) = running.box_failure().await {
        if !failure.was_stopped() {
            return Err(failure.into());
        }
        notice!("drawgate: {failure}");
    }
    Ok(ExitCode::from(code(&ending, args.timeout)))
}

/// Starts the command: with a terminal where a person sits at one, otherwise with pipes.
fn start(args: &ExecArgs, host: &Host, spawn: &Spawn) -> anyhow::Result<(Running, Streams)> {
    if args.profile == Profile::None || !terminal::is_there() {
        let mut running = host.processes.spawn(spawn)?;
        let streams = Streams::connect(&mut running, args.stdin);
        return Ok((running, streams));
    }
    let terminal = Terminal::open().context("a terminal for the command can't be had")?;
    let running = host.processes.spawn_on(spawn, &terminal)?;
    Ok((running, Streams::Terminal(Connected::connect(terminal)?)))
}

/// Tells the machine what a gateway here would trust, as far as it is there, and what its programs may
/// write. A configuration with faults counts by its name.
fn trust(globals: &Globals, processes: &Processes) {
    let Ok(target) = globals.target() else { return };
    let file = target.source.file().unwrap_or(Path::new(DEFAULT_FILE));
    let loaded = Config::load(target.source.clone()).or_else(|_| Config::parse("", file));
    let Ok(loaded) = loaded else { return };
    let data = target.data(&loaded);
    packages::trust(&loaded, &data, processes, None);
    let list = data.join(DataDir::WRITABLE_LIST);
    // A data folder that is not there, or is another user's, is not written by this command.
    if own_files::open(&list, OpenOptions::new().append(true)).is_ok() {
        let _unread = processes.trusted().keep_writable_in(&list);
    }
}

/// Waits for the command and for the last of its output.
async fn ended(running: &mut Running, streams: &mut Streams) -> anyhow::Result<CommandEnd> {
    let status = tokio::select! {
        status = running.wait() => status?,
        () = streams.unread() => return Ok(CommandEnd::Unread),
    };
    streams.finish().await;
    Ok(CommandEnd::Exited(status))
}

fn code(ending: &CommandEnd, limit: Duration) -> u8 {
    match ending {
        CommandEnd::Exited(status) => exit_code(*status),
        CommandEnd::TimedOut => {
            notice!("drawgate: the command was stopped after {} s", limit.as_secs_f64());
            TIMED_OUT
        }
        CommandEnd::Interrupted(signal) => SIGNAL_BASE.saturating_add(*signal),
        CommandEnd::Unread => SIGNAL_BASE.saturating_add(super::watch::PIPE),
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let number = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.code(), status.signal()) {
        (Some(code), _) => number(code),
        (None, signal) => SIGNAL_BASE.saturating_add(signal.map_or(0, number)),
    }
}

fn spawn(args: &ExecArgs, secrets: &Secrets) -> anyhow::Result<Spawn> {
    if args.profile != Profile::Network && !args.allow_host.is_empty() {
        bail!("`--allow-host` needs `--profile network`; no other profile reaches a network");
    }
    if args.profile == Profile::Strict && !(args.read.is_empty() && args.write.is_empty()) {
        bail!("`--read` and `--write` need `--profile workspace` or `network`");
    }
    let Some((program, rest)) = args.command.split_first() else { bail!("no command is given") };
    let workspace = std::path::absolute(&args.workspace)?;
    if !workspace.is_dir() {
        bail!("the workspace `{}` is not a folder; create it first", workspace.display());
    }
    let reach = Reach::only(args.allow_host.iter().cloned().map(HostRule::anywhere));
    let confinement = Confinement {
        profile: args.profile,
        workspace: workspace.clone(),
        read: absolute(&args.read)?,
        write: absolute(&args.write)?,
        arguments: ArgumentPaths::Ignored,
        reach,
        internal: None,
        unprotected: args.unprotected.clone(),
        limits: limits(&args.limit)?,
    };
    Ok(Spawn {
        program: program.clone(),
        args: rest.to_vec(),
        env: environment(args, secrets)?,
        working_dir: Some(workspace),
        confinement: Some(confinement),
        ..Spawn::default()
    })
}

fn absolute(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let existing = |path: &PathBuf| {
        let path = std::path::absolute(path)?;
        if !Path::exists(&path) {
            bail!("there is no `{}`", path.display());
        }
        Ok(path)
    };
    paths.iter().map(existing).collect()
}

fn environment(args: &ExecArgs, secrets: &Secrets) -> anyhow::Result<BTreeMap<String, String>> {
    let one = |text: &String| -> anyhow::Result<(String, String)> {
        if let Some((name, value)) = text.split_once('=') {
            return Ok((name.to_owned(), value.to_owned()));
        }
        let value = secrets.resolve(&format!("env:{text}"));
        let value = value.with_context(|| format!("`--env {text}` can't be passed on"))?;
        Ok((text.clone(), value.expose().to_owned()))
    };
    let mut all: BTreeMap<String, String> = args.env.iter().map(one).collect::<Result<_, _>>()?;
    // Without it, programs take the terminal for one that can do nothing.
    if let (true, Ok(kind)) = (terminal::is_there(), secrets.resolve("env:TERM")) {
        all.entry("TERM".to_owned()).or_insert_with(|| kind.expose().to_owned());
    }
    Ok(all)
}

fn limits(given: &[(String, u64)]) -> anyhow::Result<ResourceLimits> {
    let members = given.iter().map(|(name, number)| (name.clone(), Value::from(*number)));
    let members: Map<String, Value> = members.collect();
    serde_json::from_value(Value::Object(members)).context("`--limit` is not understood")
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let parsed = text.split_once('=').and_then(|(name, number)| {
        Some((name.to_owned(), number.parse().ok().filter(|number| *number > 0)?))
    });
    parsed.ok_or_else(|| "write a name and a number above 0, such as `memory_mb=256`".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|time| !time.is_zero() && *time <= super::LONGEST);
    seconds.ok_or_else(|| "write a number of seconds above 0, such as `30` or `0.5`".to_owned())
}
