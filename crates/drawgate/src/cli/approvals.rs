//! `drawgate approvals`: a person's yes or no.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use drawgate_core::policy::{Approval, ApprovalState};
use drawgate_core::redact::has_masks;
use drawgate_core::registry::visible_text;

use super::Context;
use super::backend::{Backend, part};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{Decision, ExactArguments, ListedApproval, Reveal};
use drawgate_runtime::time::shown as time;

#[derive(Debug, clap::Subcommand)]
pub(super) enum ApprovalsCommand {
    /// List pending approvals; `--all` includes decided ones
    List {
        /// Decided and expired ones too
        #[arg(long)]
        all: bool,
    },
    /// Show one in full
    Show {
        /// Its id
        id: String,
        /// The exact arguments, with what is masked. Needs a terminal or the operator's token
        #[arg(long)]
        reveal: bool,
        #[command(flatten)]
        proof: Proof,
    },
    /// Approve: the waiting call continues, or the next one with the same arguments. Needs a terminal
    /// or the operator's token
    Approve {
        /// Its id
        id: String,
        #[command(flatten)]
        proof: Proof,
    },
    /// Deny
    Deny {
        /// Its id
        id: String,
    },
}

/// Shows that a person is there, or a program that they gave their token to.
#[derive(Debug, clap::Args)]
pub(super) struct Proof {
    /// The file with the operator's token (`admin.token` in the data folder), or `-` for standard
    /// input; without it, standard input must be a terminal
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
}

impl Proof {
    /// The token, if one was given; `None` at a terminal.
    pub(super) fn token(&self) -> anyhow::Result<Option<String>> {
        let text = match &self.token_file {
            Some(path) if path.as_os_str() == "-" => std::io::read_to_string(std::io::stdin())?,
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("`{}` can't be read", path.display()))?,
            None if std::io::stdin().is_terminal() => return Ok(None),
            None => bail!(
                "a person must do this: run it at a terminal, or give the operator's token by `--token-file PATH`"
            ),
        };
        Ok(Some(text.trim().to_owned()))
    }
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
            let mut approvals: Vec<ListedApproval> = backend.get("/approvals").await?;
            approvals.retain(|listed| all || listed.approval.state == ApprovalState::Pending);
            let rows = approvals.iter().map(row);
            let header = ["id", "state", "agent", "tool", "arguments", "reason", "expires", "page"];
            context.out.table(&approvals, &header, rows.collect(), "nothing waits for approval")
        }
        ApprovalsCommand::Show { id, reveal, proof } => {
            let approvals: Vec<ListedApproval> = backend.get("/approvals").await?;
            let found = approvals.into_iter().find(|listed| listed.approval.id == id);
            let mut listed = found.with_context(|| format!("there is no approval `{id}`"))?;
            if reveal {
                listed.approval.arguments = exact(backend, &id, &proof).await?;
            }
            context.out.either(&listed, || describe(&listed))
        }
        ApprovalsCommand::Approve { id, proof } => {
            let decision = Decision { approve: true, token: proof.token()? };
            decide(context, backend, &id, &decision).await
        }
        ApprovalsCommand::Deny { id } => {
            let decision = Decision { approve: false, token: None };
            decide(context, backend, &id, &decision).await
        }
    }
}

fn row(listed: &ListedApproval) -> Vec<String> {
    let Approval { id, state, principal, tool_id, arguments, reason, expires_at, .. } =
        &listed.approval;
    vec![
        id.clone(),
        state.as_str().to_owned(),
        principal.to_string(),
        tool_id.clone(),
        in_short(arguments),
        reason.clone(),
        time(*expires_at),
        listed.page.clone().unwrap_or_default(),
    ]
}

/// The arguments of a call without any mask.
async fn exact(backend: &Backend, id: &str, proof: &Proof) -> anyhow::Result<serde_json::Value> {
    let path = format!("/approvals/{}/arguments", part(id));
    let exact: ExactArguments = backend.post(&path, &Reveal { token: proof.token()? }).await?;
    exact.arguments.with_context(|| {
        format!(
            "what is masked in `{id}` is not kept: it was decided, the gateway was started again since, or the call is too large; have the agent call again"
        )
    })
}

/// Characters of the arguments in the list; `show` has all of them.
const SHORT: usize = 80;

fn in_short(arguments: &serde_json::Value) -> String {
    let text = arguments.to_string();
    let shown = visible_text(&text);
    match shown.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}…", shown.get(..at).unwrap_or_default()),
        None => shown.into_owned(),
    }
}

async fn decide(
    context: &Context,
    backend: &Backend,
    id: &str,
    decision: &Decision,
) -> anyhow::Result<()> {
    let decided: Approval = backend.post(&format!("/approvals/{}", part(id)), decision).await?;
    context.out.either(&decided, || {
        let word = if decision.approve { "approved" } else { "denied" };
        format!("{word}: {} by {}", decided.tool_id, decided.principal)
    })
}

/// All of it: what is cut off can't be approved with open eyes.
fn describe(listed: &ListedApproval) -> String {
    let approval = &listed.approval;
    let arguments = serde_json::to_string_pretty(&approval.arguments).unwrap_or_default();
    let risks: Vec<&str> = approval.risk_tags.iter().map(|tag| tag.as_str()).collect();
    let masked = if has_masks(&approval.arguments) {
        "\nparts that look like secrets are masked; the tool gets all of it: `--reveal` shows it"
    } else {
        ""
    };
    format!(
        "tool       {}\nagent      {}\nstate      {}\nreason     {}\nrisks      {}\nexpires    {}\npage       {}\narguments\n{}{masked}",
        approval.tool_id,
        approval.principal,
        approval.state.as_str(),
        approval.reason,
        risks.join(" "),
        time(approval.expires_at),
        listed.page.as_deref().unwrap_or_default(),
        visible_text(&arguments),
    )
}
