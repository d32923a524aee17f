//! The gRPC surface: packs and agents that dial in, on the gateway's own address.
//!
//! A connection that speaks HTTP/2 is a gRPC connection. It is nobody's until its peer has logged in;
//! then it is a pack's or an agent's.

pub mod agents;
mod connection;
pub mod login;
pub mod packs;
mod services;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::pipeline::Gateway;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use self::agents::{Agents, AgentsParts, McpAddress};
use self::services::Services;
use super::guard::Guard;
use crate::telemetry::Spans;
use drawgate_runtime::config;
use drawgate_runtime::packs::Packs;
use drawgate_runtime::peers::PeerAuthenticator;

/// The addresses at the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionAddresses {
    /// Ours.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
}

/// How the program ends its connections.
#[derive(Clone, Copy)]
pub struct Shutdown<'a> {
    /// Cancelled when no new request is taken.
    pub stop: &'a CancellationToken,
    /// Cancelled when connections that are still open are cut.
    pub cut: &'a CancellationToken,
}

/// What the surface is made from.
pub struct GrpcParts {
    /// Who may come in.
    pub authenticator: Arc<PeerAuthenticator>,
    /// Which hosts are ours.
    pub guard: Arc<Guard>,
    /// The gate.
    pub gateway: Gateway,
    /// The packs.
    pub packs: Arc<Packs>,
    /// Where traces of agents' calls go.
    pub spans: Spans,
    /// How programs of agents reach MCP.
    pub mcp: McpAddress,
}

/// The gRPC surface.
pub struct Grpc {
    authenticator: Arc<PeerAuthenticator>,
    guard: Arc<Guard>,
    services: Services,
    heartbeat: Duration,
    /// Requests of one peer at once.
    max_streams: u32,
}

/// Requests of a pack at once beside its results; and of an agent, which needs few.
const FEW_STREAMS: usize = 32;

impl Grpc {
    /// The surface, until `stop`.
    pub fn new(
        parts: GrpcParts,
        config: &config::Grpc,
        stop: &CancellationToken,
    ) -> anyhow::Result<Arc<Self>> {
        // Better no gateway than one that nobody can log in at.
        parts.authenticator.identity()?;
        let heartbeat = Duration::from_secs(config.heartbeat_seconds);
        let agents = Agents::new(AgentsParts {
            gateway: parts.gateway,
            stop: stop.clone(),
            heartbeat,
            spans: parts.spans,
            mcp: Some(parts.mcp),
        });
        Ok(Arc::new(Self {
            authenticator: parts.authenticator,
            guard: parts.guard,
            services: Services::new(parts.packs, agents, config.max_message_bytes, stop)?,
            heartbeat,
            max_streams: u32::try_from((config.max_calls_per_pack + FEW_STREAMS).max(64))
                .unwrap_or(u32::MAX),
        }))
    }

    /// Serves one connection to its end. The stream fails by itself if the peer does not read.
    pub async fn serve<I>(
        self: &Arc<Self>,
        stream: I,
        addresses: ConnectionAddresses,
        shutdown: Shutdown<'_>,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        connection::serve(self, stream, addresses, shutdown).await;
    }
}
