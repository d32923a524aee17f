//! `drawgate agents`: who may call.

use std::process::ExitCode;

use serde_json::json;

use super::Context;
use super::backend::{Backend, part};
use drawgate_core::model::Capability;
use drawgate_core::policy::Expose;
use drawgate_core::store::Agent;
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{AgentToken, NewAgent};
use drawgate_runtime::time::shown as time;

#[derive(Debug, clap::Subcommand)]
pub(super) enum AgentsCommand {
    /// Add an agent; its token is shown once and not stored
    Add {
        /// Its name
        name: String,
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
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn perform(
    command: AgentsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    match command {
        AgentsCommand::Add { name, capabilities, expose, quiet } => {
            let step = capabilities.is_empty().then(|| {
                format!(
                    "\nno capability was given to it; `drawgate grants add CAPABILITY --agent {name}` lets it call what requires that"
                )
            });
            let new = NewAgent { name: name.clone(), capabilities, expose };
            let made: AgentToken = backend.post("/agents", &new).await?;
            show_token(context, &name, &made, quiet, &step.unwrap_or_default())
        }
        AgentsCommand::Rotate { name, quiet } => {
            let made: AgentToken =
                backend.post(&format!("/agents/{}/rotate", part(&name)), &json!({})).await?;
            show_token(context, &name, &made, quiet, "")
        }
        AgentsCommand::List => {
            let agents: Vec<Agent> = backend.get("/agents").await?;
            let rows = agents.iter().map(|agent| {
                let expose = match agent.expose {
                    Expose::All => "all",
                    Expose::Search => "search",
                };
                vec![
                    agent.name.to_string(),
                    joined(&agent.capabilities),
                    expose.to_owned(),
                    time(agent.created_at),
                ]
            });
            let empty =
                "no agents yet; `drawgate agents add NAME --capability CAPABILITY` adds one";
            context.out.table(
                &agents,
                &["name", "capabilities", "tools", "added"],
                rows.collect(),
                empty,
            )
        }
        AgentsCommand::Remove { name } => {
            backend.delete(&format!("/agents/{}", part(&name))).await?;
            context.out.either(&json!({ "removed": name }), || format!("removed `{name}`"))
        }
    }
}

fn parse_expose(text: &str) -> Result<Expose, String> {
    match text {
        "all" => Ok(Expose::All),
        "search" => Ok(Expose::Search),
        _ => Err("use `all` or `search`".to_owned()),
    }
}

fn show_token(
    context: &Context,
    name: &str,
    made: &AgentToken,
    quiet: bool,
    step: &str,
) -> anyhow::Result<()> {
    let token = &made.token;
    if quiet {
        return context.out.raw(format!("{token}\n").as_bytes());
    }
    context.out.either(&json!({ "name": name, "token": token }), || {
        format!("agent `{name}`; its token, shown this once:\n{token}{step}")
    })
}

/// Capabilities, in one cell of a table.
pub(super) fn joined(capabilities: &[Capability]) -> String {
    capabilities.iter().map(Capability::as_str).collect::<Vec<_>>().join(" ")
}
