//! MCP servers, as child processes, over HTTP and over `WebSocket`.
//!
//! A thin client of our own, for the revisions with sessions and for the one without. Everything about
//! revisions stays in this folder.

mod breaker;
mod callers;
mod calls;
mod changes;
mod config;
mod connector;
mod context;
mod diagnostics;
mod dialer;
mod exchange;
mod http;
mod listen;
mod listing;
pub mod oauth;
mod offer;
mod pages;
mod parameters;
pub mod places;
mod pool;
mod probe;
mod progress;
mod refusals;
mod remote;
mod requests;
mod server;
mod sse;
mod stdio;
mod subscriptions;
mod supervise;
mod tasks;
mod updates;
mod uses;
mod waiting_calls;
mod websocket;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use breaker::Breaker;
pub use config::{McpConfig, Sessions};
pub use connector::McpConnector;
pub use diagnostics::{ClientConnections, LeftOut, SourceDiagnostics, SourceState};
use drawgate_core::deadline::Deadline;
use drawgate_core::fair::{FairSlot, FairSlots};
use drawgate_core::model::{McpManifest, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, SourceEvent, ToolSource};
use drawgate_host::Host;
use drawgate_host::sandbox::Profile;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};
pub use wire::method_of;

use crate::kind::{ConfigError, SourceKind};
use crate::line_rpc::Reply;
use crate::server::{Address, Endpoint};
use config::Settings;
use context::SourceContext;
use dialer::Dialer;
use exchange::Interrupted;
pub use parameters::{AnnotationError, ParameterHeader, parameter_headers};
use pool::Pool;
use refusals::Refusals;
pub use refusals::{ALLOWED_BY, Refusal, shell_word};
pub use requests::ClientRequest;
use supervise::Supervisor;
use uses::InUse;
use waiting_calls::WaitingCalls;
use wire::Era;

/// How long the tool list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to say that it is there.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a server's name and version is kept.
const SHOWN_NAME: usize = 128;

/// Kind `mcp`.
pub const KIND: SourceKind =
    SourceKind::new("mcp").with_server(&server::MCP).with_connector(&connector::Mcp);

/// One MCP server. It is started when its manifest is first asked for.
pub struct McpSource {
    id: SourceId,
    host: Arc<Host>,
    profile: Option<Profile>,
    /// The connector's own limit on calls at once, if it has one.
    permits: Option<Arc<FairSlots>>,
    breaker: Breaker,
    supervisor: Supervisor,
    /// Connections for single clients, if they do not share the supervisor's.
    clients: Option<Pool>,
    /// Calls that wait for answers of their callers.
    waiting_calls: WaitingCalls<Interrupted>,
    /// What it offers beside tools.
    beside: offer::Lists,
}

/// Whose client this is: the gate names a client by its principal, and by its session after a slash.
fn principal_of(client: &str) -> &str {
    client.split_once('/').map_or(client, |(principal, _)| principal)
}

/// A connection to a server, whatever its transport.
#[derive(Clone)]
enum Peer {
    Duplex(Arc<stdio::Connection>),
    Http(Arc<http::Peer>),
}

impl McpSource {
    /// A source that is not yet started.
    pub fn new(id: SourceId, config: McpConfig, host: &Arc<Host>) -> Result<Self, ConfigError> {
        let Settings {
            endpoint,
            start_timeout,
            concurrency,
            supervision,
            sessions,
            breaker_pause,
            client_requests,
            tells_refusals,
        } = config.validate(&host.secrets)?;
        let profile = endpoint.profile();
        let refusals = match &endpoint {
            Endpoint::Program(spawn) if tells_refusals => Refusals::of(&id, spawn, host),
            Endpoint::Program(_)
            | Endpoint::Http(_)
            | Endpoint::Sse(_)
            | Endpoint::Websocket(_) => None,
        };
        let dialer = Arc::new(dialer_for(&id, endpoint, start_timeout, host));
        let mut context = SourceContext::new(client_requests.into_iter().collect());
        context.refusals = refusals;
        let clients = match sessions {
            Sessions::Shared => None,
            Sessions::PerClient => {
                Some(Pool::new(Arc::clone(&dialer), context.clone(), supervision))
            }
        };
        Ok(Self {
            id,
            host: Arc::clone(host),
            profile,
            permits: concurrency.map(FairSlots::new),
            breaker: Breaker::new(breaker_pause),
            supervisor: Supervisor::new(dialer, context, supervision),
            clients,
            waiting_calls: WaitingCalls::new(),
            beside: offer::Lists::default(),
        })
    }

    /// What a person needs to know about it.
    #[must_use]
    pub fn report(&self) -> SourceDiagnostics {
        let mut report = self.supervisor.journal().read();
        report.refused_for_seconds = self.breaker.open_for().map(|time| time.as_secs());
        report.clients = self.clients.as_ref().map(Pool::report);
        let refusals = self.supervisor.context().refusals.as_ref();
        report.refusals = refusals.map(|refusals| refusals.list()).unwrap_or_default();
        report.masked(&self.host.secrets.known_values())
    }

    /// The connection for a call, which does not end for want of use while it is held. A start is
    /// waited for.
    async fn connected(&self, cx: &CallContext) -> Result<(Peer, InUse), SourceError> {
        let Some(pool) = &self.clients else {
            let hold = self.supervisor.hold();
            return Ok((reach(&self.supervisor, &cx.deadline).await?, hold));
        };
        let (own, hold) = pool.enter(&cx.affinity)?;
        Ok((reach(&own, &cx.deadline).await?, hold))
    }

    async fn perform(
        &self,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        // A server that is known to be down is the supervisor's business, and no call that failed.
        let admission = self.breaker.admit(&cx.affinity, &cx.deadline)?;
        let (peer, hold) = self.connected(cx).await?;
        let outcome = self.attempt(&peer, call, cx).await;
        if matches!(outcome, Ok(_) | Err(SourceError::Failed { .. })) {
            hold.served();
        }
        admission.settle(&outcome);
        outcome
    }

    /// What a program says about a failure may tell what its sandbox did not give it. The caller is told, too.
    fn tell_refusals(&self, outcome: &mut Result<ToolOutput, SourceError>, mark: u64) {
        let Some(refusals) = &self.supervisor.context().refusals else { return };
        let mut found = match &outcome {
            Ok(output) if output.is_error => refusals.hear_content(&output.content),
            Err(SourceError::Failed { message, .. }) => refusals.hear(message),
            Ok(_) | Err(_) => return,
        };
        found.extend(refusals.hosts_since(mark));
        let Some(told) = refusals.told(&found) else { return };
        match outcome {
            Ok(output) => output.content.push(json!({ "type": "text", "text": told })),
            Err(SourceError::Failed { message, .. }) => message.extend(["\n", &told]),
            Err(_) => {}
        }
    }

    /// An answer that is none is the server's fault, so that the caller and the log hear whose it was.
    fn named(&self, error: SourceError) -> SourceError {
        let SourceError::Protocol(reason) = error else { return error };
        tracing::warn!(server = %self.id, %reason, "a server's answer can't be used");
        SourceError::Protocol(format!("`{}`: {reason}", self.id))
    }

    async fn attempt(
        &self,
        peer: &Peer,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let _permit = self.permit(cx).await?;
        self.converse(peer, call, cx).await
    }

    /// Waits for one of the connector's slots, if their number is limited.
    async fn permit(&self, cx: &CallContext) -> Result<Option<FairSlot>, SourceError> {
        let Some(permits) = &self.permits else { return Ok(None) };
        let permit = cx.deadline.bound(permits.acquire(cx.caller())).await;
        permit.map(Some).map_err(|_| too_late())
    }
}

#[async_trait]
impl ToolSource for McpSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let _awake = self.supervisor.hold();
        let (peer, info) = self.supervisor.dial().await?;
        let mut listing = listing::list(&peer, &info, Instant::now() + LIST_TIMEOUT).await?;
        let changes = &self.supervisor.context().changes;
        let (offer, missing) = self.beside.ask(&peer, &info, changes).await;
        listing.omissions.extend(missing);
        self.supervisor.journal().listed(listing.omissions);
        self.supervisor.context().set_parameters(listing.headers);
        self.supervisor.context().set_tasks(listing.as_tasks);
        let shown = |text: &str| text.chars().take(SHOWN_NAME).collect::<String>();
        let name = if info.name.is_empty() { self.id.to_string() } else { shown(&info.name) };
        Ok(McpManifest {
            server_id: self.id.clone(),
            name,
            version: shown(&info.version),
            description: info.instructions.clone(),
            tools: listing.tools,
            offer,
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        // Cancelled calls are dropped by the gate, which knows to call them cancelled; the guards
        // below tell the server.
        let is_answered = cx.input.as_ref().is_some_and(|input| input.state.is_some());
        let mark = self.supervisor.context().refusals.as_ref().map_or(0, |known| known.mark());
        let waited = if is_answered { Box::pin(self.go_on(&call, cx)).await } else { Ok(None) };
        let mut outcome = match waited {
            Ok(None) => self.perform(&call, cx).await,
            Ok(Some(output)) => Ok(output),
            Err(error) => Err(error),
        };
        self.tell_refusals(&mut outcome, mark);
        let allowed = self.supervisor.context().allowed;
        let outcome = outcome.map_err(|error| self.named(error));
        outcome.map_err(|error| pages::screen(error, allowed, &cx.client, &self.id))
    }

    fn can_resume(&self) -> bool {
        true
    }

    async fn check(&self) -> Result<(), SourceError> {
        let _awake = self.supervisor.hold();
        let (peer, info) = self.supervisor.dial().await?;
        let method = match info.era {
            Era::Sessions => "ping",
            Era::Stateless => probe::DISCOVER,
        };
        match peer.ask(method, &Map::new(), Instant::now() + CHECK_TIMEOUT).await {
            // Whatever it answers, it answers.
            Ok(_) | Err(SourceError::Failed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.supervisor.context().changes.subscribe())
    }

    fn events(&self) -> Option<broadcast::Receiver<SourceEvent>> {
        Some(self.supervisor.context().events())
    }

    fn abandon(&self, state: &str) {
        self.waiting_calls.abandon(state);
    }

    fn confinement(&self, _tool: &str) -> Option<&'static str> {
        self.profile.map(Profile::as_str)
    }

    fn diagnostics(&self) -> Value {
        serde_json::to_value(self.report()).unwrap_or_default()
    }

    async fn close(&self) {
        self.waiting_calls.clear();
        self.beside.close();
        if let Some(clients) = &self.clients {
            clients.close().await;
        }
        self.supervisor.close().await;
    }
}

fn dialer_for(
    id: &SourceId,
    endpoint: Endpoint,
    start_timeout: Duration,
    host: &Arc<Host>,
) -> Dialer {
    let host = Arc::clone(host);
    match endpoint {
        Endpoint::Program(spawn) => Dialer::Stdio(stdio::Dialer { host, spawn, start_timeout }),
        Endpoint::Http(Address { uri, headers, reach }) => {
            let egress = http::AuthenticatedEgress::new(&host, id, &headers, reach);
            Dialer::Http(http::Dialer { egress, uri, headers, start_timeout })
        }
        Endpoint::Sse(Address { uri, headers, reach }) => {
            let egress = http::AuthenticatedEgress::new(&host, id, &headers, reach);
            Dialer::Sse(sse::Dialer { egress, uri, headers, start_timeout })
        }
        Endpoint::Websocket(Address { uri, headers, reach }) => {
            Dialer::Websocket(websocket::Dialer { host, uri, headers, reach, start_timeout })
        }
    }
}

/// A supervisor's connection, before the deadline.
async fn reach(supervisor: &Supervisor, deadline: &Deadline) -> Result<Peer, SourceError> {
    if let Some(peer) = supervisor.ready_peer() {
        return Ok(peer);
    }
    let connected = Box::pin(deadline.bound(supervisor.dial())).await;
    connected.map_err(|_| too_late())?.map(|(peer, _)| peer)
}

fn too_late() -> SourceError {
    SourceError::Timeout("the server did not answer before the deadline".to_owned())
}

/// An error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
#[path = "size_tests.rs"]
mod size_tests;
