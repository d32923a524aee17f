//! `drawgate agents`: who may call.

use std::process::ExitCode;

use serde_json::json;

use super::Context;
use super::backend::{Backend, did_you_mean, part};
use crate::cli::screen::local_time as time;
use crate::cli::table::{cut, spare, whole};
use drawgate_core::model::{Capability, WireName};
use drawgate_core::policy::Expose;
use drawgate_core::store::Agent;
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{AddedAgent, AgentToken, NewAgent};

const ADD_HELP: &str = "\
An agent that may use one server's tools and read files, and a client that acts as it:
  drawgate agents add research-bot --tools 'time__* vfs_read'
  drawgate connect claude --agent research-bot --write
  drawgate tools list --agent research-bot         what it sees";

#[derive(Debug, clap::Subcommand)]
pub(super) enum AgentsCommand {
    /// Add an agent; its token is shown once and not stored
    #[command(after_help = ADD_HELP)]
    Add {
        /// Its name
        name: String,
        /// The tools that it must be able to call, as names or patterns with spaces between them: it is
        /// given the capabilities that they require, and no others
        #[arg(long, value_name = "PATTERNS")]
        tools: Vec<String>,
        /// What it may do; repeat for more
        #[arg(long = "capability", value_name = "CAPABILITY")]
        capabilities: Vec<String>,
        /// How its tools are shown: every one (`all`), or two by which the others are found and
        /// called (`search`)
        #[arg(long, value_name = "all|search", default_value = "all", value_parser = parse_expose)]
        expose: Expose,
        /// Print the token alone
        #[arg(long)]
        quiet: bool,
    },
    /// List agents and what they may do
    List,
    /// Give an agent a new token; the old one stops working immediately
    Rotate {
        /// Its name
        name: String,
        /// Print the token alone
        #[arg(long)]
        quiet: bool,
    },
    /// Remove an agent; its token stops working immediately
    Remove {
        /// Its name
        name: String,
    },
}

pub(super) async fn run(command: AgentsCommand, context: Context) -> anyhow::Result<ExitCode> {
    let start = match &command {
        // Which tools there are, the servers say.
        AgentsCommand::Add { tools, .. } if !tools.is_empty() => Start::Sources,
        _ => Start::Nothing,
    };
    let backend = Backend::open(&context, start).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

/// How many agents are named to who has asked for another one.
const MAX_NAMED: usize = 10;

/// Refuses an agent that has no token: a client that acts as nobody sees no tools.
pub(super) async fn check_exists(context: &Context, name: &str) -> anyhow::Result<()> {
    let agents: Vec<Agent> = if context.data.exists() {
        let backend = Backend::open(context, Start::Nothing).await?;
        let agents = backend.get("/agents").await;
        backend.close().await;
        agents?
    } else {
        Vec::new()
    };
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let near = did_you_mean(name, names.iter().copied());
    let shown = names.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join("`, `");
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    let near = match near {
        Some(near) => format!("{near} "),
        None if names.is_empty() => String::new(),
        None => format!("there are `{shown}`{more}; "),
    };
    anyhow::ensure!(
        names.contains(&name),
        "there is no agent `{name}`; {near}`drawgate agents add {name} --tools 'PATTERN …'` adds it"
    );
    Ok(())
}

async fn perform(
    command: AgentsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    match command {
        AgentsCommand::Add { name, tools, capabilities, expose, quiet } => {
            let new = NewAgent { name: name.clone(), capabilities, tools, expose };
            let made: AddedAgent = backend.post("/agents", &new).await?;
            if quiet {
                return context.out.raw(format!("{}\n", made.token).as_bytes());
            }
            let AddedAgent { token, capabilities, tools, also } = &made;
            let mut value = json!({ "name": name, "token": token, "capabilities": capabilities });
            if !new.tools.is_empty() {
                value["tools"] = json!(tools);
                value["also"] = json!(also);
            }
            context.out.either(&value, || {
                let given = given(&name, &made, !new.tools.is_empty());
                format!("agent `{name}`; its token, shown this once:\n{token}\n{given}")
            })
        }
        AgentsCommand::Rotate { name, quiet } => {
            let made: AgentToken =
                backend.post(&format!("/agents/{}/rotate", part(&name)), &json!({})).await?;
            show_token(context, &name, &made, quiet)
        }
        AgentsCommand::List => {
            let agents: Vec<Agent> = backend.get("/agents").await?;
            let rows = agents.iter().map(|agent| {
                let expose = match agent.expose {
                    Expose::All => "in its list",
                    Expose::Search => "by search",
                };
                vec![
                    agent.name.to_string(),
                    joined(&agent.capabilities),
                    expose.to_owned(),
                    time(agent.created_at),
                ]
            });
            let empty = "no agents yet; `drawgate agents add NAME --tools 'PATTERN …'` adds one";
            context.out.table(
                &agents,
                &[whole("name"), cut("capabilities"), whole("sees tools"), spare("added")],
                &rows.collect::<Vec<_>>(),
                empty,
            )
        }
        AgentsCommand::Remove { name } => {
            backend.delete(&format!("/agents/{}", part(&name))).await?;
            context.out.either(&json!({ "removed": name }), || format!("removed `{name}`"))
        }
    }
}

/// What a new agent may do, in words.
fn given(name: &str, made: &AddedAgent, is_by_tools: bool) -> String {
    let AddedAgent { capabilities, tools, also, .. } = made;
    let listed =
        |names: &[WireName]| names.iter().map(WireName::as_str).collect::<Vec<_>>().join(" ");
    let mut lines = Vec::new();
    match (capabilities.is_empty(), is_by_tools) {
        (true, true) => lines.push("no capability was given to it: none is required".to_owned()),
        (true, false) => lines.push(format!(
            "no capability was given to it; `drawgate grants add CAPABILITY --agent {name}` lets it call what requires that"
        )),
        (false, _) => lines.push(format!("it holds: {}", joined(capabilities))),
    }
    if is_by_tools {
        lines.push(format!("it can call: {}", listed(tools)));
        if !also.is_empty() {
            lines.push(format!("and also, since they require nothing else: {}", listed(also)));
        }
    }
    lines.push(format!("`drawgate connect CLIENT --agent {name}` lets a client act as it"));
    lines.join("\n")
}

fn parse_expose(text: &str) -> Result<Expose, String> {
    match text {
        "all" => Ok(Expose::All),
        "search" => Ok(Expose::Search),
        _ => Err("use `all` or `search`".to_owned()),
    }
}

fn show_token(context: &Context, name: &str, made: &AgentToken, quiet: bool) -> anyhow::Result<()> {
    let token = &made.token;
    if quiet {
        return context.out.raw(format!("{token}\n").as_bytes());
    }
    context.out.either(&json!({ "name": name, "token": token }), || {
        format!("agent `{name}`; its token, shown this once:\n{token}")
    })
}

/// Capabilities, in one cell of a table.
pub(super) fn joined(capabilities: &[Capability]) -> String {
    capabilities.iter().map(Capability::as_str).collect::<Vec<_>>().join(" ")
}
