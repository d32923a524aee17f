//! Agents that the gateway runs: what a turn costs beside a bare round trip to the same provider, and
//! what a run takes in memory while it waits.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::children::Server;
use super::gateway::{Folder, Gateway, Program};
use super::table::{Table, figure};
use crate::models::TURNS;
use crate::process_stat;

/// Runs at once.
const RUNS: u32 = 200;
/// How long all of them may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// Time between two looks, each of which costs the gateway something.
const PAUSE: Duration = Duration::from_millis(250);

const PROFILE: &str =
    "---\nname: bench\ndescription: For measuring\ntools: [vfs_list]\n---\nList files.\n";

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Agents {
    runs: u32,
    turns: u32,
    /// Until the last of the runs had ended
    seconds: f64,
    turns_per_second: f64,
    /// Processor time of the gateway for a turn: a request to the model, and mostly a call of a tool
    cpu_us: f64,
    /// Processor time of a client that only sends the same request and reads the answer
    bare_cpu_us: f64,
    /// Resident memory of the gateway that a run takes which waits for its model
    idle_kib: f64,
}

impl Agents {
    pub(super) fn text(&self) -> String {
        let title = format!("{} agents at once, {} turns each", self.runs, self.turns);
        let head = ["path", "turns/s", "CPU µs/turn", "x bare", "KiB/idle run"];
        let mut table = Table::new(&title, &head);
        table.row([
            "bare round trip to the provider".to_owned(),
            "-".to_owned(),
            figure(self.bare_cpu_us),
            "1".to_owned(),
            "-".to_owned(),
        ]);
        table.row([
            "run by the gateway".to_owned(),
            format!("{:.0}", self.turns_per_second),
            figure(self.cpu_us),
            figure(self.cpu_us / self.bare_cpu_us),
            figure(self.idle_kib),
        ]);
        table.text()
    }
}

/// Measures both, each on a gateway of its own.
pub(crate) async fn measure(program: &Program) -> Result<Agents> {
    let provider = Server::start(&["models"]).await?;
    eprintln!("agents, {RUNS} at once, {TURNS} turns each");
    let gateway = start(program, provider.address()).await?;
    let control = Control(gateway.control_socket());
    let before = process_stat::cpu_time(gateway.pid()?)?;
    let begin = Instant::now();
    control.start_runs("look around").await?;
    control.wait_for(|run| run.phase == "ended").await?;
    let seconds = begin.elapsed().as_secs_f64();
    let spent = process_stat::cpu_time(gateway.pid()?)?.saturating_sub(before);
    let runs = control.runs().await?;
    ensure!(runs.iter().all(|run| run.ending.as_deref() == Some("done")), "a run failed");
    gateway.stop().await?;
    let turns = f64::from(RUNS * TURNS);
    Ok(Agents {
        runs: RUNS,
        turns: TURNS,
        seconds,
        turns_per_second: turns / seconds,
        cpu_us: spent.as_secs_f64() * 1e6 / turns,
        bare_cpu_us: bare(provider.address()).await?,
        idle_kib: idle(program, provider.address()).await?,
    })
}

async fn start(program: &Program, provider: &str) -> Result<Gateway> {
    let folder = Folder::new(Some(&format!(
        "[providers.bench]\nkind = \"anthropic\"\nurl = \"http://{provider}\"\nconcurrency = {RUNS}\n\
         [models]\ndefault = \"bench/any\"\n"
    )))?;
    folder.write("agents/bench.md", PROFILE)?;
    let accepted = program.output(&folder, &["profiles", "accept", "--all", "--yes"]).await?;
    ensure!(accepted.status.success(), "the profile was not accepted: {accepted:?}");
    Gateway::start_in(program, folder).await
}

/// Memory of runs whose model does not answer.
async fn idle(program: &Program, provider: &str) -> Result<f64> {
    let gateway = start(program, provider).await?;
    let control = Control(gateway.control_socket());
    let before = process_stat::resident_kib(gateway.pid()?)?;
    control.start_runs("idle").await?;
    control.wait_for(|run| run.phase == "thinking").await?;
    let after = process_stat::resident_kib(gateway.pid()?)?;
    let grown = u32::try_from(after.saturating_sub(before))?;
    Ok(f64::from(grown) / f64::from(RUNS))
}

/// Processor time of this process for a request to the provider, of the size of a first turn.
async fn bare(provider: &str) -> Result<f64> {
    let body = Bytes::from(
        json!({
            "model": "any",
            "max_tokens": 8000,
            "stream": true,
            "system": "List files.",
            "messages": [{ "role": "user", "content": "look around" }],
            "tools": [{ "name": "vfs_list", "description": "Lists files.", "input_schema": { "type": "object" } }],
        })
        .to_string(),
    );
    let pid = std::process::id();
    let before = process_stat::cpu_time(pid)?;
    let mut tasks = JoinSet::new();
    for _ in 0..RUNS {
        let (provider, body) = (provider.to_owned(), body.clone());
        tasks.spawn(async move {
            let stream = TcpStream::connect(&provider).await?;
            stream.set_nodelay(true)?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            for _ in 0..TURNS {
                let request = Request::post("/v1/messages")
                    .header(header::HOST, &provider)
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Full::new(body.clone()))?;
                sender.send_request(request).await?.into_body().collect().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let spent = process_stat::cpu_time(pid)?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / f64::from(RUNS * TURNS))
}

/// The gateway's control socket.
struct Control(PathBuf);

#[derive(Deserialize)]
struct Run {
    phase: String,
    ending: Option<String>,
}

impl Control {
    async fn start_runs(&self, prompt: &str) -> Result<()> {
        let start = json!({ "profile": "bench", "prompt": prompt });
        for _ in 0..RUNS {
            let started: Value = self.send("POST", "/runs", start.to_string()).await?;
            ensure!(started["id"].is_string(), "a run did not start: {started}");
        }
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<Run>> {
        self.send("GET", "/runs", String::new()).await
    }

    async fn wait_for(&self, is_so: impl Fn(&Run) -> bool) -> Result<()> {
        let all = async {
            loop {
                let runs = self.runs().await?;
                if runs.len() == RUNS as usize && runs.iter().all(&is_so) {
                    return anyhow::Ok(());
                }
                sleep(PAUSE).await;
            }
        };
        timeout(PATIENCE, all).await.context("the runs take too long")?
    }

    async fn send<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<T> {
        let stream = UnixStream::connect(&self.0).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&answer)
            .with_context(|| format!("{path}: {}", String::from_utf8_lossy(&answer)))
    }
}
