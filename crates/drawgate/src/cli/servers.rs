//! `drawgate servers`: what stands behind the gateway.

pub(super) mod allow;
pub(super) mod change;
pub(super) mod fetch;
mod logs;
pub(super) mod needs;
pub(super) mod table;

use std::process::ExitCode;
use std::time::Duration;

use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{KeyListView, ServerReport, Status};
use serde_json::json;

use super::Context;
use super::backend::{Backend, did_you_mean};
use super::doctor;
use super::keys;
use super::login::{self, Browser};
use super::progress::Progress;
use super::review::{self, Acceptances};
use crate::cli::table::{cut, spare, state, whole};

/// How long a diagnosis may take: longer than a server may take to start by default.
const DIAGNOSIS: Duration = Duration::from_secs(35);

/// The state of a server that the configuration has, and that is not used.
const DISABLED: &str = "disabled";

#[derive(Debug, clap::Subcommand)]
pub(super) enum ServersCommand {
    /// List sources of tools and their state
    List,
    /// Explain each server's state, and what to do; exits 1 if one does not work, or a line of the
    /// authorised keys
    Doctor {
        /// This server only
        name: Option<String>,
    },
    /// Add a server to the configuration: a program to start, or an address
    ///
    /// The running gateway starts it, and the command says how it does; exits 1 if it does not work.
    /// Without a running gateway the file is checked and written. A configuration that would be
    /// refused is not written; comments stay.
    Add(change::AddArgs),
    /// Fetch the package of a server that `npx`, `uvx` or the like start, and pin it in `drawgate.lock`
    ///
    /// Your own npm, uv or pip fetches it, with the registry that it is configured for. The server then
    /// runs from the data folder, without network; a changed file is noticed, and this command installs
    /// what is pinned again. Exits 1 if the server does not work.
    Fetch(fetch::FetchArgs),
    /// Give a server what its sandbox refused: files, folders, hosts, variables
    ///
    /// Without options, at a terminal, asks about each thing that the server was refused. Exits 1 if the
    /// server does not work.
    Allow(allow::AllowArgs),
    /// Remove a server and its settings from the configuration; the comment right above it goes too
    Remove {
        /// The server
        name: String,
    },
    /// Use a server again that was disabled; exits 1 if it does not work
    Enable {
        /// The server
        name: String,
    },
    /// Stop using a server; its settings stay in the configuration
    Disable {
        /// The server
        name: String,
    },
    /// End a server of the running gateway and start it again; exits 1 if it does not work
    Restart {
        /// The server
        name: String,
    },
    /// Print what a server wrote to its standard error: the last 256 lines, secrets masked
    Logs(logs::LogsArgs),
    /// Show what a server changed or added; exits 3 if something waits to be accepted
    Review {
        /// The server
        name: String,
        /// Accept exactly what was shown with this digest; without one, at a terminal, show and ask
        #[arg(long, num_args = 0..=1, value_name = "DIGEST")]
        #[expect(
            clippy::option_option,
            reason = "clap's form of an option with an optional value"
        )]
        accept: Option<Option<String>>,
        /// Accept these of it only
        #[arg(long, value_name = "TOOL", requires = "accept")]
        only: Vec<String>,
    },
    /// Log the gateway in at a protected server: a person agrees in a browser
    Login {
        /// The server
        name: String,
        /// Start the browser; without it, the address is only printed
        #[arg(long)]
        open: bool,
    },
    /// Log out: revoke the tokens and delete them
    Logout {
        /// The server
        name: String,
    },
}

pub(super) async fn run(command: &ServersCommand, context: Context) -> anyhow::Result<ExitCode> {
    let doctor = match command {
        ServersCommand::Login { name, open } => {
            let browser = if *open { Browser::Open } else { Browser::Leave };
            return login::log_in(name, browser, context).await;
        }
        ServersCommand::Logout { name } => return login::log_out(name, context).await,
        ServersCommand::Review { name, accept, only } => {
            let accept =
                accept.as_ref().map(|digest| Acceptances { digest: digest.as_deref(), only });
            return review::run(name, accept, context).await;
        }
        ServersCommand::Add(args) => return change::add(args, context).await,
        ServersCommand::Remove { name } => return change::remove(name, context).await,
        ServersCommand::Enable { name } => return change::set_enabled(name, true, context).await,
        ServersCommand::Disable { name } => return change::set_enabled(name, false, context).await,
        ServersCommand::Restart { name } => return change::restart(name, context).await,
        ServersCommand::Fetch(args) => return fetch::run(args, context).await,
        ServersCommand::Allow(args) => return allow::run(args, context).await,
        ServersCommand::Logs(args) => return logs::run(args, context).await,
        ServersCommand::List => None,
        ServersCommand::Doctor { name } => Some(name.as_deref()),
    };
    let backend = Backend::open(&context, Start::Sources).await?;
    if doctor.is_some() {
        // A server that is still starting can't be explained yet.
        backend.settle(DIAGNOSIS).await;
    }
    let asked = if doctor.is_some() { "/servers?check=true" } else { "/servers" };
    let progress = Progress::new("asking each server how it is");
    let servers = backend.get::<Vec<ServerReport>>(asked).await;
    let keys = backend.get::<KeyListView>("/keys").await;
    let status = backend.get::<Status>("/status").await;
    backend.close().await;
    drop(progress);
    match doctor {
        None => list(&servers?, &context),
        Some(name) => diagnose(name, servers?, &keys?, &status?, &context),
    }
}

fn list(servers: &[ServerReport], context: &Context) -> anyhow::Result<ExitCode> {
    let is_known = |id: &str| servers.iter().any(|it| it.source.status.id.as_str() == id);
    let disabled = context.loaded.config.servers.iter().filter(|(_, server)| !server.enabled);
    let disabled = disabled.map(|(id, _)| id.to_string()).filter(|id| !is_known(id));
    let disabled: Vec<String> = disabled.collect();
    let rows = servers.iter().map(|server| {
        let status = &server.source.status;
        vec![
            status.id.to_string(),
            status.state.as_str().to_owned(),
            status.tools.to_string(),
            status.server.clone().unwrap_or_default(),
            problem(server),
        ]
    });
    let off = disabled.iter().map(|id| {
        let enable = format!("`drawgate servers enable {id}` uses it again");
        vec![id.clone(), DISABLED.to_owned(), String::new(), String::new(), enable]
    });
    let rows: Vec<_> = rows.chain(off).collect();
    let mut all = servers.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    all.extend(disabled.iter().map(|id| json!({ "id": id, "state": DISABLED })));
    let columns = [whole("id"), state("state"), whole("tools"), spare("server"), cut("problem")];
    let empty = "no servers; `drawgate servers add` adds one";
    context.out.table(&all, &columns, &rows, empty)?;
    Ok(ExitCode::SUCCESS)
}

fn diagnose(
    name: Option<&str>,
    mut servers: Vec<ServerReport>,
    keys: &KeyListView,
    status: &Status,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    if let Some(name) = name {
        let names: Vec<String> =
            servers.iter().map(|server| server.source.status.id.to_string()).collect();
        servers.retain(|server| server.source.status.id.as_str() == name);
        let near = did_you_mean(name, names.iter().map(String::as_str));
        let near = near.unwrap_or_else(|| "`drawgate servers list` shows them".to_owned());
        anyhow::ensure!(!servers.is_empty(), "there is no server `{name}`; {near}");
    }
    let is_in_force = edit_is_in_force(status);
    let well = is_in_force & keys::are_ok(keys) & servers.iter().all(doctor::is_ok);
    let text = || servers.iter().map(change::explained).collect::<Vec<_>>().join("\n");
    context.out.either(&servers, text)?;
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says which edit of the configuration is not in force, if there is one.
fn edit_is_in_force(status: &Status) -> bool {
    let Some(pending) = &status.configuration.pending else { return true };
    notice!(
        "drawgate: an edit of the configuration is not in force, and is tried again: {}",
        pending.problem
    );
    false
}

/// What is wrong with a server, in a few words.
fn problem(server: &ServerReport) -> String {
    let status = &server.source.status;
    if let Some(problem) = &status.problem {
        return doctor::advised_server(&status.id, problem);
    }
    if !server.refusals().is_empty() {
        return format!("refused something; `drawgate servers doctor {}`", status.id);
    }
    let (id, waiting) = (&status.id, status.quarantined.len());
    if waiting > 0 {
        return format!("{waiting} quarantined; `drawgate servers review {id}`");
    }
    if !doctor::left_out(&server.source).is_empty() {
        return format!("something is left out; `drawgate servers doctor {id}`");
    }
    String::new()
}
