//! Other gateways of MCP that are on `PATH`, called in the same way, so that a comparison can be
//! repeated. They do what their defaults say, which is less than Drawgate does; one that is not there, or
//! does not serve, is left out, and the table says so.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::children::{Load, Server};
use super::extras::Named;
use super::gateway::{first_list, free_address};
use super::{CONCURRENCIES, Plan};
use crate::load::Target;

/// How long one may take until it lists the server's tools.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// A gateway and how it is started. `{port}` is where it is to listen, `{url}` the MCP server's address,
/// `{bench}` this program, and `{config}` a file with `config`.
struct Peer {
    program: &'static str,
    arguments: &'static [&'static str],
    config: &'static str,
}

const PEERS: [Peer; 2] = [
    Peer {
        program: "agentgateway",
        arguments: &["--file", "{config}"],
        config: "binds:\n- port: {port}\n  listeners:\n  - routes:\n    - backends:\n      - mcp:\n          \
                 targets:\n          - name: up\n            mcp:\n              host: {url}\n",
    },
    // In front of the same server over stdio, the only kind that it offers over HTTP.
    Peer {
        program: "mcp-proxy",
        arguments: &["--port", "{port}", "--", "{bench}", "upstream", "--stdio"],
        config: "",
    },
];

/// What was measured of them, and why some were not.
#[derive(Serialize)]
pub(crate) struct Peers {
    pub(crate) rows: Vec<Named>,
    pub(crate) left_out: Vec<String>,
}

/// Measures all that are there.
pub(crate) async fn measure(upstream: &Server, plan: Plan) -> Result<Peers> {
    let mut peers = Peers { rows: Vec::new(), left_out: Vec::new() };
    for peer in &PEERS {
        eprintln!("{}", peer.program);
        match of(peer, upstream, plan).await {
            Ok(rows) => peers.rows.extend(rows),
            Err(error) => peers.left_out.push(format!("{} is left out: {error:#}", peer.program)),
        }
    }
    Ok(peers)
}

async fn of(peer: &Peer, upstream: &Server, plan: Plan) -> Result<Vec<Named>> {
    let program = on_path(peer.program).context("it is not on `PATH`")?;
    let folder = TempDir::with_prefix("drawgate-bench-")?;
    let address = free_address()?;
    let (_, port) = address.rsplit_once(':').context("an address without a port")?;
    let config = folder.path().join("config.yaml");
    let bench = std::env::current_exe()?;
    let url = format!("http://{}/mcp", upstream.address());
    let filled = |text: &str| {
        let config = config.to_string_lossy();
        text.replace("{port}", port)
            .replace("{url}", &url)
            .replace("{bench}", &bench.to_string_lossy())
            .replace("{config}", &config)
    };
    std::fs::write(&config, filled(peer.config))?;
    let mut command = Command::new(program);
    command.args(peer.arguments.iter().map(|argument| filled(argument)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let target = Target { to: address.clone(), token: None };
    until_it_lists(&mut child, &target).await?;
    let mut rows = Vec::new();
    for clients in CONCURRENCIES {
        let watch = child.id();
        let load =
            Load { target: &target, clients, milliseconds: plan.milliseconds, list: None, watch };
        rows.push(Named { name: peer.program, clients, measured: load.run().await? });
    }
    Ok(rows)
}

async fn until_it_lists(child: &mut Child, target: &Target) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tried = tokio::time::timeout_at(deadline, first_list(target)).await;
        let Err(error) = tried.map_err(Into::into).flatten() else { return Ok(()) };
        if let Some(status) = child.try_wait()? {
            bail!("it ended with {status}");
        }
        if Instant::now() >= deadline {
            return Err(error.context("it does not list the server's tools"));
        }
        sleep(PAUSE).await;
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
