//! `drawgate secrets`: values that the configuration refers to by `env:NAME`, kept in `secrets.env`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use drawgate_core::model::SourceId;
use drawgate_runtime::config::Server;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;

use super::exit::OrUsage as _;
use super::progress::{Ends, print_above};
use super::secret::is_variable;
use super::{Context, secrets_file};

const HELP: &str = "\
A value is never an option: other users can read command lines.
  drawgate secrets set ANTHROPIC_API_KEY           asks for it at the terminal
  pass show anthropic | drawgate secrets set ANTHROPIC_API_KEY";

#[derive(Debug, clap::Subcommand)]
#[command(after_help = HELP)]
pub(super) enum SecretsCommand {
    /// Store the value of a variable that the configuration names as `env:NAME`
    ///
    /// It is read from standard input, or asked for at a terminal without showing it, and kept in
    /// `secrets.env` in the data folder, which only you can read. A variable of the gateway's own
    /// environment goes before it.
    Set {
        /// The variable
        name: String,
    },
    /// List the names of the variables that are stored; values are never shown
    List,
}

pub(super) fn run(command: &SecretsCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        SecretsCommand::Set { name } => set(name, context)?,
        SecretsCommand::List => {
            let all = secrets_file::read(&context.data).into_iter();
            let names: BTreeSet<String> = all.map(|(name, _)| name).collect();
            context.out.either(&names, || {
                if names.is_empty() {
                    return "no secrets are stored; `drawgate secrets set NAME` stores one"
                        .to_owned();
                }
                names.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn set(name: &str, context: &Context) -> anyhow::Result<()> {
    let checked = if is_variable(name) {
        Ok(())
    } else {
        Err(anyhow::anyhow!("write a variable's name, such as `API_KEY`, and no value"))
    };
    checked.or_usage()?;
    let value = value(name)?;
    ensure!(!value.is_empty(), "nothing was stored: the value is empty");
    let path = secrets_file::add(&context.data, &BTreeMap::from([(name, value.as_str())]))?;
    let users = users(name, context);
    context.out.either(&json!({ "stored": name, "file": path, "servers": users }), || {
        let stored = format!("stored `{name}` in `{}`", path.display());
        let restart = users.iter().map(|id| format!("`drawgate servers restart {id}`"));
        let restart: Vec<String> = restart.collect();
        if restart.is_empty() {
            return format!("{stored}; `env:{name}` in the configuration refers to it");
        }
        format!("{stored}; servers get it when they start: {}", restart.join(", "))
    })
}

/// The servers whose settings name the variable.
fn users(name: &str, context: &Context) -> Vec<String> {
    let names_it = |(_, server): &(&SourceId, &Server)| {
        let settings = server.connection.env.values().chain(server.connection.headers.values());
        settings.into_iter().any(|setting| setting.variable() == Some(name))
    };
    let users = context.loaded.config.servers.iter().filter(names_it);
    users.map(|(id, _)| id.to_string()).collect()
}

/// The value: typed by a person who does not see it, or all of standard input but its last line end.
fn value(name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    if io::stdin().is_terminal() {
        let _hidden = Hidden::new()?;
        let asked = || write!(io::stderr().lock(), "value of {name} (it is not shown): ");
        let _closed = print_above(Ends::Open, asked);
        io::stdin().read_line(&mut text).context("the value can't be read")?;
        // The line end that was typed was not shown either.
        let _closed = print_above(Ends::Line, || writeln!(io::stderr().lock()));
    } else {
        io::stdin().read_to_string(&mut text).context("the value can't be read")?;
    }
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.contains('\0') {
        bail!("nothing was stored: the value holds a zero byte");
    }
    Ok(value.to_owned())
}

/// Keeps what is typed off the terminal as long as it lives.
struct Hidden(Termios);

impl Hidden {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _gone = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
