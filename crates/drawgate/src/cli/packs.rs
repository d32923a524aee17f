//! `drawgate packs`: programs that have dialled in and offer tools.

use std::process::ExitCode;

use serde_json::json;

use super::Context;
use super::agents::joined;
use super::backend::{Backend, part};
use super::exit::Exit;
use super::screen::count;
use crate::cli::screen::local_time as time;
use crate::cli::table::{self, cut, spare, whole};
use drawgate_core::registry::SourceState;
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::PackDetails;
use drawgate_runtime::packs::PackReport;

/// Columns that a description gets in a table.
const SHORT: usize = 70;
const NOT_RUNNING: &str =
    "no gateway runs here, and packs connect to a running one; `drawgate serve` starts it";

#[derive(Debug, clap::Subcommand)]
pub(super) enum PacksCommand {
    /// List packs that are connected, or disconnected a moment ago
    List,
    /// Show one pack and its tools
    Show {
        /// The pack
        name: String,
    },
    /// Disconnect a pack; its tools are removed immediately. It may connect again unless its key is
    /// removed (`drawgate keys remove`)
    Kick {
        /// The pack
        name: String,
    },
}

pub(super) async fn run(command: PacksCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn perform(
    command: PacksCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    match command {
        PacksCommand::Show { .. } | PacksCommand::Kick { .. } if !backend.is_running() => {
            Err(Exit::Unavailable.error(NOT_RUNNING))
        }
        PacksCommand::List => {
            let packs: Vec<PackReport> = backend.get("/packs").await?;
            let columns = [
                whole("pack"),
                table::state("state"),
                spare("since"),
                spare("from"),
                spare("version"),
                whole("tools"),
                spare("calls"),
                cut("key"),
            ];
            let rows: Vec<_> = packs.iter().map(row).collect();
            let empty = if backend.is_running() {
                "no packs are connected; `drawgate keys add --pack NAME KEY.pub` lets one in"
            } else {
                NOT_RUNNING
            };
            context.out.table(&packs, &columns, &rows, empty)
        }
        PacksCommand::Show { name } => {
            let shown: PackDetails = backend.get(&format!("/packs/{}", part(&name))).await?;
            context.out.either(&shown, || describe(&shown))
        }
        PacksCommand::Kick { name } => {
            backend.delete(&format!("/packs/{}", part(&name))).await?;
            context.out.either(&json!({ "kicked": name }), || format!("kicked `{name}`"))
        }
    }
}

fn row(pack: &PackReport) -> Vec<String> {
    vec![
        pack.id.clone(),
        state(pack).to_owned(),
        time(pack.since),
        pack.remote.to_string(),
        pack.version.clone(),
        pack.tools.to_string(),
        format!("{}/{}", pack.calls_under_way, pack.max_calls),
        key(pack),
    ]
}

fn describe(PackDetails { pack, tools }: &PackDetails) -> String {
    let mut lines = vec![
        format!("pack        {} {}", pack.id, pack.version),
        format!("state       {} since {}", state(pack), time(pack.since)),
        format!("key         {}", key(pack)),
        format!("connection  {} from {}", pack.connection, pack.remote),
        format!(
            "calls       {} under way, {} at most; {} dropped",
            pack.calls_under_way,
            pack.max_calls,
            count(pack.answers_dropped, "answer")
        ),
    ];
    for tool in tools {
        let first = tool.description.lines().next().unwrap_or_default();
        let short: String = first.chars().take(SHORT).collect();
        let (name, seconds) = (&tool.name, tool.timeout_ms / 1000);
        lines.push(format!("tool        {name} [{}] {seconds} s  {short}", joined(&tool.requires)));
    }
    lines.join("\n")
}

/// For people, a pack that is ready is connected.
fn state(pack: &PackReport) -> &'static str {
    match pack.state {
        SourceState::Ready => "connected",
        other => other.as_str(),
    }
}

fn key(pack: &PackReport) -> String {
    let PackReport { fingerprint, comment, .. } = pack;
    if comment.is_empty() { fingerprint.clone() } else { format!("{fingerprint} {comment}") }
}
