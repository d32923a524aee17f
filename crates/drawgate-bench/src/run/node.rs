//! A gateway inside a Node program: what a call costs there and over MCP on loopback, with the program's own
//! part of the work in both, and how long calls hold up the program's event loop.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::Plan;
use super::children::Server;
use super::gateway::{self, Gateway, Program};
use super::table::{Table, figure};

/// What the program does.
const SCRIPT: &str = include_str!("node.mjs");
/// The package, in the checkout that this program was built in.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../drawgate-node/npm/index.mjs");
/// Calls at a time.
const CLIENTS: usize = 16;
/// Calls a second, for the delay of the event loop.
const RATE: u32 = 5000;
/// How long the program may take beyond its load.
const PATIENCE: Duration = Duration::from_mins(1);

/// What was measured, or why nothing was.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Node {
    Measured { rows: Vec<Row> },
    Skipped { skipped: String },
}

/// One way to call.
#[derive(Serialize)]
pub(crate) struct Row {
    name: &'static str,
    #[serde(flatten)]
    run: Run,
}

#[derive(Serialize, Deserialize)]
struct Run {
    calls: u64,
    seconds: f64,
    /// Processor time of program and gateway for a call, without the server behind.
    cpu_us: f64,
    delay_p50_ms: f64,
    delay_p99_ms: f64,
}

const IN_PROCESS: &str = "in process, upstream over HTTP";
const OVER_MCP: &str = "over MCP, upstream over HTTP";

impl Node {
    pub(super) fn text(&self) -> String {
        let rows = match self {
            Self::Measured { rows } => rows,
            Self::Skipped { skipped } => return format!("a Node program: skipped, {skipped}\n\n"),
        };
        let head = ["path", "calls/s", "CPU µs/call", "x MCP's", "loop p50 ms", "loop p99 ms"];
        let mut table = Table::new("tools/call echo by a Node program", &head);
        let over_mcp = self.cpu_of(OVER_MCP).unwrap_or(f64::NAN);
        for Row { name, run } in rows {
            table.row([
                (*name).to_owned(),
                figure(run.rate()),
                figure(run.cpu_us),
                figure(run.cpu_us / over_mcp),
                figure(run.delay_p50_ms),
                figure(run.delay_p99_ms),
            ]);
        }
        table.text()
    }

    /// Processor time of a call in process, in units of the same call over MCP.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.cpu_of(IN_PROCESS)? / self.cpu_of(OVER_MCP)?)
    }

    fn cpu_of(&self, name: &str) -> Option<f64> {
        let Self::Measured { rows } = self else { return None };
        rows.iter().find(|row| row.name == name).map(|row| row.run.cpu_us)
    }
}

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "nobody makes that many calls")]
    fn rate(&self) -> f64 {
        self.calls as f64 / self.seconds
    }
}

/// Measures all ways in turn, unless Node or the library is missing.
pub(crate) async fn measure(program: &Program, upstream: &Server, plan: Plan) -> Result<Node> {
    let library = program.path().with_file_name("libdrawgate_node.so");
    if !library.is_file() {
        let skipped = format!("because there is no `{}`; build `drawgate-node`", library.display());
        return Ok(Node::Skipped { skipped });
    }
    let version = Command::new("node").arg("--version").output().await;
    if !version.is_ok_and(|output| output.status.success()) {
        return Ok(Node::Skipped { skipped: "because there is no `node` to run it".to_owned() });
    }
    eprintln!("a gateway inside a Node program");
    let script = Script::new(library, plan)?;
    let gateway = Gateway::start(program, &gateway::http_server(upstream.address())).await?;
    let ways = [
        (OVER_MCP, over_mcp(&gateway)?),
        (IN_PROCESS, json!({ "way": "program", "upstream": upstream.address() })),
        ("in process, a function", json!({ "way": "function" })),
        ("in process, a function, 5000/s", json!({ "way": "paced" })),
    ];
    let mut runs: [Vec<Run>; 4] = Default::default();
    for _ in 0..plan.rounds {
        for ((_, arguments), runs) in ways.iter().zip(&mut runs) {
            runs.push(script.run(arguments.clone()).await?);
        }
    }
    let rows = ways.iter().zip(runs);
    let rows = rows.filter_map(|((name, _), runs)| Some(Row { name, run: median(runs)? }));
    let rows = rows.collect();
    gateway.stop().await?;
    Ok(Node::Measured { rows })
}

/// The run whose calls cost neither most nor least.
fn median(mut runs: Vec<Run>) -> Option<Run> {
    runs.sort_by(|one, other| one.cpu_us.total_cmp(&other.cpu_us));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}

fn over_mcp(gateway: &Gateway) -> Result<Value> {
    let target = gateway.target();
    Ok(json!({ "way": "mcp", "target": target.to, "token": target.token, "watch": gateway.pid()? }))
}

/// The program, in a folder of its own.
struct Script {
    folder: TempDir,
    library: PathBuf,
    milliseconds: u64,
}

impl Script {
    fn new(library: PathBuf, plan: Plan) -> Result<Self> {
        let folder = TempDir::with_prefix("drawgate-bench-")?;
        std::fs::write(folder.path().join("load.mjs"), SCRIPT)?;
        Ok(Self { folder, library, milliseconds: plan.milliseconds })
    }

    /// Runs it once, on a data folder of its own.
    async fn run(&self, mut arguments: Value) -> Result<Run> {
        let data = TempDir::with_prefix_in("data-", self.folder.path())?;
        arguments["folder"] = json!(data.path().join("data"));
        arguments["gateway"] = json!(Path::new(PACKAGE).canonicalize()?);
        arguments["clients"] = json!(CLIENTS);
        arguments["rate"] = json!(RATE);
        arguments["milliseconds"] = json!(self.milliseconds);
        let mut command = Command::new("node");
        command.arg(self.folder.path().join("load.mjs")).arg(arguments.to_string());
        command.env("DRAWGATE_NATIVE_PATH", &self.library).stdin(Stdio::null()).kill_on_drop(true);
        let limit = Duration::from_millis(self.milliseconds) + PATIENCE;
        let output = tokio::time::timeout(limit, command.output());
        let output = output.await.context("the Node program did not end")??;
        if !output.status.success() {
            bail!("the Node program failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
