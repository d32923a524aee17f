//! `drawgate runs` and `drawgate threads`: agents at work, and their conversations.

use std::process::ExitCode;

use crate::cli::screen::{count, local_time as time};
use drawgate_agents::runs::record::{ModelOutcome, Purpose, Step, StepBody, TurnOutcome};
use drawgate_agents::runs::{RunDetails, RunSummary, ThreadSummary};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{Say, StartedRun};
use serde_json::json;

use super::Context;
use super::backend::{Backend, part};
use super::run::{cached, follow, short};
use crate::cli::table::{self, cut, spare, whole};

#[derive(Debug, clap::Subcommand)]
pub(super) enum RunsCommand {
    /// List runs, newest first, each tree under its first run
    List {
        /// How many trees
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
    /// Show a run: its steps, its budget, and the runs below it
    Show {
        /// The run's id, or the end of it
        id: String,
    },
    /// Show what a run does, until it ends
    Follow {
        /// The run's id, or the end of it
        id: String,
    },
    /// Cancel a run and everything below it
    Cancel {
        /// The run's id, or the end of it
        id: String,
    },
    /// Go on with a run that was suspended, or that ended before it was done
    Resume {
        /// The run's id, or the end of it
        id: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum ThreadsCommand {
    /// List conversations, newest first
    List,
    /// Show a conversation
    Show {
        /// Its id, or the end of it
        id: String,
    },
    /// Say something in a conversation: to the agent at work in it, or the agent goes on with it
    Say {
        /// Its id, or the end of it
        id: String,
        /// What to say
        message: String,
    },
}

pub(super) async fn run(command: RunsCommand, context: Context) -> anyhow::Result<ExitCode> {
    let start = match &command {
        RunsCommand::Resume { .. } => Start::Sources,
        RunsCommand::List { .. }
        | RunsCommand::Show { .. }
        | RunsCommand::Follow { .. }
        | RunsCommand::Cancel { .. } => Start::Nothing,
    };
    let backend = Backend::open(&context, start).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done
}

async fn perform(
    command: RunsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    match command {
        RunsCommand::List { limit } => list(limit, context, backend).await?,
        RunsCommand::Show { id } => {
            let run: RunDetails = backend.get(&format!("/runs/{}", part(&id))).await?;
            context.out.either(&run, || details(&run))?;
        }
        RunsCommand::Follow { id } => {
            let run: RunDetails = backend.get(&format!("/runs/{}", part(&id))).await?;
            return follow(&run.run.id, context, backend).await;
        }
        RunsCommand::Cancel { id } => {
            backend.delete(&format!("/runs/{}", part(&id))).await?;
            context.out.either(&json!({ "cancelled": id }), || format!("cancelled `{id}`"))?;
        }
        RunsCommand::Resume { id } => {
            let path = format!("/runs/{}/resume", part(&id));
            let started: StartedRun = backend.post(&path, &json!({})).await?;
            return follow(&started.id, context, backend).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn run_threads(
    command: ThreadsCommand,
    context: Context,
) -> anyhow::Result<ExitCode> {
    let start = match &command {
        ThreadsCommand::Say { .. } => Start::Sources,
        ThreadsCommand::List | ThreadsCommand::Show { .. } => Start::Nothing,
    };
    let backend = Backend::open(&context, start).await?;
    let done = perform_threads(command, &context, &backend).await;
    backend.close().await;
    done
}

async fn perform_threads(
    command: ThreadsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    match command {
        ThreadsCommand::List => {
            let threads: Vec<ThreadSummary> = backend.get("/threads").await?;
            let row = |thread: &ThreadSummary| {
                vec![
                    thread.id.clone(),
                    thread.profile.clone(),
                    thread.runs.to_string(),
                    time(thread.updated_at),
                    short(&thread.prompt),
                ]
            };
            let rows: Vec<_> = threads.iter().map(row).collect();
            let columns =
                [whole("thread"), whole("agent"), spare("runs"), spare("last"), cut("about")];
            context.out.table(&threads, &columns, &rows, NONE_YET)?;
        }
        ThreadsCommand::Show { id } => {
            let runs: Vec<RunDetails> = backend.get(&format!("/threads/{}", part(&id))).await?;
            let parts = || runs.iter().map(exchange).collect::<Vec<_>>().join("\n\n");
            context.out.either(&runs, parts)?;
        }
        ThreadsCommand::Say { id, message } => {
            let path = format!("/threads/{}", part(&id));
            let started: StartedRun = backend.post(&path, &Say { message }).await?;
            return follow(&started.id, context, backend).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

const NONE_YET: &str = "no runs yet; `drawgate run PROFILE \"PROMPT\"` starts one";

async fn list(limit: usize, context: &Context, backend: &Backend) -> anyhow::Result<()> {
    let runs: Vec<RunSummary> = backend.get("/runs").await?;
    let roots: Vec<&RunSummary> = runs.iter().filter(|run| run.depth == 0).take(limit).collect();
    let mut shown = Vec::new();
    for root in roots {
        tree(root, &runs, &mut shown);
    }
    let rows: Vec<_> = shown.iter().map(|run| row(run)).collect();
    let columns = [
        whole("run"),
        whole("agent"),
        table::state("state"),
        spare("model"),
        spare("tokens"),
        spare("cost"),
        spare("started"),
        cut("last step"),
    ];
    context.out.table(&shown, &columns, &rows, NONE_YET)
}

/// A run and what is below it, children in the order of their start.
fn tree<'a>(run: &'a RunSummary, all: &'a [RunSummary], shown: &mut Vec<&'a RunSummary>) {
    shown.push(run);
    for child in all.iter().rev().filter(|other| other.parent.as_ref() == Some(&run.id)) {
        tree(child, all, shown);
    }
}

fn row(run: &RunSummary) -> Vec<String> {
    let indent = "  ".repeat(usize::from(run.depth));
    vec![
        run.id.clone(),
        format!("{indent}{}{}", run.profile, tool(run)),
        state(run).to_owned(),
        run.model.clone().unwrap_or_default(),
        run.used.tokens.to_string(),
        cost(run),
        time(run.created_at),
        run.reason.as_deref().or(run.last_step.as_deref()).map(short).unwrap_or_default(),
    ]
}

/// What it is for, where that is not its profile's own work.
fn tool(run: &RunSummary) -> String {
    match (&run.tool, &run.task) {
        (Some(tool), _) => format!(" ({tool})"),
        (None, Some(_)) => " (task)".to_owned(),
        (None, None) => String::new(),
    }
}

fn state(run: &RunSummary) -> &'static str {
    run.ending.map_or(run.phase.as_str(), |ending| ending.as_str())
}

fn cost(run: &RunSummary) -> String {
    if run.cost_usd > 0.0 { format!("${:.4}", run.cost_usd) } else { String::new() }
}

/// A run in full.
fn details(details: &RunDetails) -> String {
    let run = &details.run;
    let mut lines = vec![
        format!("run      {}", run.id),
        format!("agent    {}{}", run.profile, tool(run)),
        format!("for      {}", run.principal),
        format!("state    {}", state(run)),
    ];
    let mut add = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{name:<8} {value}")));
    };
    add("reason", run.reason.clone());
    add("task", run.task.clone());
    add("model", run.model.clone());
    add("thread", Some(run.thread.clone()));
    add("started", Some(time(run.created_at)));
    add("ended", run.ended_at.map(time));
    add("used", Some(used(details)));
    add("prompt", Some(short(&details.prompt)));
    lines.push(String::new());
    lines.extend(details.steps.iter().map(step));
    if !details.below.is_empty() {
        lines.push(String::new());
        lines.push("below it:".to_owned());
        lines.extend(details.below.iter().map(below));
    }
    if !details.text.is_empty() {
        lines.push(format!("\n{}", details.text));
    }
    lines.join("\n")
}

fn below(run: &RunSummary) -> String {
    let indent = "  ".repeat(usize::from(run.depth));
    let reason = run.reason.as_ref().map(|reason| format!(": {}", short(reason)));
    let reason = reason.unwrap_or_default();
    format!("{indent}{} {}{} {}{reason}", run.id, run.profile, tool(run), state(run))
}

/// What a run used of what it may use.
fn used(details: &RunDetails) -> String {
    let (used, budget) = (&details.run.used, &details.budget);
    let reserved = &details.run.reserved;
    let of = |used: String, limit: Option<String>, unit: &str| match limit {
        Some(limit) => format!("{used} of {limit} {unit}"),
        None => format!("{used} {unit}"),
    };
    let text = |number: u64| number.to_string();
    let open = (reserved.tokens > 0)
        .then(|| format!("; {} tokens are reserved for requests under way", reserved.tokens));
    let used = [
        of(text(used.tokens), budget.tokens.map(text), "tokens") + &cached(used.cached_tokens),
        of(text(used.tool_calls), budget.tool_calls.map(text), "tool calls"),
        of(text(used.runs), budget.runs.map(text), "runs"),
        of(format!("${:.4}", used.usd()), budget.cost_usd.map(|usd| format!("${usd}")), "cost"),
    ]
    .join(", ");
    format!("{used}{}{}", unanswered(&details.steps).unwrap_or_default(), open.unwrap_or_default())
}

/// What is not known of what was used: a request that was broken off counts with all that was reserved for it.
fn unanswered(steps: &[Step]) -> Option<String> {
    let assumed = |step: &Step| match &step.body {
        StepBody::Model { reserved, outcome: Some(ModelOutcome::Failed { spent, .. }), .. } => {
            (spent == reserved).then_some(spent.tokens)
        }
        StepBody::Model { .. }
        | StepBody::Message { .. }
        | StepBody::Call { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    };
    let tokens: u64 = steps.iter().filter_map(assumed).sum();
    (tokens > 0).then(|| {
        format!("; at most, since {tokens} of the tokens were reserved for requests whose answers never came")
    })
}

/// A step in one line.
fn step(step: &Step) -> String {
    let words = match &step.body {
        StepBody::Message { from, text } => {
            format!("{}: {}", from.as_deref().unwrap_or("prompt"), short(text))
        }
        StepBody::Model { purpose, model, outcome, .. } => {
            let what = match purpose {
                Purpose::Work => "asked",
                Purpose::Summary => "summary by",
                Purpose::Relayed => "its program asked",
            };
            format!("{what} {model}: {}", model_outcome(outcome.as_ref()))
        }
        StepBody::Call { call, outcome } => {
            let outcome = outcome.as_ref().map_or("…".to_owned(), |outcome| short(&outcome.text));
            format!("called {}: {outcome}", call.name)
        }
        StepBody::Turn { outcome, .. } => {
            format!("its program worked: {}", turn_outcome(outcome.as_ref()))
        }
        StepBody::Trimmed { .. } => "left old results out to save room".to_owned(),
        StepBody::Summary { text, .. } => format!("summary: {}", short(text)),
    };
    format!("{:>4}  {words}", step.seq)
}

fn turn_outcome(outcome: Option<&TurnOutcome>) -> String {
    match outcome {
        None => "…".to_owned(),
        Some(TurnOutcome::Answered { text }) => short(text),
        Some(TurnOutcome::Failed { message }) => format!("failed: {}", short(message)),
        Some(TurnOutcome::Interrupted) => "interrupted, since the gateway stopped".to_owned(),
    }
}

fn model_outcome(outcome: Option<&ModelOutcome>) -> String {
    match outcome {
        None => "…".to_owned(),
        Some(ModelOutcome::Failed { message, .. }) => format!("failed: {}", short(message)),
        Some(ModelOutcome::Reply { reply, .. }) => {
            let (usage, calls) = (&reply.usage, reply.calls().count());
            let calls = if calls == 0 { String::new() } else { count(calls, "call") + ", " };
            let tokens = format!("{}{}", count(usage.total(), "token"), cached(usage.cache_read));
            format!("[{calls}{tokens}] {}", short(&reply.text()))
        }
    }
}

/// What was said in a run, and answered.
fn exchange(details: &RunDetails) -> String {
    format!("> {}\n\n{}", details.prompt.replace('\n', "\n> "), details.text)
}

#[cfg(test)]
mod tests {
    use drawgate_agents::runs::pool::Amount;

    use super::*;

    #[test]
    fn what_was_only_reserved_is_not_told_as_used() {
        let amount = |tokens: u64| Amount { tokens, ..Amount::default() };
        let step = |reserved: u64, spent: u64| Step {
            seq: 0,
            at: 0,
            until: None,
            body: StepBody::Model {
                purpose: Purpose::Work,
                model: "p/m".to_owned(),
                reserved: amount(reserved),
                outcome: Some(ModelOutcome::Failed {
                    kind: None,
                    message: String::new(),
                    spent: amount(spent),
                }),
            },
        };
        for (steps, expected) in [
            (vec![], None),
            (vec![step(8423, 12), step(100, 0)], None),
            (vec![step(8423, 8423), step(100, 7), step(77, 77)], Some("8500 of the tokens")),
        ] {
            let said = unanswered(&steps);
            assert_eq!(said.is_some(), expected.is_some(), "{said:?}");
            assert!(expected.is_none_or(|it| said.is_some_and(|said| said.contains(it))));
        }
    }
}
