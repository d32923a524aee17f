//! `drawgate packs`: programs that have dialled in and offer tools.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::Context;
use super::agents::{list, text};
use super::backend::{Backend, part};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::time::shown as time;

/// Columns that a description gets in a table.
const SHORT: usize = 70;
const NOT_RUNNING: &str =
    "no gateway runs here, and packs connect to a running one; `drawgate serve` starts it";

#[derive(Debug, clap::Subcommand)]
pub(super) enum PacksCommand {
    /// List the packs that are connected, or gone for a moment
    List,
    /// Show one pack and its tools
    Show {
        /// The pack
        name: String,
    },
    /// End a pack's connection; its tools go at once. It may dial again as long as its key counts
    /// (`drawgate keys remove` ends that)
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
            bail!(NOT_RUNNING)
        }
        PacksCommand::List => {
            let packs: Vec<Value> = backend.get("/packs").await?;
            let header = ["pack", "state", "since", "from", "version", "tools", "calls", "key"];
            let empty = if backend.is_running() {
                "no packs are connected; `drawgate keys add --pack NAME KEY.pub` lets one in"
            } else {
                NOT_RUNNING
            };
            context.out.table(&packs, &header, packs.iter().map(row).collect(), empty)
        }
        PacksCommand::Show { name } => {
            let shown: Value = backend.get(&format!("/packs/{}", part(&name))).await?;
            context.out.either(&shown, || describe(&shown))
        }
        PacksCommand::Kick { name } => {
            backend.delete(&format!("/packs/{}", part(&name))).await?;
            context.out.either(&json!({ "kicked": name }), || format!("kicked `{name}`"))
        }
    }
}

fn row(pack: &Value) -> Vec<String> {
    vec![
        text(pack, "id"),
        state(pack),
        time(pack["since"].as_u64().unwrap_or(0)),
        text(pack, "remote"),
        text(pack, "version"),
        number(pack, "tools"),
        format!("{}/{}", number(pack, "callsUnderWay"), number(pack, "maxCalls")),
        key(pack),
    ]
}

fn describe(shown: &Value) -> String {
    let pack = &shown["pack"];
    let mut lines = vec![
        format!("pack        {} {}", text(pack, "id"), text(pack, "version")),
        format!("state       {} since {}", state(pack), time(pack["since"].as_u64().unwrap_or(0))),
        format!("key         {}", key(pack)),
        format!("connection  {} from {}", text(pack, "connection"), text(pack, "remote")),
        format!(
            "calls       {} under way, {} at most; {} answers dropped",
            number(pack, "callsUnderWay"),
            number(pack, "maxCalls"),
            number(pack, "answersDropped")
        ),
    ];
    for tool in shown["tools"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let description = text(tool, "description");
        let first = description.lines().next().unwrap_or_default();
        let short: String = first.chars().take(SHORT).collect();
        let seconds = tool["timeoutMs"].as_u64().unwrap_or(0) / 1000;
        let name = text(tool, "name");
        lines.push(format!("tool        {name} [{}] {seconds} s  {short}", list(tool, "requires")));
    }
    lines.join("\n")
}

/// For people, a pack that is ready is connected.
fn state(pack: &Value) -> String {
    match pack["state"].as_str() {
        Some("ready") => "connected".to_owned(),
        _ => text(pack, "state"),
    }
}

fn key(pack: &Value) -> String {
    let (fingerprint, comment) = (text(pack, "fingerprint"), text(pack, "comment"));
    if comment.is_empty() { fingerprint } else { format!("{fingerprint} {comment}") }
}

fn number(value: &Value, key: &str) -> String {
    value[key].as_u64().unwrap_or(0).to_string()
}
