//! `drawgate servers`: what stands behind the gateway.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::Context;
use super::agents::text;
use super::backend::Backend;
use crate::assemble::Start;

/// How long a diagnosis may take: longer than a server may take to start by default.
const DIAGNOSIS: Duration = Duration::from_secs(35);

#[derive(Debug, clap::Subcommand)]
pub(super) enum ServersCommand {
    /// List sources of tools and their state
    List,
    /// Explain each server's state, and what to do; exits 1 if one does not work
    Doctor {
        /// This server only
        name: Option<String>,
    },
}

pub(super) async fn run(command: &ServersCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Sources).await?;
    if matches!(command, ServersCommand::Doctor { .. }) {
        // A server that is still starting can't be explained yet.
        backend.settle(DIAGNOSIS).await;
    }
    let servers = backend.get::<Vec<Value>>("/servers").await;
    backend.close().await;
    let mut servers = servers?;
    match command {
        ServersCommand::List => {
            let rows = servers.iter().map(|server| {
                let tools = server["tools"].as_u64().unwrap_or(0).to_string();
                vec![
                    text(server, "id"),
                    text(server, "state"),
                    tools,
                    text(server, "server"),
                    text(server, "problem"),
                ]
            });
            let header = ["id", "state", "tools", "server", "problem"];
            let empty = "no servers; add `[servers.NAME]` to drawgate.toml";
            context.out.table(&servers, &header, rows.collect(), empty)?;
            Ok(ExitCode::SUCCESS)
        }
        ServersCommand::Doctor { name } => {
            if let Some(name) = name {
                servers.retain(|server| server["id"] == name.as_str());
                anyhow::ensure!(
                    !servers.is_empty(),
                    "there is no server `{name}`; `drawgate servers list` shows them"
                );
            }
            let well = servers.iter().all(|server| server["state"] == "ready");
            context
                .out
                .either(&servers, || servers.iter().map(explain).collect::<Vec<_>>().join("\n"))?;
            Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn explain(server: &Value) -> String {
    let mut lines = vec![match server["state"].as_str() {
        Some("ready") => format!(
            "{}: ready, {} tools, {}",
            text(server, "id"),
            server["tools"],
            text(server, "server")
        ),
        Some("starting") => format!("{}: starting; it has not answered yet", text(server, "id")),
        Some("failed") => format!(
            "{}: failed, and is tried again: {}",
            text(server, "id"),
            text(server, "problem")
        ),
        _ => format!(
            "{}: can't be used until the configuration changes: {}",
            text(server, "id"),
            text(server, "problem")
        ),
    }];
    for tool in server["leftOut"].as_array().map(Vec::as_slice).unwrap_or_default() {
        lines.push(format!("  left out: `{}`: {}", text(tool, "tool"), text(tool, "reason")));
    }
    let diagnostics = &server["diagnostics"];
    if let Some(restarts) = diagnostics["restarts"].as_u64().filter(|restarts| *restarts > 0) {
        lines.push(format!("  restarted {restarts} times"));
    }
    let last_words = diagnostics["stderrTail"].as_array().map(Vec::as_slice).unwrap_or_default();
    if server["state"] != "ready" && !last_words.is_empty() {
        lines.push("  its last words on standard error:".to_owned());
        lines.extend(last_words.iter().filter_map(Value::as_str).map(|line| format!("    {line}")));
    }
    lines.join("\n")
}
