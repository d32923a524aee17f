//! A gateway in this process, with its endpoint and its control socket: `drawgate serve` is one for
//! everyone, and `drawgate mcp` becomes one for its client where none runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use drawgate_core::redact::Redactor;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::backend::control;
use super::machine::runtime_options;
use crate::server::{self, Endpoint, HttpVersions, Server};
use crate::surface::approvals::{self, Pages};
use crate::surface::control::{Control, SOCKET};
use crate::surface::grpc::agents::McpAddress;
use crate::surface::grpc::{Grpc, GrpcParts};
use crate::surface::guard::Guard;
use crate::surface::mcp::TASK_FORMAT;
use crate::surface::mcp::{Mcp, Sessions};
use crate::surface::ops::Ops;
use crate::surface::programs::ProgramSurface;
use crate::telemetry::{self, Exporter, RunTelemetry, Spans};
use drawgate_runtime::assemble::{Runtime, Start};
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
/// Lists in this first time wait for servers that were never met: some clients ask once. Others give up a
/// gateway that answers late, and lose all tools for one slow server.
const FIRST_LISTS: Duration = Duration::from_secs(3);
/// How long calls that were ended get to be answered.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long they get to be written down, once connections are cut.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Where callers reach a gateway.
pub(super) struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl Listening {
    /// Opens an address.
    pub(super) async fn open(loaded: &Loaded, address: SocketAddr) -> anyhow::Result<Self> {
        let tls = tls(loaded)?;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| not_bound(address, error))?;
        Ok(Self { address: listener.local_addr()?, listener, tls })
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Where a person's browser finds the pages of approvals.
    fn pages_url(&self, public_url: Option<&str>) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback: IpAddr = if address.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            };
            address.set_ip(loopback);
        }
        match public_url {
            Some(url) => format!("{}{}", url.trim_end_matches('/'), approvals::PATH),
            None => format!("{}://{address}{}", self.scheme(), approvals::PATH),
        }
    }
}

fn tls(loaded: &Loaded) -> anyhow::Result<Option<TlsAcceptor>> {
    let Some(tls) = &loaded.config.server.tls else { return Ok(None) };
    let versions =
        if loaded.config.grpc.enabled { HttpVersions::Http1AndHttp2 } else { HttpVersions::Http1 };
    server::tls(&loaded.resolve(&tls.cert), &loaded.resolve(&tls.key), versions).map(Some)
}

fn not_bound(address: SocketAddr, error: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind;
    let step = match error.kind() {
        ErrorKind::AddrInUse => {
            "; another program listens there: stop it, or choose another port with `--listen`"
        }
        ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: choose one of its own with `--listen`"
        }
        ErrorKind::PermissionDenied => {
            "; ports below 1024 need privileges: choose another with `--listen`"
        }
        _ => "",
    };
    anyhow::Error::new(error).context(format!("can't listen on `{address}`{step}"))
}

/// Whom a gateway is for.
pub(super) enum Role {
    /// Everyone, until a signal ends it.
    Service,
    /// The client that started it. Cancelled when `drawgate serve` wants to take its place.
    Client { make_way: CancellationToken },
}

/// The log of this process, which outlives its gateways: what is masked in it is theirs.
pub(super) struct Logs {
    redactor: Arc<ArcSwap<Redactor>>,
}

impl Logs {
    /// Begins to log.
    pub(super) fn begin(context: &Context) -> anyhow::Result<Self> {
        let telemetry = &context.whole()?.config.telemetry;
        let redactor = Arc::new(ArcSwap::from_pointee(Redactor::new([])));
        telemetry::init_logs(telemetry.log, telemetry.log_format, Arc::clone(&redactor));
        Ok(Self { redactor })
    }
}

/// A gateway that serves.
pub(super) struct ServedGateway {
    pub(super) runtime: Arc<Runtime>,
    /// The address of MCP, and the origin for packs and agents over gRPC.
    pub(super) url: Option<String>,
    pub(super) grpc_origin: Option<String>,
    server: Server,
    mcp: Mcp,
    ready: Arc<AtomicBool>,
}

impl ServedGateway {
    /// Opens the data folder, starts the sources, and serves at what `listen` opens. It is asked when the
    /// folder is ours: gateways that come to nothing take no address from one that does.
    pub(super) async fn open(
        context: &Context,
        listen: impl AsyncFnOnce() -> Option<Listening>,
        role: Role,
        logs: &Logs,
    ) -> anyhow::Result<Self> {
        let loaded = context.whole()?;
        let config = &loaded.config;
        server::check_open_files()?;
        // Before anything that counts.
        let metrics = telemetry::init_metrics();
        let redactor = Arc::clone(&logs.redactor);
        let options = runtime_options(loaded, &context.data, Start::Sources, redactor)?;
        let runtime = Arc::new(Runtime::open(options).await?);
        let spans = spans(&runtime, loaded)?;
        runtime.operations.agents.runs.observe(Arc::new(RunTelemetry::new(spans.clone())));
        let mcp = mcp(&runtime, config, spans.clone()).await?;
        let mut gateway = Self {
            url: None,
            grpc_origin: None,
            server: Server::new(config.server.max_connections),
            mcp,
            ready: Arc::default(),
            runtime,
        };
        if let Some(listening) = listen().await {
            gateway.serve(config, listening, spans, metrics)?;
        } else {
            tracing::warn!("no address could be opened; decide with `drawgate approvals`");
        }
        gateway.open_control(role)?;
        gateway.start_tasks()?;
        Ok(gateway)
    }

    /// Serves callers, packs, agents and pages at an address.
    fn serve(
        &mut self,
        config: &Config,
        listening: Listening,
        spans: Spans,
        metrics: Option<PrometheusHandle>,
    ) -> anyhow::Result<()> {
        let (runtime, own) = (&self.runtime, &config.server);
        // The pages that are served to a browser send their forms back here.
        let origins: Vec<String> =
            own.allowed_origins.iter().chain(&own.public_url).cloned().collect();
        let guard = Arc::new(Guard::new(listening.address, &own.allowed_hosts, &origins));
        let endpoint = Endpoint {
            grpc: grpc(runtime, config, &guard, &self.server, spans)?,
            guard,
            callers: Arc::clone(&runtime.operations.callers),
            mcp: self.mcp.clone(),
            pages: Pages::new(Arc::clone(&runtime.operations)),
            ops: Ops {
                gateway: runtime.gateway().clone(),
                runs: runtime.operations.agents.runs.clone(),
                supervisor: Arc::clone(runtime.supervisor()),
                audit: Arc::clone(runtime.audit()),
                edits: Arc::clone(&runtime.edits),
                ready: Arc::clone(&self.ready),
                metrics: metrics.clone(),
                mcp: self.mcp.clone(),
            },
            refusals: RefusalLimiter::default(),
        };
        let origin = format!("{}://{}", listening.scheme(), listening.address);
        if let Some(auth) = config.auth.clone() {
            let origin = own.public_url.as_ref().unwrap_or(&origin);
            endpoint.callers.trust(OAuth::new(auth, origin, Arc::clone(&runtime.host)));
        }
        runtime.serve_pages(listening.pages_url(own.public_url.as_deref()));
        tokio::spawn(self.server.clone().serve_tcp(listening.listener, listening.tls, endpoint));
        if let Some(metrics) = metrics {
            tokio::spawn(fold_metrics(metrics));
        }
        self.url = Some(format!("{origin}/mcp"));
        self.grpc_origin = config.grpc.enabled.then_some(origin);
        Ok(())
    }

    /// Opens the socket for commands, and the channel of programs that do the work of runs.
    fn open_control(&self, role: Role) -> anyhow::Result<()> {
        let (runtime, server) = (&self.runtime, &self.server);
        let runs = &runtime.operations.agents.runs;
        let surface = ProgramSurface::new(server, runtime.gateway(), &self.mcp, runs);
        runs.serve_programs(Arc::new(surface));
        let path = runtime.data.join(SOCKET);
        let listener = server::bind_unix(&path);
        let listener = listener.with_context(|| format!("control socket `{}`", path.display()))?;
        let control = Control {
            mcp: self.mcp.clone(),
            endpoint: self.url.clone(),
            make_way: match role {
                Role::Service => None,
                Role::Client { make_way } => Some(make_way),
            },
            ..control(runtime)
        };
        tokio::spawn(server.clone().serve_unix(listener, control.router()));
        Ok(())
    }

    fn start_tasks(&self) -> anyhow::Result<()> {
        tokio::spawn(set_ready_when_settled(Arc::clone(&self.runtime), Arc::clone(&self.ready)));
        tokio::spawn(sweep_sessions(self.mcp.clone()));
        on_hangup(&self.runtime.edits)?;
        self.runtime.start_upkeep();
        Ok(())
    }

    /// No new calls; those under way end by themselves, or are ended when the grace is over or a second
    /// signal comes. Whoever waits for one hears of it; then connections are cut, children end and the
    /// log is closed.
    pub(super) async fn drain(&self, grace: Duration, signals: &mut Signals) {
        let Self { runtime, server, mcp, ready, .. } = self;
        ready.store(false, Ordering::Relaxed);
        tracing::info!(calls = runtime.gateway().under_way(), "stopping");
        server.stop.cancel();
        runtime.hold();
        // A person who has not decided by now decides about the next try.
        runtime.gateway().release_held();
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
    let mcp = mcp.with_first_lists(Arc::clone(runtime.supervisor()), FIRST_LISTS);
    Ok(mcp.with_tasks(runtime.open_tasks(TASK_FORMAT).await?))
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
        mcp: McpAddress {
            public_url: config.server.public_url.clone(),
            scheme: if config.server.tls.is_some() { "https" } else { "http" },
            callers: Arc::clone(&operations.callers),
        },
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

async fn set_ready_when_settled(runtime: Arc<Runtime>, ready: Arc<AtomicBool>) {
    runtime.supervisor().settle(READY_TIME).await;
    ready.store(true, Ordering::Relaxed);
}

/// Forgets idle sessions from time to time.
async fn sweep_sessions(mcp: Mcp) {
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

/// Takes each SIGHUP, which from now on does not kill, for the word that all edits are finished.
fn on_hangup(edits: &Arc<Edits>) -> anyhow::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    let edits = Arc::clone(edits);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            edits.finish_all();
        }
    });
    Ok(())
}

/// The signals that end a gateway.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
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
