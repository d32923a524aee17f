//! The command itself: its flags, and what it reports.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Client, Endpoint, Folders, Scope, Written, plan};

/// Connect an MCP client to this gateway: print its configuration, or write it.
#[derive(Debug, Clone, clap::Args)]
pub struct ConnectArgs {
    /// The client.
    #[arg(value_enum)]
    pub client: Client,
    /// For the current folder, or for you in every folder [default: the current folder for `claude`, `cursor`
    /// and `vscode`; you for the others]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "user|project")]
    pub scope: Option<Scope>,
    /// Write the client's file; everything else in it stays, and a copy is kept in the data folder.
    #[arg(long)]
    pub write: bool,
    /// Let the client start `drawgate mcp`. This is the default, and needs no token.
    #[arg(long, conflicts_with = "http")]
    pub stdio: bool,
    /// Let the client call a running gateway over HTTP, with the token in `DRAWGATE_TOKEN`.
    #[arg(long)]
    pub http: bool,
    /// Let the client act as this agent, which has been added by `drawgate agents add`, instead of the
    /// local user.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The name under which the client shows the gateway.
    #[arg(long, default_value = "drawgate")]
    pub name: String,
}

/// The gateway that a client is connected to.
#[derive(Debug, Clone)]
pub struct Gateway<'a> {
    /// Where it listens.
    pub listen: SocketAddr,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Its data folder.
    pub data: &'a Path,
    /// This program.
    pub program: &'a Path,
    /// The options that name it in whichever folder the program is started.
    pub options: Vec<String>,
}

/// What the command has to say; as text for people, serialized for `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    client: &'static str,
    path: PathBuf,
    snippet: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    notes: Vec<String>,
    #[serde(flatten)]
    written: Written,
}

/// Runs the command.
pub fn run(args: &ConnectArgs, gateway: Gateway<'_>, folders: &Folders) -> anyhow::Result<Report> {
    let agent = args.agent.as_deref();
    let endpoint = if args.http {
        Endpoint::http(gateway.listen, gateway.scheme, agent)
    } else {
        Endpoint::stdio(gateway.program, gateway.options, agent)
    };
    let plan = plan(args.client, args.scope, &args.name, &endpoint, folders)?;
    let written = if args.write { plan.apply(gateway.data)? } else { Written::No };
    Ok(Report {
        client: plan.client.title(),
        path: plan.path,
        snippet: plan.snippet,
        command: plan.command_line,
        notes: plan.notes,
        written,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.written {
            Written::No => {
                writeln!(f, "{}: put this into {path}, or run again with --write:\n", self.client)?;
                writeln!(f, "{}", self.snippet)?;
                if let Some(command) = &self.command {
                    writeln!(f, "or run:\n\n{command}\n")?;
                }
            }
            Written::Created => writeln!(f, "{}: created {path}", self.client)?,
            Written::Updated { backup } => {
                writeln!(f, "{}: changed {path}", self.client)?;
                writeln!(f, "its earlier content is in {}", backup.display())?;
            }
            Written::Unchanged => writeln!(f, "{}: {path} is already up to date", self.client)?,
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
