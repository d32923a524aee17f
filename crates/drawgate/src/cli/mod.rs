//! The command line: one file per command.

// First, because the others use its macro.
#[macro_use]
mod output;

mod agents;
mod approvals;
mod artifacts;
mod audit;
mod backend;
mod backup;
mod client_files;
mod config;
pub mod connect;
mod diff;
mod doctor;
mod edit;
pub mod exit;
mod files;
mod gateway;
mod grants;
mod help;
mod home;
mod import;
mod init;
mod keys;
mod login;
pub mod machine;
mod mcp;
mod packages;
mod packs;
mod plugins;
mod profiles;
mod progress;
mod providers;
mod review;
mod run;
mod running;
mod runs;
mod sandbox;
mod screen;
mod secret;
mod secrets;
mod secrets_file;
mod serve;
mod servers;
mod service;
mod status;
mod table;
mod tasks;
mod toolpacks;
mod tools;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};

use drawgate_host::process::KEEP_THREADS;
use drawgate_host::store::DataDir;
use drawgate_runtime::config::{Config, ConfigErrors, ConfigSource, DEFAULT_DATA, Loaded};
use home::{Home, Target};
use output::Output;

/// The tool gateway for AI agents: one gate to all tools, where every call is named, validated,
/// authorised and written down.
#[derive(Debug, Parser)]
#[command(name = "drawgate", version, propagate_version = true, after_help = HELP)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
Begin with:
  drawgate serve                                   run the gateway on this machine
  drawgate tools list                              see the tools
  drawgate tools call vfs_write path=hello.txt content=hi
  drawgate import claude                           move a client's MCP servers behind the gateway
  drawgate servers add NAME -- COMMAND             add one more
  drawgate toolpacks install ./my-pack             add tools of your own, or OWNER/REPO from GitHub
  drawgate connect claude --write                  let a client use it
  drawgate keys add --pack NAME KEY.pub            let a program dial in and offer tools, over gRPC";

const SERVE_HELP: &str = "\
Then, in another terminal:
  drawgate tools list                              see the tools
  drawgate connect claude --write                  let an MCP client use it
  drawgate keys add --pack NAME KEY.pub            let a pack dial in (or an agent, with `--agent`)";

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every command")]
struct Globals {
    /// The configuration file of another gateway than the user's own, or `none` [default:
    /// `~/.config/drawgate/drawgate.toml`, if it is there]
    #[arg(long, global = true, env = "DRAWGATE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder of another gateway than the user's own [default: `~/.local/share/drawgate`;
    /// with `--config FILE`, `.drawgate` beside the file]
    #[arg(long, global = true, env = "DRAWGATE_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address to listen on [default: `127.0.0.1:7700`]
    #[arg(long, global = true, env = "DRAWGATE_LISTEN", value_name = "ADDR", value_parser = parse_address)]
    listen: Option<SocketAddr>,
    /// Print JSON instead of tables and prose
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until a signal ends it: MCP over HTTP, packs and agents over gRPC, at one
    /// address
    #[command(after_help = SERVE_HELP)]
    Serve(serve::ServeArgs),
    /// Speak MCP on standard input and output, for clients that start their servers
    Mcp(mcp::McpArgs),
    /// Write a commented `drawgate.toml` to start from
    Init(init::InitArgs),
    /// Check and show the configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Show what runs where, since when, how it is, and what waits for a person
    ///
    /// Exits 69 if no gateway runs. With `--json` also every tool and every live grant.
    Status,
    /// Install the gateway as a service of this user, or remove it
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// List, show and call tools
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Manage MCP servers: add, remove, status, diagnosis, logs, review, login
    #[command(subcommand)]
    Servers(servers::ServersCommand),
    /// Manage agents: tokens and capabilities
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Manage grants: capabilities for a time, revocable
    #[command(subcommand)]
    Grants(grants::GrantsCommand),
    /// List and decide calls that wait for approval
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// Show, follow, verify and prune the audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Copy the data folder, also while the gateway runs: of one moment, verified, whole or not at all
    ///
    /// The configuration is not in the data folder, and not in the copy. `drawgate restore` is the way back.
    Backup(backup::BackupArgs),
    /// Put a copy that `drawgate backup` made in the place of the data folder
    ///
    /// The copy is verified first. A data folder that is there is never overwritten: stop the gateway and move
    /// the folder away.
    Restore(backup::RestoreArgs),
    /// List, print and remove outputs that were too long to return
    #[command(subcommand)]
    Artifacts(artifacts::ArtifactsCommand),
    /// Install, enable and check toolpacks: commands, MCP servers and HTTP APIs as tools
    #[command(subcommand)]
    Toolpacks(toolpacks::ToolpacksCommand),
    /// Run an agent: its text goes to standard output, what it does to standard error
    ///
    /// Ctrl-C cancels the run and everything below it. With `--json`, one event a line.
    Run(run::RunArgs),
    /// List, show, follow, cancel and resume runs of agents
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    /// List and continue conversations with agents
    #[command(subcommand)]
    Threads(runs::ThreadsCommand),
    /// List and show tasks: work that agents and other callers delegated
    #[command(subcommand)]
    Tasks(tasks::TasksCommand),
    /// Make, check, show and accept profiles: agents that the gateway runs
    #[command(subcommand)]
    Profiles(profiles::ProfilesCommand),
    /// Add, enable, set and check plugins: your own tools, and hooks around calls and runs
    #[command(subcommand)]
    Plugins(plugins::PluginsCommand),
    /// Manage the SSH keys of packs and agents that connect over gRPC
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// List, show and disconnect packs: programs that connect over gRPC and offer tools
    #[command(subcommand)]
    Packs(packs::PacksCommand),
    /// List, add and check providers of models
    #[command(subcommand)]
    Providers(providers::ProvidersCommand),
    /// Try the sandbox that tools run in, and see what this machine can enforce
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    /// Connect an MCP client to this gateway
    Connect(connect::ConnectArgs),
    /// Disconnect an MCP client from this gateway
    Disconnect(connect::DisconnectArgs),
    /// Move the servers of an MCP client behind this gateway
    Import(import::ImportArgs),
    /// Store values that the configuration names as `env:NAME`: keys, tokens, passwords
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages, one for each command
    #[command(hide = true)]
    ManPages {
        /// The folder, which must exist
        folder: PathBuf,
    },
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write it like `127.0.0.1:7700` or `[::1]:7700`".to_owned())
}

/// What every command starts from.
struct Context {
    /// The configuration. Where its file has errors, only what says where the data folder is and how
    /// it is kept: enough to reach a running gateway, or for commands that start nothing.
    loaded: Loaded,
    /// The errors.
    errors: Option<ConfigErrors>,
    target: Target,
    data: PathBuf,
    listen: SocketAddr,
    out: Output,
}

impl Context {
    /// The configuration, for commands that need all of it.
    fn whole(&self) -> anyhow::Result<&Loaded> {
        match &self.errors {
            None => Ok(&self.loaded),
            Some(errors) => Err(errors.clone().into()),
        }
    }

    /// Says that a gateway runs, but not the one that the command is about, where that does not run.
    async fn note_other_gateway(&self) {
        let beside = PathBuf::from(DEFAULT_DATA);
        let others = Home::find().map(|home| home.data).into_iter().chain([beside]);
        for other in others {
            let is_same = same_folder(&other, &self.data);
            if !is_same && running::Running::find(&other).await.is_some() {
                notice!(
                    "drawgate: no gateway runs on `{}`; the one that runs on `{}` is another",
                    self.data.display(),
                    other.display()
                );
            }
        }
    }

    /// Says what looks wrong in a configuration that counts all the same. For commands that start a
    /// gateway: others would say it again and again.
    fn with_warnings(self) -> Self {
        for warning in &self.loaded.warnings {
            notice!("drawgate: {warning}");
        }
        self
    }

    /// Says once that a command goes on without the configuration, if it does.
    fn warn_of_errors(&self) {
        static SAID: std::sync::Once = std::sync::Once::new();
        if self.errors.is_some() {
            SAID.call_once(|| {
                notice!(
                    "drawgate: warning: the configuration has errors, and only where the data folder is was taken from it; `drawgate config check` shows them"
                );
            });
        }
    }
}

/// Parses the command line and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let parsed = help::grouped(Cli::command()).try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            return exit::not_parsed(&error, std::env::args_os().any(|arg| arg == "--json"));
        }
    };
    let is_json = cli.globals.json;
    if is_json {
        progress::hide();
    }
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let runtime = match threads.thread_keep_alive(KEEP_THREADS).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let error = anyhow::Error::new(error).context("the program's threads can't be started");
            return exit::failed(&error, is_json);
        }
    };
    let done = runtime.block_on(run(cli));
    // Blocking work that was given up must not keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match done {
        Ok(code) => code,
        Err(error) => exit::failed(&error, is_json),
    }
}

/// Runs what needs no configuration; `init` and `config` repair it.
async fn run_alone(cli: &Cli) -> Option<anyhow::Result<ExitCode>> {
    let out = Output::new(cli.globals.json);
    match &cli.command {
        Command::Completions { shell } => Some(completions(*shell)),
        Command::ManPages { folder } => Some(man_pages(folder)),
        Command::Init(args) => Some(init::run(args, &cli.globals)),
        Command::Config(command) => Some(config::run(command, &cli.globals).await),
        Command::Sandbox(command) => Some(sandbox::run(command, &cli.globals).await),
        Command::Toolpacks(command) => toolpacks::run_alone(command, out),
        Command::Profiles(command) => profiles::run_alone(command, out),
        _ => None,
    }
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    if let Some(done) = run_alone(&cli).await {
        return done;
    }
    let context = context(&cli.globals)?;
    match cli.command {
        Command::Serve(args) => serve::run(&args, context.with_warnings()).await,
        Command::Mcp(args) => mcp::run(&args, context.with_warnings()).await,
        Command::Status => status::run(context).await,
        Command::Service(command) => service::run(&command, &context),
        Command::Secrets(command) => secrets::run(&command, &context),
        Command::Tools(command) => tools::run(command, context).await,
        Command::Servers(command) => Box::pin(servers::run(&command, context)).await,
        Command::Agents(command) => agents::run(command, context).await,
        Command::Grants(command) => grants::run(command, context).await,
        Command::Approvals(command) => approvals::run(command, context).await,
        Command::Audit(command) => {
            context.warn_of_errors();
            audit::run(command, &context).await
        }
        Command::Backup(args) => backup::back_up(&args, &context).await,
        Command::Restore(args) => backup::restore(&args, &context).await,
        Command::Artifacts(command) => artifacts::run(command, context).await,
        Command::Toolpacks(command) => toolpacks::run(command, context).await,
        Command::Keys(command) => keys::run(command, context).await,
        Command::Profiles(command) => profiles::run(command, context).await,
        Command::Packs(command) => packs::run(command, context).await,
        Command::Plugins(command) => plugins::run(command, context).await,
        Command::Providers(command) => providers::run(command, context).await,
        Command::Run(args) => run::run(args, context).await,
        Command::Runs(command) => runs::run(command, context).await,
        Command::Threads(command) => runs::run_threads(command, context).await,
        Command::Tasks(command) => tasks::run(command, context).await,
        Command::Connect(args) => connect_client(&args, &context).await,
        Command::Disconnect(args) => disconnect_client(&args, &context),
        Command::Import(args) => Box::pin(import::run(&args, context)).await,
        Command::Init(_)
        | Command::Config(_)
        | Command::Sandbox(_)
        | Command::Completions { .. }
        | Command::ManPages { .. } => Ok(ExitCode::SUCCESS),
    }
}

fn same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    real(one) == real(other)
}

impl Globals {
    /// The gateway that the command is about.
    fn target(&self) -> anyhow::Result<Target> {
        Target::new(self.config.as_deref(), self.data.as_deref(), Home::find)
    }
}

fn context(globals: &Globals) -> anyhow::Result<Context> {
    let target = globals.target()?;
    if let Some(file) = target.unused_file() {
        let file = file.display();
        notice!("drawgate: `{file}` in this folder is not used; `--config {file}` names it");
    }
    let (loaded, errors) = match load(target.source.clone()) {
        Ok(loaded) => (loaded, None),
        Err(errors) => match Config::salvage(target.source.clone()) {
            Some(loaded) => (loaded, Some(errors)),
            None => return Err(errors.into()),
        },
    };
    let data = target.data(&loaded);
    // Before anything in it is believed, a socket among it. One that can't be seen is not one that is absent.
    if data.try_exists().with_context(|| format!("data folder `{}`", data.display()))? {
        DataDir::existing(&data)?;
    }
    let listen = globals.listen.unwrap_or(loaded.config.listen);
    Ok(Context { loaded, errors, target, data, listen, out: Output::new(globals.json) })
}

/// Loads the configuration; a file that is missing can be made by a command.
fn load(source: ConfigSource) -> Result<Loaded, ConfigErrors> {
    Config::load(source).map_err(|mut errors| {
        let is_missing = |file: &PathBuf| !file.exists();
        for problem in &mut errors.problems {
            if problem.key.is_empty() && problem.file.as_ref().is_some_and(is_missing) {
                let hint = "name another with `--config`, or make one with `drawgate init`";
                problem.hint = Some(hint.to_owned());
            }
        }
        errors
    })
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "drawgate", &mut script);
    Output::new(false).raw(&script)?;
    Ok(ExitCode::SUCCESS)
}

fn man_pages(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let into = || format!("man pages can't be written into `{}`", folder.display());
    write_man_pages(program, folder).with_context(into)?;
    Ok(ExitCode::SUCCESS)
}

fn write_man_pages(command: clap::Command, folder: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_man_pages(below.clone(), folder)?;
    }
    let source = concat!("drawgate ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).source(source).manual("Drawgate").generate_to(folder)?;
    Ok(())
}

async fn connect_client(
    args: &connect::ConnectArgs,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("this program's own path is not known")?;
    let data = std::path::absolute(&context.data)?;
    let loaded = context.whole()?;
    if let Some(agent) = &args.agent {
        agents::check_exists(context, agent).await?;
    }
    let gateway = connect::Gateway {
        listen: context.listen,
        scheme: if loaded.config.server.tls.is_some() { "https" } else { "http" },
        data: &data,
        program: &program,
        options: context.target.options(&data)?,
    };
    let report = connect::run(args, gateway, &client_folders()?)?;
    context.out.either(&report, || report.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn disconnect_client(
    args: &connect::DisconnectArgs,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let data = std::path::absolute(&context.data)?;
    let report = connect::disconnect(args, &data, &client_folders()?)?;
    context.out.either(&report, || report.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Where clients keep their files.
fn client_folders() -> anyhow::Result<connect::Folders> {
    let home = machine::secrets().home().context("the home folder is not known; set `HOME`")?;
    Ok(connect::Folders { home, project: std::env::current_dir()? })
}
