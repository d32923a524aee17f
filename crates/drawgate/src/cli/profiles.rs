//! `drawgate profiles`: agents that the gateway runs, from their files to the operator's consent.

mod check;
mod new;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use serde_json::json;

use super::Context;
use super::backend::{Backend, part};
use super::output::{Consent, Output};
use crate::cli::table::{cut, spare, state, whole};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{AcceptProfile, ShownProfile};
use drawgate_runtime::profiles::ProfileState;

const HELP: &str = "\
A profile is a Markdown file that describes an agent: its model, its tools, what it may use up, and what
it is told. Profiles lie in the folder `agents` beside the configuration (`[profiles] folders`). Files that
were written for Claude Code, OpenCode and Gemini CLI are read, too. A profile counts once you accept it,
and waits again when its file changes.

Examples:
  drawgate profiles new helper                     a small one to start from
  drawgate profiles check                          all problems, each with its place
  drawgate profiles show research-agent            everything about it
  drawgate profiles accept research-agent          shows what it may do, and asks";

#[derive(Debug, clap::Subcommand)]
#[command(after_help = HELP)]
pub(super) enum ProfilesCommand {
    /// List profiles, and whether they are accepted
    List,
    /// Show a profile: its model, tools, limits and instructions
    Show {
        /// The profile
        name: String,
    },
    /// Write a small profile to start from, into the first folder of the configuration
    New {
        /// Its name
        name: String,
    },
    /// Check files; every problem with its field and line. Needs no gateway; exits 1 if there is one
    Check {
        /// Files or folders; without one, the folders of the configuration
        files: Vec<PathBuf>,
    },
    /// Show what a profile may do, and let it count after a yes
    Accept {
        /// The profile
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// All profiles that wait
        #[arg(long)]
        all: bool,
        /// Say yes without being asked
        #[arg(long)]
        yes: bool,
    },
    /// Take back the acceptance of a profile, at once; its file stays
    Remove {
        /// The profile
        name: String,
    },
}

/// What needs neither a configuration nor a gateway.
pub(super) fn run_alone(
    command: &ProfilesCommand,
    out: Output,
) -> Option<anyhow::Result<ExitCode>> {
    match command {
        ProfilesCommand::Check { files } if !files.is_empty() => Some(check::files(files, out)),
        ProfilesCommand::Check { .. }
        | ProfilesCommand::List
        | ProfilesCommand::New { .. }
        | ProfilesCommand::Show { .. }
        | ProfilesCommand::Accept { .. }
        | ProfilesCommand::Remove { .. } => None,
    }
}

pub(super) async fn run(command: ProfilesCommand, context: Context) -> anyhow::Result<ExitCode> {
    if let ProfilesCommand::Check { .. } = command {
        return check::configured(context.whole()?, context.out);
    }
    if let ProfilesCommand::New { name } = &command {
        return new::run(name, &context);
    }
    let backend = Backend::open(&context, Start::Nothing).await?;
    // Without a running gateway, the configuration says where the profiles are.
    let done = match context.whole() {
        Err(errors) if !backend.is_running() => Err(errors),
        _ => perform(command, &context, &backend).await,
    };
    backend.close().await;
    done
}

async fn perform(
    command: ProfilesCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    match command {
        ProfilesCommand::List => list(context, backend).await?,
        ProfilesCommand::Show { name } => {
            let shown: ShownProfile = backend.get(&path(&name)).await?;
            context.out.either(&shown, || words::shown(&shown))?;
        }
        // These need no gateway.
        ProfilesCommand::Check { .. } => return check::configured(context.whole()?, context.out),
        ProfilesCommand::New { name } => return new::run(&name, context),
        ProfilesCommand::Accept { name, all: _, yes } => {
            return accept(name.as_deref(), yes, context, backend).await;
        }
        ProfilesCommand::Remove { name } => {
            backend.delete(&path(&name)).await?;
            let text = || format!("`{name}` is not accepted any more");
            context.out.either(&json!({ "removed": name }), text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(context: &Context, backend: &Backend) -> anyhow::Result<()> {
    let all: Vec<ShownProfile> = backend.get("/profiles").await?;
    let columns = [
        whole("profile"),
        state("state"),
        spare("model"),
        cut("tools"),
        spare("file"),
        cut("problem"),
    ];
    let rows: Vec<_> = all.iter().map(words::row).collect();
    let empty = "there are no profiles; `drawgate profiles new NAME` writes one to start from, into the \
                 folder `agents` beside the configuration or the first of `[profiles] folders`";
    context.out.table(&all, &columns, &rows, empty)
}

/// Accepts one profile, or all that wait, exactly as they are shown.
async fn accept(
    name: Option<&str>,
    yes: bool,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let consent = Consent::new(yes, context.out);
    ensure!(
        consent != Consent::Impossible,
        "there is no terminal to ask at; look at `drawgate profiles show`, then add `--yes`"
    );
    let chosen = match name {
        Some(name) => vec![backend.get::<ShownProfile>(&path(name)).await?],
        None => backend.get::<Vec<ShownProfile>>("/profiles").await?,
    };
    let mut accepted = Vec::new();
    for shown in &chosen {
        match shown.state {
            ProfileState::New | ProfileState::Changed => {}
            ProfileState::Accepted => continue,
            ProfileState::Broken | ProfileState::Gone if name.is_none() => continue,
            ProfileState::Broken => bail!("{}", words::shown(shown).trim_end()),
            ProfileState::Gone => bail!("the file `{}` is gone", shown.path.display()),
        }
        let Some(profile) = &shown.profile else { continue };
        if !context.out.is_json() {
            context.out.text(&words::abilities(shown, profile))?;
        }
        if consent.to("accept it?").await? {
            let wanted = AcceptProfile { hash: profile.hash.clone() };
            accepted.push(backend.post::<ShownProfile>(&path(&shown.name), &wanted).await?);
        }
    }
    context.out.either(&accepted, || words::accepted(&accepted, &chosen))?;
    Ok(ExitCode::SUCCESS)
}

fn path(name: &str) -> String {
    format!("/profiles/{}", part(name))
}
