//! `drawgate disconnect`: removes the gateway's own entry from a client's file, and nothing else.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::Value;

use super::super::files::{self, Change};
use super::client::token_id;
use super::{Client, Folders, Scope, TOKEN_VARIABLE, Written};

/// Disconnect an MCP client from this gateway: show what would be removed from its file, or remove it.
#[derive(Debug, Clone, clap::Args)]
pub struct DisconnectArgs {
    /// The client.
    #[arg(value_enum)]
    pub client: Client,
    /// In the file of the current folder, or in yours [default: as for `drawgate connect`]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "user|project")]
    pub scope: Option<Scope>,
    /// Change the client's file; everything else in it stays, and a copy is kept in the data folder.
    #[arg(long)]
    pub write: bool,
    /// The name under which the client shows the gateway.
    #[arg(long, default_value = "drawgate")]
    pub name: String,
}

/// What the command has to say; as text for people, serialized for `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    client: &'static str,
    name: String,
    path: PathBuf,
    /// Whether the file has, or had, the entry.
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    notes: Vec<String>,
    #[serde(flatten)]
    written: Written,
}

/// Runs the command; `data` is the data folder, for a copy of the file.
pub fn disconnect(
    args: &DisconnectArgs,
    data: &Path,
    folders: &Folders,
) -> anyhow::Result<Removal> {
    let DisconnectArgs { client, name, .. } = args;
    let scope = client.scope(args.scope)?;
    let path = client.path(scope, folders);
    let found = client.is_connected(&path, name)?;
    let written = if found && args.write {
        match files::change(&path, data, |text| client.without(text.context("it is gone")?, name))?
        {
            Change::None | Change::Created => Written::Unchanged,
            Change::Updated(backup) => Written::Updated { backup },
        }
    } else {
        Written::No
    };
    let notes = if !found {
        client.elsewhere(scope, name, folders)
    } else if args.write {
        vec![format!("restart {}", client.title())]
    } else {
        client.note_on_file(scope).into_iter().collect()
    };
    let command = client.removal(scope, name).filter(|_| found);
    Ok(Removal { client: client.title(), name: name.clone(), path, found, command, notes, written })
}

impl Client {
    /// The servers of a file, none if there is no such file.
    fn servers(self, path: &Path) -> anyhow::Result<Vec<(String, Value)>> {
        let shown = path.display();
        let text = files::read(path).with_context(|| format!("can't read `{shown}`"))?;
        let whole = self.format().parse(&text.unwrap_or_default());
        let whole = whole.with_context(|| format!("`{shown}` can't be read"))?;
        let servers = whole.get(self.servers_key()).and_then(Value::as_object).cloned();
        Ok(servers.unwrap_or_default().into_iter().collect())
    }

    /// Whether a file has this entry. One that is not the gateway's is an error.
    fn is_connected(self, path: &Path, name: &str) -> anyhow::Result<bool> {
        let servers = self.servers(path)?;
        let Some((_, server)) = servers.iter().find(|(known, _)| known == name) else {
            return Ok(false);
        };
        if !is_gateway(server, name) {
            bail!(
                "`{name}` in `{}` does not lead to Drawgate, and was left as it is; remove it by hand",
                path.display()
            );
        }
        Ok(true)
    }

    /// A file's content without this entry, and without the question for its token.
    fn without(self, text: &str, name: &str) -> anyhow::Result<String> {
        let text = self.format().remove(text, &[vec![self.servers_key(), name]])?;
        if self == Self::Vscode { remove_input(&text, &token_id(name)) } else { Ok(text) }
    }

    /// Where else the gateway is, of what this client has.
    fn elsewhere(self, scope: Scope, name: &str, folders: &Folders) -> Vec<String> {
        let mut notes = Vec::new();
        for other in self.scopes() {
            let path = self.path(other, folders);
            // A file that can't be read has not been asked for.
            for (known, server) in self.servers(&path).unwrap_or_default() {
                if is_gateway(&server, &known) && (other, known.as_str()) != (scope, name) {
                    let (scope, path) = (other.as_str(), path.display());
                    let options = format!("--scope {scope} --name {known}");
                    notes.push(format!("{path} has the gateway as `{known}`; use `{options}`"));
                }
            }
        }
        notes
    }
}

/// Whether a server is this program, or is reached with its token.
fn is_gateway(server: &Value, name: &str) -> bool {
    let program = server["command"].as_str().and_then(|command| Path::new(command).file_name());
    let is_program = program.is_some_and(|program| program == "drawgate")
        && server["args"].as_array().is_some_and(|args| args.iter().any(|arg| arg == "mcp"));
    let bearer = server["headers"]["Authorization"].as_str().unwrap_or_default();
    let has_token = server["bearer_token_env_var"] == TOKEN_VARIABLE
        || bearer.contains(TOKEN_VARIABLE)
        || bearer.contains(&format!("${{input:{}}}", token_id(name)));
    is_program || has_token
}

/// Removes a question, unless another server refers to it.
fn remove_input(text: &str, id: &str) -> anyhow::Result<String> {
    use super::super::client_files::jsonc;
    let document = jsonc::document(text)?;
    let root = document.object_value();
    let inputs = root.and_then(|root| root.array_value("inputs"));
    let inputs = inputs.map(|inputs| inputs.elements()).unwrap_or_default();
    let is_it = |value: Value| value.get("id").is_some_and(|known| known == id);
    let input = inputs.into_iter().find(|it| it.to_serde_value().is_some_and(is_it));
    if let Some(input) = input.filter(|_| !text.contains(&format!("${{input:{id}}}"))) {
        input.remove();
    }
    Ok(document.to_string())
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, name, .. } = self;
        let path = self.path.display();
        match &self.written {
            _ if !self.found => {
                writeln!(f, "{client}: nothing to remove, there is no `{name}` in {path}")?;
            }
            Written::No => {
                writeln!(
                    f,
                    "{client}: `{name}` would be removed from {path}; run again with --write"
                )?;
                if let Some(command) = &self.command {
                    writeln!(f, "or run:\n\n{command}\n")?;
                }
            }
            Written::Updated { backup } => {
                writeln!(f, "{client}: removed `{name}` from {path}")?;
                writeln!(f, "its earlier content is in {}", backup.display())?;
            }
            Written::Created | Written::Unchanged => {
                writeln!(f, "{client}: {path} is already up to date")?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
