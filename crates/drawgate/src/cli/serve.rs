//! `drawgate serve`: the gateway, until a signal ends it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use drawgate_core::redact::Redactor;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::TlsAcceptor;

use super::backend::control;
use super::machine::runtime_options;
use super::{Context, Output};
use crate::server::{self, Endpoint, HttpVersions, Server};
use crate::surface::approvals::{self, Pages};
use crate::surface::control::SOCKET;
use crate::surface::grpc::{Grpc, GrpcParts};
use crate::surface::guard::Guard;
use crate::surface::mcp::tasks::FORMAT;
use crate::surface::mcp::{Mcp, Sessions};
use crate::surface::ops::Ops;
use crate::surface::programs::ProgramSurface;
use crate::telemetry::{self, Exporter, RunTelemetry, Spans};
use drawgate_runtime::assemble::{ADMIN_TOKEN, Runtime, Start};
use drawgate_runtime::callers::OAuth;
use drawgate_runtime::config::{Config, Loaded};
use drawgate_runtime::edits::Edits;
use drawgate_runtime::refusals::RefusalLimiter;

/// How often idle sessions are looked for.
const SWEEP_PAUSE: Duration = Duration::from_secs(30);
/// How often samples are folded into the metrics.
const METRICS_PAUSE: Duration = Duration::from_secs(2);
/// A gateway counts as ready when its sources have been tried, or after this.
const READY_TIME: Duration = Duration::from_millis(1500);
/// How long calls that were ended get to be answered.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long they get to be written down, once connections are cut.
const LAST_LINES: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Listen beyond this machine without TLS: tokens and results can be read on the way
    #[arg(long)]
    insecure: bool,
}

pub(super) async fn run(args: &ServeArgs, context: Context) -> anyhow::Result<ExitCode> {
    let config = &context.whole()?.config;
    // Before anything that must be ended in order: a signal at the default would just kill.
    let mut signals = Signals::new()?;
    let (listener, tls) = listen(args, &context).await?;
    let address = listener.local_addr()?;
    let metrics = telemetry::init_metrics();
    let redactor = Arc::new(ArcSwap::from_pointee(Redactor::new([])));
    telemetry::init_logs(config.telemetry.log, config.telemetry.log_format, Arc::clone(&redactor));
    let options = runtime_options(&context.loaded, &context.data, Start::Sources, redactor)?;
    let runtime = Arc::new(Runtime::open(options).await?);
    let spans = spans(&runtime, &context.loaded)?;
    runtime.operations.agents.runs.observe(Arc::new(RunTelemetry::new(spans.clone())));
    let mcp = mcp(&runtime, config, spans.clone()).await?;
    let server = Server::new(config.server.max_connections);
    let ready = Arc::new(AtomicBool::new(false));
    let own = &config.server;
    // The pages that are served to a browser send their forms back here.
    let origins: Vec<String> = own.allowed_origins.iter().chain(&own.public_url).cloned().collect();
    let guard = Arc::new(Guard::new(address, &own.allowed_hosts, &origins));
    let endpoint = Endpoint {
        grpc: grpc(&runtime, config, &guard, &server, spans)?,
        guard,
        callers: Arc::clone(&runtime.operations.callers),
        mcp: mcp.clone(),
        pages: Pages::new(Arc::clone(&runtime.operations)),
        ops: Ops {
            gateway: runtime.gateway().clone(),
            runs: runtime.operations.agents.runs.clone(),
            supervisor: Arc::clone(runtime.supervisor()),
            audit: Arc::clone(runtime.audit()),
            edits: Arc::clone(&runtime.edits),
            ready: Arc::clone(&ready),
            metrics: metrics.clone(),
            mcp: mcp.clone(),
        },
        refusals: RefusalLimiter::default(),
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (origin, url) = (format!("{scheme}://{address}"), format!("{scheme}://{address}/mcp"));
    if let Some(auth) = config.auth.clone() {
        let origin = own.public_url.as_ref().unwrap_or(&origin);
        endpoint.callers.trust(OAuth::new(auth, origin, Arc::clone(&runtime.host)));
    }
    runtime.serve_pages(approval_pages_url(own.public_url.as_deref(), scheme, address));
    open_control(&runtime, &server, &mcp, &url)?;
    tokio::spawn(server.clone().serve_tcp(listener, tls, endpoint));
    tokio::spawn(set_ready_when_settled(Arc::clone(&runtime), Arc::clone(&ready)));
    tokio::spawn(sweep_sessions(mcp.clone()));
    on_hangup(&runtime.edits)?;
    runtime.start_upkeep();
    if let Some(metrics) = metrics {
        tokio::spawn(fold_metrics(metrics));
    }
    report_start(&context, &runtime, &url, config.grpc.enabled.then_some(&*origin)).await?;
    signals.next().await;
    ready.store(false, Ordering::Relaxed);
    let grace = Duration::from_secs(own.drain_seconds);
    drain(&runtime, &server, &mcp, grace, &mut signals).await;
    report_stop(context.out, &runtime);
    Ok(ExitCode::SUCCESS)
}

/// Opens the endpoint, which must be private or encrypted unless the operator says otherwise.
async fn listen(
    args: &ServeArgs,
    context: &Context,
) -> anyhow::Result<(TcpListener, Option<TlsAcceptor>)> {
    let loaded = &context.loaded;
    let tls = match &loaded.config.server.tls {
        Some(tls) => {
            let versions = if loaded.config.grpc.enabled {
                HttpVersions::Http1AndHttp2
            } else {
                HttpVersions::Http1
            };
            Some(server::tls(&loaded.resolve(&tls.cert), &loaded.resolve(&tls.key), versions)?)
        }
        None => None,
    };
    if tls.is_none() && !server::is_private(context.listen) && !args.insecure {
        bail!(
            "`{}` is reachable from other machines; set `[server.tls]`, or say `--insecure` if something in front of it encrypts",
            context.listen
        );
    }
    let listener = TcpListener::bind(context.listen).await;
    Ok((listener.map_err(|error| not_bound(context.listen, error))?, tls))
}

fn not_bound(address: SocketAddr, error: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind;
    let step = match error.kind() {
        ErrorKind::AddrInUse => {
            "; another program has it, perhaps a gateway: stop that, or choose another port with `--listen`"
        }
        ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: choose one of its own with `--listen`"
        }
        ErrorKind::PermissionDenied => {
            "; ports below 1024 are not for everybody: choose another with `--listen`"
        }
        _ => "",
    };
    anyhow::Error::new(error).context(format!("`{address}` can't be listened on{step}"))
}

/// Where a person's browser finds the pages of approvals.
fn approval_pages_url(public_url: Option<&str>, scheme: &str, mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        let loopback: IpAddr =
            if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    match public_url {
        Some(url) => format!("{}{}", url.trim_end_matches('/'), approvals::PATH),
        None => format!("{scheme}://{address}{}", approvals::PATH),
    }
}

async fn mcp(runtime: &Runtime, config: &Config, spans: Spans) -> anyhow::Result<Mcp> {
    let host = &runtime.host;
    let idle_ms = config.server.session_idle_seconds.saturating_mul(1000);
    let sessions = Sessions::new(
        config.server.max_sessions,
        idle_ms,
        Arc::clone(&host.clock),
        Arc::clone(&host.ids),
    )
    .resumable(Duration::from_secs(config.server.resume_seconds));
    let mcp = Mcp::new(runtime.gateway().clone(), sessions, spans, config.server.max_body_bytes);
    let mcp = mcp.with_runs(runtime.operations.agents.runs.clone());
    Ok(mcp.with_tasks(runtime.open_tasks(FORMAT).await?))
}

/// The gRPC surface for packs and agents, unless it is disabled.
fn grpc(
    runtime: &Runtime,
    config: &Config,
    guard: &Arc<Guard>,
    server: &Server,
    spans: Spans,
) -> anyhow::Result<Option<Arc<Grpc>>> {
    if !config.grpc.enabled {
        return Ok(None);
    }
    let operations = &runtime.operations;
    let parts = GrpcParts {
        authenticator: Arc::clone(&operations.authenticator),
        guard: Arc::clone(guard),
        gateway: operations.gateway.clone(),
        packs: Arc::clone(&operations.packs),
        spans,
    };
    Grpc::new(parts, &config.grpc, &server.stop).map(Some)
}

fn spans(runtime: &Runtime, loaded: &Loaded) -> anyhow::Result<Spans> {
    let config = &loaded.config;
    let Some(endpoint) = &config.telemetry.otlp_endpoint else { return Ok(Spans::default()) };
    let mut headers = http::HeaderMap::new();
    for (name, value) in &config.telemetry.headers {
        let value = runtime.host.secrets.resolve(value.expose())?;
        let mut value = http::HeaderValue::from_str(value.expose())
            .with_context(|| format!("`telemetry.headers.{name}` is not a valid header value"))?;
        value.set_sensitive(true);
        headers.insert(http::HeaderName::try_from(name.as_str())?, value);
    }
    let exporter = Exporter {
        endpoint: endpoint.clone(),
        headers,
        service: config.telemetry.service_name.clone(),
    };
    Ok(exporter.start(&runtime.host))
}

/// Serves the programs that do the work of runs.
fn serve_programs(runtime: &Runtime, server: &Server, mcp: &Mcp) {
    let runs = &runtime.operations.agents.runs;
    let surface = ProgramSurface::new(server, runtime.gateway(), mcp, runs);
    runs.serve_programs(Arc::new(surface));
}

/// Opens the ways to this gateway that every one has: the socket for commands, and that of programs.
pub(super) fn open_control(
    runtime: &Runtime,
    server: &Server,
    mcp: &Mcp,
    url: &str,
) -> anyhow::Result<()> {
    serve_programs(runtime, server, mcp);
    let path = runtime.data.join(SOCKET);
    let listener = server::bind_unix(&path);
    let listener = listener.with_context(|| format!("control socket `{}`", path.display()))?;
    let router = control(runtime, Some((mcp.clone(), url.to_owned()))).router();
    tokio::spawn(server.clone().serve_unix(listener, router));
    Ok(())
}

async fn set_ready_when_settled(runtime: Arc<Runtime>, ready: Arc<AtomicBool>) {
    runtime.supervisor().settle(READY_TIME).await;
    ready.store(true, Ordering::Relaxed);
}

/// Forgets idle sessions from time to time.
pub(super) async fn sweep_sessions(mcp: Mcp) {
    loop {
        tokio::time::sleep(SWEEP_PAUSE).await;
        mcp.sweep();
    }
}

/// Samples of histograms pile up until they are folded into buckets, scraped or not.
async fn fold_metrics(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(METRICS_PAUSE).await;
        metrics.run_upkeep();
    }
}

/// Says that the gateway is up, where it is, and what to do next.
async fn report_start(
    context: &Context,
    runtime: &Runtime,
    url: &str,
    dial: Option<&str>,
) -> anyhow::Result<()> {
    let (out, data) = (context.out, &context.data);
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
         connect  drawgate connect claude --write    (or codex, gemini, cursor, vscode)\n\
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

/// The signals that end a gateway.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

/// Has the configuration looked at with each SIGHUP, which from now on does not kill.
pub(super) fn on_hangup(edits: &Arc<Edits>) -> anyhow::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    let edits = Arc::clone(edits);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            edits.look();
        }
    });
    Ok(())
}

impl Signals {
    pub(super) fn new() -> anyhow::Result<Self> {
        // Listened to elsewhere, if at all; from now on it does not kill.
        drop(signal(SignalKind::hangup())?);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// No new calls; those under way end by themselves, or are ended when the grace is over or a second
/// signal comes. Whoever waits for one hears of it; then connections are cut, children end and the log
/// is closed.
pub(super) async fn drain(
    runtime: &Runtime,
    server: &Server,
    mcp: &Mcp,
    grace: Duration,
    signals: &mut Signals,
) {
    tracing::info!(calls = runtime.gateway().under_way(), "stopping");
    server.stop.cancel();
    runtime.hold();
    mcp.close();
    server.connections.close();
    // Calls of runs and tasks have no connection.
    let ended = async || {
        server.connections.wait().await;
        runtime.idle().await;
    };
    tokio::select! {
        () = ended() => {}
        () = tokio::time::sleep(grace) => tracing::warn!("the grace time is over; calls under way are ended"),
        () = signals.next() => tracing::warn!("a second signal; calls under way are ended"),
    }
    runtime.end_calls().await;
    tokio::select! {
        () = server.connections.wait() => {}
        () = tokio::time::sleep(LAST_WORDS) => {}
        () = signals.next() => {}
    }
    server.cut.cancel();
    let _ = tokio::time::timeout(LAST_LINES, ended()).await;
    // A leftover socket would only make the next command try it in vain.
    let _ = std::fs::remove_file(runtime.data.join(SOCKET));
    runtime.close().await;
}
