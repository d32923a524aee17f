//! Agents over gRPC: one stream each, on which they register, hear which tools are theirs, call them
//! and get the results.
//!
//! Who is at the other end has been proved by the login; what an agent may do is the gate's to decide.

mod artifacts;
mod calls;
mod conversation;
mod convert;
mod lists;
mod mcp;
mod open_conversations;
mod outbox;
mod register;
mod registered;

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{Capability, Principal};
use drawgate_core::pipeline::Gateway;
use drawgate_sdk::proto::fold_service_server::FoldService;
use drawgate_sdk::proto::{AgentMessage, ArtifactRequest, GatewayMessage};
use drawgate_sdk::statement::Purpose;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use self::conversation::{Conversation, Ended};
pub use self::mcp::McpAddress;
use self::open_conversations::OpenConversations;
use self::outbox::{Outbox, Outgoing};
use super::login::{self, Authority};
use crate::telemetry::Spans;
use drawgate_runtime::peers::{DisconnectReason, Peer};

/// Messages that wait to be read by an agent; whoever has more to say waits.
const QUEUE: usize = 16;
/// An agent that reads nothing, or says nothing when it is asked, for so many heartbeats is gone.
const MAX_MISSED_HEARTBEATS: u32 = 3;

/// The agents' service.
#[derive(Clone)]
pub struct Agents(Arc<Shared>);

/// What all conversations share.
struct Shared {
    gateway: Gateway,
    stop: CancellationToken,
    heartbeat: Duration,
    spans: Spans,
    lists: lists::Lists,
    open: OpenConversations,
    mcp: Option<McpAddress>,
}

/// An agent that has proved itself, as far as a conversation needs to know it.
struct Agent {
    name: Principal,
    /// What its key allows.
    allowed: Vec<Capability>,
    /// The connection's id, for grants and the audit log.
    connection: String,
    /// The host and port that it dialled.
    authority: Option<Arc<str>>,
    /// Cancelled when the connection must end.
    cut: CancellationToken,
}

/// What the agents' service is made from.
pub struct AgentsParts {
    /// The gate.
    pub gateway: Gateway,
    /// Cancelled when the gateway ends.
    pub stop: CancellationToken,
    /// How often a silent agent is asked whether it is there.
    pub heartbeat: Duration,
    /// Where traces of calls go.
    pub spans: Spans,
    /// How programs of agents reach MCP, where that is served.
    pub mcp: Option<McpAddress>,
}

impl Agents {
    /// A service in front of a gate.
    #[must_use]
    pub fn new(parts: AgentsParts) -> Self {
        let AgentsParts { gateway, stop, heartbeat, spans, mcp } = parts;
        let (lists, open) = (lists::Lists::default(), OpenConversations::default());
        Self(Arc::new(Shared { gateway, stop, heartbeat, spans, lists, open, mcp }))
    }

    /// Makes a conversation and the agent's end of it.
    fn open(&self, agent: Agent) -> Result<(Conversation, Outgoing), Status> {
        let open = self.0.open.enter(&agent.name, &agent.connection)?;
        let (queue, waiting) = mpsc::channel(QUEUE);
        let over = CancellationToken::new();
        let outbox = Outbox::new(queue, self.0.heartbeat * MAX_MISSED_HEARTBEATS, over.clone());
        let conversation = Conversation::new(Arc::clone(&self.0), agent, outbox, open);
        Ok((conversation, Outgoing::new(waiting, over.drop_guard())))
    }
}

#[tonic::async_trait]
impl FoldService for Agents {
    type ConverseStream = Outgoing;
    type ReadArtifactStream = artifacts::Parts;

    async fn read_artifact(
        &self,
        request: Request<ArtifactRequest>,
    ) -> Result<Response<artifacts::Parts>, Status> {
        let peer = login::peer(&request, Purpose::Agent)?;
        let name = principal(&peer)?;
        artifacts::read(&self.0.gateway, &name, &request.into_inner().uri).await.map(Response::new)
    }

    async fn converse(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Outgoing>, Status> {
        let peer = login::peer(&request, Purpose::Agent)?;
        let agent = Agent {
            name: principal(&peer)?,
            allowed: peer.terms.capabilities.clone(),
            connection: peer.session.clone(),
            authority: request.extensions().get::<Authority>().map(|it| Arc::clone(&it.0)),
            cut: peer.cut.clone(),
        };
        let (conversation, outgoing) = self.open(agent)?;
        let incoming = request.into_inner();
        tokio::spawn(async move {
            // Whoever does not read would not see the end of the stream either.
            if conversation.run(incoming).await == Ended::Silent {
                peer.end(DisconnectReason::Silent);
            }
        });
        Ok(Response::new(outgoing))
    }
}

fn principal(peer: &Peer) -> Result<Principal, Status> {
    Principal::new(&peer.name).map_err(|error| Status::failed_precondition(error.to_string()))
}

/// A message of the gateway.
type OutgoingMessage = Result<GatewayMessage, Status>;

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
