//! Connects to a server by any transport.

use std::sync::Arc;

use drawgate_core::source::SourceError;

use super::context::SourceContext;
use super::diagnostics::Journal;
use super::remote::Remote;
use super::wire::ServerInfo;
use super::{Peer, http, sse, stdio, websocket};

/// Connects to a server.
pub(super) enum Dialer {
    Stdio(stdio::Dialer),
    Http(http::Dialer),
    Sse(sse::Dialer),
    Websocket(websocket::Dialer),
}

/// A connected server, owned by the task that supervises it.
pub(super) enum ConnectedServer {
    Stdio(Box<stdio::Server>),
    Http(Arc<http::Peer>),
    Remote(Box<Remote>),
}

impl Dialer {
    /// The transport's name, as operators write it.
    pub(super) const fn transport(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "streamable_http",
            Self::Sse(_) => "sse",
            Self::Websocket(_) => "websocket",
        }
    }

    /// Connects and shakes hands.
    pub(super) async fn connect(
        &self,
        journal: &Arc<Journal>,
        context: &SourceContext,
    ) -> Result<ConnectedServer, SourceError> {
        match self {
            Self::Stdio(dialer) => {
                Ok(ConnectedServer::Stdio(Box::new(dialer.connect(journal, context).await?)))
            }
            Self::Http(dialer) => {
                Ok(ConnectedServer::Http(dialer.connect(journal, context).await?))
            }
            Self::Sse(dialer) => {
                Ok(ConnectedServer::Remote(Box::new(dialer.connect(journal, context).await?)))
            }
            Self::Websocket(dialer) => {
                Ok(ConnectedServer::Remote(Box::new(dialer.connect(journal, context).await?)))
            }
        }
    }
}

impl ConnectedServer {
    pub(super) fn peer(&self) -> Peer {
        match self {
            Self::Stdio(server) => Peer::Duplex(Arc::clone(&server.connection)),
            Self::Http(peer) => Peer::Http(Arc::clone(peer)),
            Self::Remote(remote) => Peer::Duplex(Arc::clone(&remote.connection)),
        }
    }

    pub(super) fn info(&self) -> ServerInfo {
        match self {
            Self::Stdio(server) => server.info.clone(),
            Self::Http(peer) => peer.info(),
            Self::Remote(remote) => remote.info.clone(),
        }
    }

    /// Waits until the server is lost, and says why.
    pub(super) async fn served(&mut self, journal: &Journal) -> String {
        match self {
            Self::Stdio(server) => server.served(journal).await,
            Self::Http(peer) => peer.served().await,
            Self::Remote(remote) => remote.served().await,
        }
    }

    /// Ends the server, or the connection to it.
    pub(super) async fn end(self) {
        match self {
            Self::Stdio(server) => server.end().await,
            Self::Http(peer) => peer.end().await,
            Self::Remote(remote) => remote.end().await,
        }
    }
}
