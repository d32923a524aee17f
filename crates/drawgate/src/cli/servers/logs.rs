//! `drawgate servers logs`: what a server wrote to its standard error.

use std::process::ExitCode;
use std::time::Duration;

use drawgate_runtime::operations::{Refusal, ServerLog};
use serde_json::json;

use super::super::Context;
use super::super::backend::{Backend, part};
use super::super::exit::Exit;
use super::super::running::Running;
use super::allow;
use crate::cli::screen::count;

/// How often `--follow` looks for new lines.
const PAUSE: Duration = Duration::from_millis(250);
/// A server that is set up anew is not there for a while; after this many looks it is gone.
const ABSENT: u32 = 60;

#[derive(Debug, clap::Args)]
pub(in super::super) struct LogsArgs {
    /// The server
    name: String,
    /// Keep printing new lines
    #[arg(long, short)]
    follow: bool,
}

pub(super) async fn run(args: &LogsArgs, context: Context) -> anyhow::Result<ExitCode> {
    let Some(running) = Running::find(&context.data).await else {
        let gone = "no gateway is running, and what servers write is kept in its memory only";
        return Err(Exit::Unavailable.error(gone));
    };
    let backend = Backend::Running(running);
    let path = |after: u64| format!("/servers/{}/log?after={after}", part(&args.name));
    let log: ServerLog = backend.get(&path(0)).await?;
    if !args.follow && context.out.is_json() {
        context.out.json(&log)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&context, &log, 0)?;
    let mut known = Vec::new();
    tell_refusals(&args.name, &log, &mut known);
    if !args.follow {
        if log.lines.is_empty() {
            notice!("drawgate: `{}` has written nothing to its standard error", args.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut seen, mut absent) = (log.written, 0);
    loop {
        tokio::time::sleep(PAUSE).await;
        match backend.get::<ServerLog>(&path(seen)).await {
            Ok(log) => {
                print(&context, &log, seen)?;
                tell_refusals(&args.name, &log, &mut known);
                (seen, absent) = (log.written, 0);
            }
            Err(error) if absent == ABSENT => return Err(error),
            Err(_) => absent += 1,
        }
    }
}

/// Says what the server was refused that is not known yet: beside its own lines, which it could make up.
fn tell_refusals(name: &str, log: &ServerLog, known: &mut Vec<Refusal>) {
    for refusal in &log.refusals {
        if !known.contains(refusal) {
            notice!("drawgate: {}", allow::line(name, refusal));
            known.push(refusal.clone());
        }
    }
}

/// Prints the lines after those that were seen, and how many are lost between.
fn print(context: &Context, log: &ServerLog, seen: u64) -> anyhow::Result<()> {
    let unseen = if seen > log.written { log.written } else { log.written - seen };
    let lost = unseen.saturating_sub(log.lines.len() as u64);
    if lost > 0 {
        notice!("drawgate: {} no longer kept", count(lost, "earlier line"));
    }
    for line in &log.lines {
        if context.out.is_json() {
            context.out.raw(format!("{}\n", json!({ "line": line })).as_bytes())?;
        } else {
            context.out.text(line)?;
        }
    }
    Ok(())
}
