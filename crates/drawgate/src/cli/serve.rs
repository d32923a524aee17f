//! `drawgate serve`: the gateway, until a signal ends it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use drawgate_host::store::{DataDir, DataDirError, DataDirLock};
use drawgate_runtime::operations::Status;
use tokio::time::timeout_at;

use super::backend::is_in_use;
use super::exit::Exit;
use super::gateway::{Listening, Logs, Role, ServedGateway, Signals};
use super::progress::Progress;
use super::running::Running;
use super::screen::count;
use super::{Context, Output};
use crate::server;
use drawgate_runtime::assemble::{ADMIN_TOKEN, Runtime};

/// How often a data folder that is in use is tried again, and for how long beyond the time that calls
/// of a gateway that makes way may take.
const PAUSE: Duration = Duration::from_millis(50);
/// The same while another gateway makes way: callers find no one at its address meanwhile.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
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
    let (mut takeover, mut listening) = (Takeover::default(), None);
    loop {
        let running = takeover.running(&context.data, until).await?;
        let is_first = match running {
            Some(_) => takeover.is_ours(&context.data)?,
            None => takeover.is_free(&context.data),
        };
        // What can't be served must not end what is; but the address may be that one's own.
        if listening.is_none() && is_first {
            listening = match Listening::open(&context.loaded, context.listen).await {
                Ok(opened) => Some(opened),
                Err(_) if takeover.is_under_way() && Instant::now() < until => None,
                Err(_) if serves(running.as_ref(), context.listen) => None,
                Err(error) => return Err(error),
            };
        }
        if let Some((running, status)) = running {
            if is_first {
                takeover.ask(&running, &status).await;
            }
        } else if listening.is_some() {
            let listen = async || listening.take();
            match ServedGateway::open(context, listen, Role::Service, &logs).await {
                Err(error) if is_in_use(&error) && Instant::now() < until => {}
                opened => return opened.map(Some),
            }
        }
        if Instant::now() > until {
            bail!("{}", still_in_use(&context.data));
        }
        let is_bound = listening.is_some() || !takeover.is_under_way();
        let pause = if is_bound { PAUSE } else { SHORT_PAUSE };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = signals.next() => return Ok(None),
        }
    }
}

/// What is said when the gateway before this one does not end.
fn still_in_use(data: &Path) -> String {
    let pid = DataDir::user(data).map(|pid| format!(": process {pid}")).unwrap_or_default();
    format!("the gateway on `{}` does not end{pid}; end it, and try again", data.display())
}

/// Taking the place of a gateway that a client has started.
#[derive(Default)]
struct Takeover {
    /// The right to follow it. While this process has it, other clients do not take over.
    right: Option<DataDirLock>,
    progress: Option<Progress>,
}

impl Takeover {
    /// The gateway that runs, if one does and a client has started it.
    async fn running(
        &self,
        data: &Path,
        until: Instant,
    ) -> anyhow::Result<Option<(Running, Status)>> {
        let Some(running) = Running::find(data).await else { return Ok(None) };
        let running = running.impatient();
        match timeout_at(until.into(), running.status()).await {
            Ok(Ok(status)) if status.for_client => Ok(Some((running, status))),
            Ok(Ok(Status { pid, endpoint, .. })) => {
                let address = endpoint.unwrap_or_else(|| "no address".to_owned());
                Err(Exit::Failed.error(format!(
                    "a gateway runs already: process {pid}, at {address}; `drawgate status` shows it"
                )))
            }
            // It ends.
            Ok(Err(_)) => Ok(None),
            Err(_) => bail!("{}", still_in_use(data)),
        }
    }

    /// Whether this process is the one that follows; another one may be.
    fn is_ours(&mut self, data: &Path) -> anyhow::Result<bool> {
        if self.right.is_none() {
            match DataDir::existing(data)?.succeed() {
                Ok(right) => self.right = Some(right),
                Err(DataDirError::Locked { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Whether no other process is the one that follows.
    fn is_free(&self, data: &Path) -> bool {
        self.right.is_some() || DataDir::successor(data).is_none()
    }

    const fn is_under_way(&self) -> bool {
        self.progress.is_some()
    }

    /// Has it make way. One that does not answer any more ends already.
    async fn ask(&mut self, running: &Running, status: &Status) {
        let _ = running.make_way().await;
        let pid = status.pid;
        let text = match status.calls_under_way {
            0 => format!("taking over from `drawgate mcp`, process {pid}"),
            calls => format!(
                "taking over from `drawgate mcp`, process {pid}, when {} under way are done",
                count(calls, "call")
            ),
        };
        self.progress.get_or_insert_with(|| Progress::new(text));
    }
}

/// Whether a gateway is at this address.
fn serves(running: Option<&(Running, Status)>, address: SocketAddr) -> bool {
    let url = running.and_then(|(_, status)| status.endpoint.as_deref());
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
         connect  drawgate connect claude --write    (or claude-desktop, codex, gemini, cursor, vscode, windsurf)\n\
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
