//! `drawgate connect` and `drawgate disconnect`: the configuration of an MCP client for this gateway, printed,
//! written or removed.
//!
//! Clients' files are often shared with a project, so no token ever goes into one: the default is
//! the stdio form, which needs none, and the HTTP form refers to an environment variable or lets
//! the client ask. [`plan`] decides and touches nothing; [`Plan::apply`] writes.

mod client;
mod command;
mod disconnect;
mod merge;
mod write;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use drawgate_core::model::SourceId;

pub use client::{Client, Scope};
pub use command::{ConnectArgs, Gateway, Report, run};
pub use disconnect::{DisconnectArgs, Removal, disconnect};
pub use write::Written;

/// The environment variable that holds the token.
pub const TOKEN_VARIABLE: &str = "DRAWGATE_TOKEN";

/// How the client reaches the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Over HTTP, with a token that the client takes from elsewhere.
    Http {
        /// The address of `/mcp`.
        url: String,
        /// The agent whose token it must be, if that is known.
        agent: Option<String>,
    },
    /// The client starts this program.
    Stdio {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// The agent as which it acts, instead of the local user.
        agent: Option<String>,
    },
}

impl Endpoint {
    /// The HTTP form for a gateway that listens on `listen`, as a client on this machine sees it.
    #[must_use]
    pub fn http(listen: SocketAddr, scheme: &str, agent: Option<&str>) -> Self {
        let host = if listen.ip().is_unspecified() {
            format!("127.0.0.1:{}", listen.port())
        } else {
            listen.to_string()
        };
        Self::Http { url: format!("{scheme}://{host}/mcp"), agent: agent.map(str::to_owned) }
    }

    /// The stdio form: `PROGRAM mcp`, the options that name the gateway unless it is the user's own, and
    /// `--agent NAME` unless the client acts as the local user. The client starts it in a folder of its
    /// own choice, so that paths must be absolute.
    #[must_use]
    pub fn stdio(program: &Path, options: Vec<String>, agent: Option<&str>) -> Self {
        let mut args = vec!["mcp".to_owned()];
        args.extend(options);
        if let Some(agent) = agent {
            args.extend(["--agent".to_owned(), agent.to_owned()]);
        }
        let program = program.to_string_lossy().into_owned();
        Self::Stdio { program, args, agent: agent.map(str::to_owned) }
    }
}

/// Where clients keep their configuration.
#[derive(Debug, Clone)]
pub struct Folders {
    /// The user's home.
    pub home: PathBuf,
    /// The project: the current folder.
    pub project: PathBuf,
}

/// What to put where, for one client.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The client.
    pub client: Client,
    /// Its file.
    pub path: PathBuf,
    /// What the file needs, on its own.
    pub snippet: String,
    /// The client's own command that does the same, where there is one.
    pub command_line: Option<String>,
    /// What else the user should know or do.
    pub notes: Vec<String>,
    entry: client::Entry,
}

impl Plan {
    /// The whole new content of the client's file, given what it holds now.
    pub fn merge(&self, existing: Option<&str>) -> anyhow::Result<String> {
        self.entry.merge(existing.unwrap_or_default())
    }
}

/// Plans the connection of a client, under the name that the client will show.
pub fn plan(
    client: Client,
    scope: Option<Scope>,
    name: &str,
    endpoint: &Endpoint,
    folders: &Folders,
) -> anyhow::Result<Plan> {
    SourceId::new(name)?;
    let scope = client.scope(scope)?;
    let entry = client.entry(name, endpoint)?;
    let mut notes = client.notes(endpoint);
    notes.extend(client.note_on_file(scope));
    Ok(Plan {
        client,
        path: client.path(scope, folders),
        snippet: entry.snippet()?,
        command_line: client.command_line(scope, name, endpoint),
        notes,
        entry,
    })
}

#[cfg(test)]
#[path = "connect/connect_tests.rs"]
mod tests;
