//! `drawgate serve`: the gateway, until a signal ends it.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::backend::is_in_use;
use super::exit::Exit;
use super::gateway::{Listening, Logs, Role, ServedGateway, Signals};
use super::progress::Progress;
use super::running::{MakesWay, Running};
use super::{Context, Output};
use crate::server;
use drawgate_runtime::assemble::{ADMIN_TOKEN, Runtime};

/// How often a data folder that is in use is tried again, and for how long beyond the time that calls
/// of a gateway that makes way may take.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Listen beyond this machine without TLS: tokens and results can be read on the way
    #[arg(long)]
    insecure: bool,
}

pub(super) async fn run(args: &ServeArgs, context: Context) -> anyhow::Result<ExitCode> {
    let config = &context.whole()?.config;
    if config.server.tls.is_none() && !server::is_private(context.listen) && !args.insecure {
        bail!(
            "`{}` is reachable from other machines; set `[server.tls]`, or say `--insecure` if something in front of it encrypts",
            context.listen
        );
    }
    // Before anything that must be ended in order: a signal at the default would just kill.
    let mut signals = Signals::new()?;
    let drain = Duration::from_secs(config.server.drain_seconds);
    let Some(gateway) = open(&context, drain, &mut signals).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    report_start(&context, &gateway).await?;
    signals.next().await;
    gateway.drain(drain, &mut signals).await;
    report_stop(context.out, &gateway.runtime);
    Ok(ExitCode::SUCCESS)
}

/// Opens the gateway. One that a client has started makes way; a command that has the folder for a
/// moment is waited for, unless a signal comes.
async fn open(
    context: &Context,
    drain: Duration,
    signals: &mut Signals,
) -> anyhow::Result<Option<ServedGateway>> {
    let logs = Logs::begin(context)?;
    let until = Instant::now() + drain + PATIENCE;
    let (mut waiting, mut listening) = (None, None);
    loop {
        let running = Running::find(&context.data).await;
        // What can't be served must not end what is; but the address may be that one's own.
        if listening.is_none() {
            listening = match Listening::open(&context.loaded, context.listen).await {
                Ok(opened) => Some(opened),
                Err(_) if waiting.is_some() && Instant::now() < until => None,
                Err(_) if serves(running.as_ref(), context.listen).await => None,
                Err(error) => return Err(error),
            };
        }
        if let Some(running) = running {
            match running.make_way().await? {
                MakesWay::Yes { pid } => {
                    waiting.get_or_insert_with(|| {
                        Progress::new(format!("taking over from `drawgate mcp`, process {pid}"))
                    });
                }
                MakesWay::No { pid, address } => {
                    return Err(Exit::Failed.error(format!(
                        "a gateway runs already: process {pid}, at {address}; `drawgate status` shows it"
                    )));
                }
            }
        } else if listening.is_some() {
            let listen = async || listening.take();
            match ServedGateway::open(context, listen, Role::Service, &logs).await {
                Err(error) if is_in_use(&error) && Instant::now() < until => {}
                opened => return opened.map(Some),
            }
        }
        if Instant::now() > until {
            bail!("the gateway on `{}` does not end", context.data.display());
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = signals.next() => return Ok(None),
        }
    }
}

/// Whether a gateway is at this address.
async fn serves(running: Option<&Running>, address: SocketAddr) -> bool {
    let Some(running) = running else { return false };
    let status = running.status().await.ok();
    let url = status.and_then(|status| status.endpoint);
    url.is_some_and(|url| url.contains(&format!("//{address}/")))
}

/// Says that the gateway is up, where it is, and what to do next.
async fn report_start(context: &Context, gateway: &ServedGateway) -> anyhow::Result<()> {
    let (out, data, runtime) = (context.out, &context.data, &gateway.runtime);
    let (url, dial) = (gateway.url.as_deref().unwrap_or_default(), gateway.grpc_origin.as_deref());
    let token = data.join(ADMIN_TOKEN);
    let (head, loss) = (runtime.audit().signed_head(), runtime.audit().reader().loss().await?);
    let report = serde_json::json!({
        "endpoint": url,
        "grpc": dial,
        "token": token,
        "pid": std::process::id(),
        "auditHead": { "sequence": head.sequence, "hash": head.hash },
        "auditLoss": loss,
    });
    if out.is_json() {
        return out.raw(format!("{report}\n").as_bytes());
    }
    let packs = dial.map_or_else(String::new, |dial| {
        format!(
            "packs    dial {dial}, over gRPC; so do agents\n\
             \x20        drawgate keys add --pack NAME KEY.pub\n"
        )
    });
    let loss = loss.map_or_else(String::new, |loss| {
        format!("WARNING  {loss}\n         run `drawgate audit verify`\n")
    });
    out.text(&format!(
        "{loss}Drawgate serves MCP at {url}\n\
         token    in {}\n\
         tools    drawgate tools list\n\
         connect  drawgate connect claude --write    (or codex, gemini, cursor, vscode, windsurf)\n\
         {packs}\
         audit    head {}:{}\n\
         stop     Ctrl-C",
        token.display(),
        head.sequence,
        head.hash
    ))
}

/// The last head, for those who keep heads elsewhere. The reader of standard output may be gone.
fn report_stop(out: Output, runtime: &Runtime) {
    let head = runtime.audit().signed_head();
    let line = if out.is_json() {
        let head = serde_json::json!({ "sequence": head.sequence, "hash": head.hash });
        serde_json::json!({ "stopped": true, "auditHead": head }).to_string()
    } else {
        format!("Drawgate has stopped; audit head {}:{}", head.sequence, head.hash)
    };
    drop(out.raw(format!("{line}\n").as_bytes()));
}
