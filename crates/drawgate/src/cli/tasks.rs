//! `drawgate tasks`: delegated work.

use std::process::ExitCode;

use crate::cli::screen::local_time as time;
use drawgate_agents::tasks::TaskDetails;
use drawgate_agents::tasks::record::{Question, Said};
use drawgate_runtime::assemble::Start;

use super::Context;
use super::backend::{Backend, part};
use super::run::short;
use crate::cli::table::{cut, spare, state, whole};

#[derive(Debug, clap::Subcommand)]
pub(super) enum TasksCommand {
    /// List tasks, newest first
    List {
        /// How many
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
    /// Show a task: its runs, what reviewers said, its result
    Show {
        /// The task's id, or the end of it
        id: String,
    },
}

const NONE_YET: &str = "no tasks yet; an agent delegates one with `delegation__delegate`";

pub(super) async fn run(command: TasksCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done?;
    Ok(ExitCode::SUCCESS)
}

async fn perform(
    command: TasksCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    match command {
        TasksCommand::List { limit } => {
            let mut tasks: Vec<TaskDetails> = backend.get("/tasks").await?;
            tasks.truncate(limit);
            let rows: Vec<_> = tasks.iter().map(row).collect();
            let columns = [
                whole("task"),
                state("state"),
                spare("try"),
                spare("for"),
                spare("delegated"),
                cut("about"),
            ];
            context.out.table(&tasks, &columns, &rows, NONE_YET)
        }
        TasksCommand::Show { id } => {
            let task: TaskDetails = backend.get(&format!("/tasks/{}", part(&id))).await?;
            context.out.either(&task, || details(&task))
        }
    }
}

fn row(details: &TaskDetails) -> Vec<String> {
    let task = &details.task;
    vec![
        task.id.clone(),
        task.state.clone(),
        format!("{} of {}", task.iteration, task.max_iterations),
        details.principal.to_string(),
        time(details.created_at),
        short(&task.prompt),
    ]
}

/// A task in full.
fn details(details: &TaskDetails) -> String {
    let task = &details.task;
    let mut lines = vec![
        format!("task      {}", task.id),
        format!("state     {}", task.state),
        format!("try       {} of {}", task.iteration, task.max_iterations),
        format!("for       {}", details.principal),
    ];
    let mut add = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{name:<9} {value}")));
    };
    add("from run", details.parent_run.clone());
    add("thread", Some(task.parent_thread_id.clone()));
    add("by", Some(details.plugin.clone()));
    add("delegated", Some(time(details.created_at)));
    add("ended", details.ended_at.map(time));
    add("prompt", Some(short(&task.prompt)));
    add("runs", Some(details.runs.join(" ")));
    add("feedback", task.feedback.clone());
    if !details.questions.is_empty() {
        lines.push(String::new());
        lines.extend(details.questions.iter().map(question));
    }
    if !task.messages.is_empty() {
        lines.push(String::new());
        lines.extend(task.messages.iter().map(|message| format!("> {message}")));
    }
    if let Some(result) = &task.result {
        lines.push(format!("\n{result}"));
    }
    lines.join("\n")
}

/// What a plugin was asked, and what it answered.
fn question(question: &Question) -> String {
    let answer = match &question.answer {
        None => format!("has not answered `{}` yet", question.hook),
        Some(Said::Nothing) => format!("was asked at `{}` and said nothing", question.hook),
        Some(Said::Accepted) => "accepted the result".to_owned(),
        Some(Said::Rejected { feedback }) if feedback.is_empty() => {
            "rejected the result and did not say why".to_owned()
        }
        Some(Said::Rejected { feedback }) => format!("rejected the result: {}", short(feedback)),
        Some(Said::Failed { reason }) => {
            format!("failed at `{}`: {}", question.hook, short(reason))
        }
    };
    format!("try {}: plugin `{}` {answer}", question.iteration, question.plugin)
}
