//! How the pooled clients are made.

#![expect(clippy::disallowed_methods, reason = "this is the one place that makes HTTP clients")]

use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;

use super::{Body, CONNECT_TIMEOUT, IDLE_PER_HOST, IDLE_TIMEOUT, PROBE_AFTER, PROBES};

pub(super) type Plain = Client<HttpConnector, Body>;
pub(super) type Secure = Client<HttpsConnector<HttpConnector>, Body>;

pub(super) fn plain() -> Plain {
    builder().build(connector())
}

pub(super) fn secure() -> Result<Secure, String> {
    let mut tcp = connector();
    tcp.enforce_http(false);
    let tls = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(Arc::new(ring::default_provider()))
        .map_err(|error| error.to_string())?
        .https_only()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(builder().build(tls))
}

fn builder() -> Builder {
    let mut builder = Client::<(), ()>::builder(TokioExecutor::new());
    builder
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new());
    builder
}

fn connector() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    // Without it, the kernel holds a small request back for up to 40 ms.
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(PROBE_AFTER));
    tcp.set_keepalive_interval(Some(PROBE_AFTER));
    tcp.set_keepalive_retries(Some(PROBES));
    tcp
}
