//! `drawgate approvals`: a person's yes or no.

mod proof;
mod ring;
mod watch;
mod words;

use std::process::ExitCode;

use anyhow::Context as _;
use drawgate_core::policy::ApprovalState;

use super::Context;
use super::backend::{Backend, part};
use super::screen::{Screen, local_time};
use drawgate_runtime::operations::{Decided, Decision, ExactArguments, ListedApproval, Reveal};

pub(super) use self::proof::Proof;

const WATCH_HELP: &str = "\
Leave it running in a terminal of its own:
  drawgate approvals watch

A program or a chat is told by `[approvals.webhook]` in the configuration instead.";

#[derive(Debug, clap::Subcommand)]
pub(super) enum ApprovalsCommand {
    /// List pending approvals; `--all` includes decided ones
    List {
        /// Decided and expired ones too
        #[arg(long)]
        all: bool,
    },
    /// Follow approvals as they come, and ring: a bell, and a notification of the desktop
    ///
    /// Needs a running gateway, and waits for it when it is started again. With `--json`, one
    /// approval a line.
    #[command(after_help = WATCH_HELP)]
    Watch {
        /// Print only: no bell, no notification
        #[arg(long)]
        quiet: bool,
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
    /// Approve: the waiting call continues, or the next one with the same arguments. Shows the call and
    /// asks; needs a terminal or the operator's token
    Approve {
        /// Its id
        id: String,
        #[command(flatten)]
        proof: Proof,
    },
    /// Deny: the waiting call is refused, and the same one until the approval expires. Needs a terminal
    /// or the operator's token
    Deny {
        /// Its id
        id: String,
        #[command(flatten)]
        proof: Proof,
    },
}

pub(super) async fn run(command: ApprovalsCommand, context: Context) -> anyhow::Result<ExitCode> {
    if let ApprovalsCommand::Watch { quiet } = command {
        return watch::run(quiet, &context).await;
    }
    let backend = Backend::open_for_approvals(&context).await?;
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
            if context.out.is_json() {
                return context.out.json(&approvals);
            }
            if approvals.is_empty() {
                return context.out.text("nothing waits for approval");
            }
            let screen = Screen::stdout();
            let blocks = approvals.iter().map(|listed| words::block(listed, screen));
            context.out.painted(&blocks.collect::<Vec<_>>().join("\n"))
        }
        ApprovalsCommand::Show { id, reveal, proof } => {
            let mut listed = find(backend, &id).await?;
            if reveal {
                listed.approval.arguments = exact(context, backend, &id, &proof).await?;
            }
            context.out.either(&listed, || words::describe(&listed))
        }
        ApprovalsCommand::Approve { id, proof } => {
            decide(context, backend, &id, ApprovalState::Approved, &proof).await
        }
        ApprovalsCommand::Deny { id, proof } => {
            decide(context, backend, &id, ApprovalState::Denied, &proof).await
        }
        // It has no gateway of its own.
        ApprovalsCommand::Watch { .. } => Ok(()),
    }
}

async fn find(backend: &Backend, id: &str) -> anyhow::Result<ListedApproval> {
    let approvals: Vec<ListedApproval> = backend.get("/approvals").await?;
    let found = approvals.into_iter().find(|listed| listed.approval.id == id);
    found.with_context(|| {
        format!("there is no approval `{id}`; `drawgate approvals list` shows them")
    })
}

/// The arguments of a call without any mask.
async fn exact(
    context: &Context,
    backend: &Backend,
    id: &str,
    proof: &Proof,
) -> anyhow::Result<serde_json::Value> {
    let token = proof.of_presence(context)?;
    let path = format!("/approvals/{}/arguments", part(id));
    let exact: ExactArguments = backend.post(&path, &Reveal { token }).await?;
    exact.arguments.with_context(|| {
        format!(
            "what is masked in `{id}` is not kept: it was decided, the gateway was started again since, or the call is too large; have the agent call again"
        )
    })
}

async fn decide(
    context: &Context,
    backend: &Backend,
    id: &str,
    answer: ApprovalState,
    proof: &Proof,
) -> anyhow::Result<()> {
    let is_yes = answer == ApprovalState::Approved;
    let listed = find(backend, id).await?;
    let question = if is_yes { "approve this call?" } else { "deny this call?" };
    let Some(token) = proof.of_consent(context, &words::describe(&listed), question).await? else {
        return context.out.text("nothing was decided");
    };
    let decision = Decision { approve: is_yes, token };
    let decided: Decided = backend.post(&format!("/approvals/{}", part(id)), &decision).await?;
    context.out.either(&decided, || {
        let (tool, who) = (&decided.approval.tool_id, &decided.approval.principal);
        format!("{tool} by {who} is {}", decided.in_words(local_time))
    })
}
