//! `drawgate status`: what runs where, how it is, and what waits for a person.

use std::path::Path;
use std::process::ExitCode;

use drawgate_host::store::DataDir;
use drawgate_runtime::operations::Status;
use serde::Serialize;
use serde_json::{Value, json};

use super::Context;
use super::backend::{Backend, changing};
use super::exit::Exit;
use super::running::Running;
use super::screen::local_time;

/// What is printed as JSON of a gateway that runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    running: bool,
    #[serde(flatten)]
    status: Status,
    /// Every tool, every live grant, and the sequence of the newest audit event.
    snapshot: Value,
}

pub(super) async fn run(context: Context) -> anyhow::Result<ExitCode> {
    if let Some(report) = report(&context).await? {
        context.out.either(&report, || describe(&report))?;
        return Ok(ExitCode::SUCCESS);
    }
    context.warn_of_errors();
    context.note_other_gateway().await;
    not_running(&context)?;
    Ok(Exit::Unavailable.into())
}

/// What a gateway says of itself; nothing if none runs, or if it ends just now.
async fn report(context: &Context) -> anyhow::Result<Option<Report>> {
    let Some(running) = Running::find(&context.data).await else { return Ok(None) };
    let running = running.impatient();
    let told = async {
        let status = running.status().await?;
        let snapshot = Backend::Running(running.clone()).get("/snapshot").await?;
        Ok(Report { running: true, status, snapshot })
    };
    match told.await {
        Err(_) if Running::find(&context.data).await.is_none() => Ok(None),
        told => told.map(Some),
    }
}

fn not_running(context: &Context) -> anyhow::Result<()> {
    let serve = context.target.command("serve", &context.data)?;
    let file = context.loaded.path.as_deref();
    let user = DataDir::user(&context.data);
    let value = json!({
        "running": false,
        "inUseBy": user,
        "data": context.data,
        "configuration": { "file": file },
    });
    context.out.either(&value, || {
        let gateway = match user {
            Some(_) => format!("{}; ask again in a moment", changing(&context.data)),
            None => format!("not running; `{serve}` starts it"),
        };
        rows(&[
            ("gateway", gateway),
            ("config", configuration(file, context.loaded.watched())),
            ("data", context.data.display().to_string()),
        ])
    })
}

fn describe(report: &Report) -> String {
    let Report { status, snapshot, .. } = report;
    let Status { pid, version, configuration: config, .. } = status;
    let grants = snapshot["grants"].as_array().map_or(0, Vec::len);
    let since = local_time(status.since);
    let audit = status.audit_problem.as_deref();
    let mut all = vec![
        ("gateway", {
            let ends = if status.for_client {
                "; ends with the client that started it, or when `drawgate serve` takes over"
            } else {
                ""
            };
            format!("running since {since}, process {pid}, version {version}{ends}")
        }),
        ("address", status.endpoint.as_deref().unwrap_or("-").to_owned()),
        ("config", {
            let in_force = &config.in_force;
            configuration(in_force.file.as_deref(), in_force.watched.as_deref())
        }),
        ("data", status.data.display().to_string()),
        ("health", health(status)),
        ("tools", status.tools.to_string()),
        ("calls", format!("{} under way", status.calls_under_way)),
        ("grants", grants.to_string()),
        ("audit log", {
            let head = format!("up to event {}", status.audit_head);
            audit.map_or_else(|| head.clone(), |problem| format!("{head}; {problem}"))
        }),
    ];
    all.extend(waiting(status).into_iter().map(|text| ("waiting", text)));
    if let Some(pending) = &config.pending {
        let since = local_time(pending.since);
        all.push(("not in force", format!("an edit, since {since}: {}", pending.problem)));
    }
    if !config.at_next_start.is_empty() {
        let sections = config.at_next_start.join(", ");
        all.push(("not in force", format!("{sections}: edited, and read at the next start")));
    }
    rows(&all)
}

fn configuration(file: Option<&Path>, watched: Option<&Path>) -> String {
    match (file, watched) {
        (Some(file), _) => file.display().to_string(),
        (None, Some(file)) => format!("defaults; `{}` is not there yet", file.display()),
        (None, None) => "defaults".to_owned(),
    }
}

fn health(status: &Status) -> String {
    if status.failed.is_empty() {
        return if status.audit_problem.is_some() { "has problems" } else { "ok" }.to_owned();
    }
    let names: Vec<String> = status.failed.iter().map(|one| format!("`{}`", one.id)).collect();
    let verb = if names.len() == 1 { "does" } else { "do" };
    format!("{} {verb} not work; `drawgate servers doctor` says why", names.join(", "))
}

/// What a person should look at, with the command that shows it.
fn waiting(status: &Status) -> Vec<String> {
    let waiting = status.waiting;
    let counted = |count: usize, one: &str, more: &str, command: &str| {
        let what = if count == 1 { one } else { more };
        (count > 0).then(|| format!("{count} {what}; `drawgate {command}`"))
    };
    [
        counted(waiting.approvals, "call needs approval", "calls need approval", "approvals list"),
        counted(
            waiting.definitions,
            "tool changed or was added",
            "tools changed or were added",
            "servers list",
        ),
        counted(
            waiting.profiles,
            "profile is not accepted",
            "profiles are not accepted",
            "profiles list",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Names on the left, each once.
fn rows(all: &[(&str, String)]) -> String {
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut before = "";
    let lines = all.iter().map(|(name, text)| {
        let name = if *name == std::mem::replace(&mut before, name) { "" } else { name };
        format!("{name:width$}  {text}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
