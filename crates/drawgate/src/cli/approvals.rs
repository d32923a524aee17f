//! `drawgate approvals`: a person's yes or no.

use std::process::ExitCode;

use anyhow::Context as _;
use drawgate_core::registry::visible_text;
use serde_json::Value;

use super::Context;
use super::agents::{list, text};
use super::backend::{Backend, part};
use crate::assemble::Start;
use crate::surface::control::Decision;
use crate::time::shown as time;

#[derive(Debug, clap::Subcommand)]
pub(super) enum ApprovalsCommand {
    /// List what waits, and with `--all` what was decided
    List {
        /// Decided and expired ones too
        #[arg(long)]
        all: bool,
    },
    /// Show one in full
    Show {
        /// Its id
        id: String,
    },
    /// Say yes: the waiting call goes on, or the next one with the same arguments
    Approve {
        /// Its id
        id: String,
    },
    /// Say no
    Deny {
        /// Its id
        id: String,
    },
}

pub(super) async fn run(command: ApprovalsCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn perform(
    command: ApprovalsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    match command {
        ApprovalsCommand::List { all } => {
            let mut approvals: Vec<Value> = backend.get("/approvals").await?;
            approvals.retain(|approval| all || approval["state"] == "pending");
            let rows = approvals.iter().map(|approval| {
                let expires = time(approval["expiresAt"].as_u64().unwrap_or(0));
                let columns = ["id", "state", "principal", "toolId", "reason"];
                columns.iter().map(|key| text(approval, key)).chain([expires]).collect()
            });
            let header = ["id", "state", "agent", "tool", "reason", "expires"];
            context.out.table(&approvals, &header, rows.collect(), "nothing waits for approval")
        }
        ApprovalsCommand::Show { id } => {
            let approvals: Vec<Value> = backend.get("/approvals").await?;
            let found = approvals.into_iter().find(|approval| approval["id"] == id.as_str());
            let approval = found.with_context(|| format!("there is no approval `{id}`"))?;
            context.out.either(&approval, || describe(&approval))
        }
        ApprovalsCommand::Approve { id } => decide(context, backend, &id, true).await,
        ApprovalsCommand::Deny { id } => decide(context, backend, &id, false).await,
    }
}

async fn decide(
    context: &Context,
    backend: &Backend,
    id: &str,
    approve: bool,
) -> anyhow::Result<()> {
    let decided: Value =
        backend.post(&format!("/approvals/{}", part(id)), &Decision { approve }).await?;
    context.out.either(&decided, || {
        let word = if approve { "approved" } else { "denied" };
        format!("{word}: {} by {}", text(&decided, "toolId"), text(&decided, "principal"))
    })
}

/// All of it: what is cut off can't be approved with open eyes.
fn describe(approval: &Value) -> String {
    let arguments = serde_json::to_string_pretty(&approval["arguments"]).unwrap_or_default();
    format!(
        "tool       {}\nagent      {}\nstate      {}\nreason     {}\nrisks      {}\nexpires    {}\narguments\n{}",
        text(approval, "toolId"),
        text(approval, "principal"),
        text(approval, "state"),
        text(approval, "reason"),
        list(approval, "riskTags"),
        time(approval["expiresAt"].as_u64().unwrap_or(0)),
        visible_text(&arguments),
    )
}
