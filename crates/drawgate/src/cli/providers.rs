//! `drawgate providers`: who is asked for models, and whether they answer.

mod add;

use std::process::ExitCode;

use super::Context;
use super::backend::{Backend, part};
use super::progress::Progress;
use crate::cli::table::{cut, spare, state, whole};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{ProviderReport, ProviderState};
use serde_json::json;

#[derive(Debug, clap::Subcommand)]
pub(super) enum ProvidersCommand {
    /// List the configured providers
    List,
    /// Add a provider to the configuration: its API, its address, the variable of its key
    Add(add::AddArgs),
    /// Ask providers for their lists of models, which shows that addresses and keys are right
    Check {
        /// The provider [default: all of them]
        name: Option<String>,
    },
}

const EMPTY: &str = "no providers yet; `drawgate providers add anthropic` adds one";

pub(super) async fn run(command: ProvidersCommand, context: Context) -> anyhow::Result<ExitCode> {
    if let ProvidersCommand::Add(args) = &command {
        return add::run(args, &context).await;
    }
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done
}

async fn perform(
    command: ProvidersCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let all: Vec<ProviderReport> = backend.get("/providers").await?;
    match command {
        ProvidersCommand::List => {
            let columns = [
                whole("provider"),
                whole("kind"),
                cut("url"),
                spare("key"),
                spare("at once"),
                cut("models"),
            ];
            let rows: Vec<_> = all.iter().map(row).collect();
            context.out.table(&all, &columns, &rows, EMPTY)?;
            Ok(ExitCode::SUCCESS)
        }
        // It needs no gateway.
        ProvidersCommand::Add(args) => add::run(&args, context).await,
        ProvidersCommand::Check { name } => {
            let names = name
                .map_or_else(|| all.into_iter().map(|one| one.name).collect(), |name| vec![name]);
            check(&names, context, backend).await
        }
    }
}

async fn check(names: &[String], context: &Context, backend: &Backend) -> anyhow::Result<ExitCode> {
    let mut states: Vec<ProviderState> = Vec::new();
    let progress = Progress::new("asking the providers");
    for (number, name) in (1..).zip(names) {
        progress.say(format!("asking `{name}` for its models ({number} of {})", names.len()));
        let path = format!("/providers/{}/check", part(name));
        states.push(backend.post(&path, &json!({})).await?);
    }
    drop(progress);
    let rows = states.iter().map(|state| {
        let outcome = if state.ok { "ok" } else { "has problems" };
        vec![state.name.clone(), outcome.to_owned(), state.message.clone()]
    });
    let columns = [whole("provider"), state("state"), cut("details")];
    context.out.table(&states, &columns, &rows.collect::<Vec<_>>(), EMPTY)?;
    let all_ok = states.iter().all(|state| state.ok);
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(provider: &ProviderReport) -> Vec<String> {
    vec![
        provider.name.clone(),
        provider.kind.clone(),
        provider.url.clone(),
        provider.key.clone().unwrap_or_else(|| "(none)".to_owned()),
        provider.concurrency.to_string(),
        provider.models.join(" "),
    ]
}
