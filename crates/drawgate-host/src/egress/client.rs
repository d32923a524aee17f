//! How the pooled clients are made. Connections that may go anywhere and those that may not are in
//! pools of their own, so that none made for one serves the other.

#![expect(clippy::disallowed_methods, reason = "this is the one place that makes HTTP clients")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::Service;

use super::address::{bare_host, port};
use super::network::{DialError, Network, Scope, dial};
use super::{Body, IDLE_PER_HOST, IDLE_TIMEOUT, MAX_HEAD, MAX_HEADERS};

type Plain = Client<Connector, Body>;
pub(super) type Secure = Client<HttpsConnector<Connector>, Body>;

/// The connections of one scope.
pub(super) struct Pool {
    connector: Connector,
    pub(super) plain: Plain,
}

impl Pool {
    pub(super) fn new(network: Arc<dyn Network>, scope: Scope) -> Self {
        let connector = Connector { network, scope };
        let plain = builder().build(connector.clone());
        Self { connector, plain }
    }

    /// A client for `https` that makes its connections in the same way.
    pub(super) fn secure(&self, config: ClientConfig) -> Secure {
        let tls = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .wrap_connector(self.connector.clone());
        builder().build(tls)
    }
}

fn builder() -> Builder {
    let mut builder = Client::<(), ()>::builder(TokioExecutor::new());
    builder
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http1_max_headers(MAX_HEADERS)
        .http1_max_buf_size(MAX_HEAD);
    builder
}

/// Makes connections whose addresses have been checked.
#[derive(Clone)]
pub(super) struct Connector {
    network: Arc<dyn Network>,
    scope: Scope,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { network, scope } = self.clone();
        Box::pin(async move {
            let host = bare_host(&uri).ok_or(DialError::Unknown)?;
            Ok(TokioIo::new(dial(&network, host, port(&uri), scope).await?))
        })
    }
}
