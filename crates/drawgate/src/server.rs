//! Sockets: who may connect, for how long, and how it all ends.

mod slots;
mod sniff;
mod timeouts;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use drawgate_core::model::Principal;
use drawgate_host::process::open_files;
use drawgate_host::repoll::Repoll;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use slots::{ConnectionSlot, ConnectionSlots, ResponseBody};
use sniff::Version;
pub use timeouts::Timeouts;

use crate::surface::approvals::{self, Pages};
use crate::surface::grpc::{ConnectionAddresses, Grpc, Shutdown};
use crate::surface::guard::Guard;
use crate::surface::mcp::{self, Mcp, Transport};
use crate::surface::ops::Ops;
use drawgate_runtime::callers::{Callers, Unauthenticated, challenge, is_metadata_path};
use drawgate_runtime::refusals::RefusalLimiter;

/// How long a TLS handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Bytes and lines of a request's head.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// When a caller may ask again whose token can't be judged yet.
const KEYS_RETRY: HeaderValue = HeaderValue::from_static("5");
/// HTTP/2, in the words of a TLS handshake.
const H2: &[u8] = b"h2";
/// How long accepting pauses when the process has no descriptors left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The endpoint for callers.
pub struct Endpoint {
    /// Which hosts and origins are ours.
    pub guard: Arc<Guard>,
    /// Who has a token.
    pub callers: Arc<Callers>,
    /// The MCP surface.
    pub mcp: Mcp,
    /// Where people decide about calls.
    pub pages: Pages,
    /// Health and metrics.
    pub ops: Ops,
    /// How many refusals of strangers were written down lately.
    pub refusals: RefusalLimiter,
    /// Packs and agents, if they may dial in.
    pub grpc: Option<Arc<Grpc>>,
}

impl Endpoint {
    /// Answers one request. Everything but health, readiness, where
    /// tokens come from and the pages of approvals needs one.
    async fn answer(
        &self,
        request: Request<Body>,
        local: IpAddr,
        slot: &ConnectionSlot,
    ) -> Response {
        if let Err((status, message)) = self.guard.check(request.uri(), request.headers(), local) {
            return refused(status, message);
        }
        match request.uri().path() {
            "/healthz" if request.method() == http::Method::GET => return self.ops.healthz(),
            "/readyz" if request.method() == http::Method::GET => return self.ops.readyz(),
            _ => {}
        }
        if let Some(metadata) = self.metadata(&request) {
            return metadata;
        }
        if let Some(id) = approvals::page_of(request.uri().path()) {
            return Box::pin(self.pages.answer(id, request)).await;
        }
        let identity = match self.callers.identify(request.uri(), request.headers()).await {
            Ok(identity) => {
                slot.mark_as_caller();
                identity
            }
            Err(problem) => return Box::pin(self.unauthenticated(problem)).await,
        };
        match request.uri().path() {
            "/mcp" => mcp::handle(&self.mcp, identity, Transport::Http, request).await,
            "/metrics" if identity.principal == Principal::local() => self.ops.metrics(),
            _ => refused(StatusCode::NOT_FOUND, "no such path; the endpoint is `/mcp`"),
        }
    }

    /// Where clients get tokens, for those that have none yet.
    fn metadata(&self, request: &Request<Body>) -> Option<Response> {
        if request.method() != http::Method::GET || !is_metadata_path(request.uri().path()) {
            return None;
        }
        Some(match self.callers.oauth() {
            Some(oauth) => ([(CONTENT_TYPE, "application/json")], oauth.metadata()).into_response(),
            None => refused(StatusCode::NOT_FOUND, "no authorization server; see `[auth]`"),
        })
    }

    async fn unauthenticated(&self, problem: Unauthenticated) -> Response {
        let reason = problem.reason();
        let (status, message) = explain(problem);
        metrics::counter!("drawgate_refused_callers_total", "reason" => reason).increment(1);
        let gateway = &self.ops.gateway;
        let was_judged = matches!(problem, Unauthenticated::Unknown | Unauthenticated::Rejected(_));
        if was_judged && self.refusals.allows(gateway.clock().now_ms()) {
            gateway.record_refused_caller(None, reason).await;
        }
        let mut response = refused(status, message);
        if status == StatusCode::UNAUTHORIZED {
            let challenge = challenge(self.callers.oauth(), problem);
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        } else {
            response.headers_mut().insert(RETRY_AFTER, KEYS_RETRY);
        }
        response
    }
}

/// What a caller hears. Why a token is not accepted is for the operator, in the audit log.
const fn explain(problem: Unauthenticated) -> (StatusCode, &'static str) {
    match problem {
        Unauthenticated::Missing => (
            StatusCode::UNAUTHORIZED,
            "unauthorized: a bearer token is needed; ask whoever runs this gateway for one",
        ),
        Unauthenticated::Unknown => {
            (StatusCode::UNAUTHORIZED, "unauthorized: this token is not known")
        }
        Unauthenticated::Malformed => (
            StatusCode::UNAUTHORIZED,
            "unauthorized: send one `Authorization: Bearer TOKEN`, and none in the address",
        ),
        Unauthenticated::Rejected(_) => {
            (StatusCode::UNAUTHORIZED, "unauthorized: this token is not accepted")
        }
        Unauthenticated::NoKeys => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the issuer of this token can't be reached; try again later",
        ),
    }
}

fn refused(status: StatusCode, message: &str) -> Response {
    (status, format!("{message}\n")).into_response()
}

/// Everything that is served, and how it ends.
#[derive(Clone)]
pub struct Server {
    /// Cancelled when no new connection or request is taken.
    pub stop: CancellationToken,
    /// Cancelled when connections that are still open are cut.
    pub cut: CancellationToken,
    /// The connections.
    pub connections: TaskTracker,
    slots: Arc<ConnectionSlots>,
    control_slots: Arc<ConnectionSlots>,
    timeouts: Timeouts,
}

impl Server {
    /// A server with room for so many connections, or for as many as the limit of open files allows.
    #[must_use]
    pub fn new(max_connections: usize) -> Self {
        let possible = slots::possible(open_files());
        if possible < max_connections {
            tracing::warn!(
                max_connections,
                possible,
                "fewer connections than `max_connections` fit into the limit of open files; raise it with `ulimit -n` or `LimitNOFILE=`"
            );
        }
        Self::with_timeouts(max_connections.min(possible), Timeouts::default())
    }

    /// The same, with other timeouts.
    #[must_use]
    pub fn with_timeouts(max_connections: usize, timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
            connections: TaskTracker::new(),
            slots: ConnectionSlots::new(max_connections),
            control_slots: ConnectionSlots::new(slots::possible_for_control(open_files())),
        }
    }

    /// Serves callers until told to stop.
    pub async fn serve_tcp(
        self,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        endpoint: Endpoint,
    ) {
        let endpoint = Arc::new(endpoint);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return,
            };
            let Some((stream, remote)) = admitted(accepted).await else { continue };
            // Without this a small answer waits for the peer's acknowledgement: 40 ms instead of 60 µs.
            if stream.set_nodelay(true).is_err() {
                continue;
            }
            let local =
                stream.local_addr().map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip());
            let addresses = ConnectionAddresses { local, remote: remote.ip() };
            // Refused at once rather than queued: the peer can go elsewhere.
            let Some(slot) = self.slots.take() else { continue };
            let (server, tls, endpoint) = (self.clone(), tls.clone(), Arc::clone(&endpoint));
            self.connections.spawn(async move {
                let evicted = slot.evicted.clone();
                let connection = async {
                    match tls {
                        None => server.plain(stream, endpoint, addresses, slot).await,
                        Some(tls) => {
                            server.encrypted(stream, &tls, endpoint, addresses, slot).await;
                        }
                    }
                };
                tokio::select! {
                    () = connection => {}
                    () = evicted.cancelled() => {}
                }
            });
        }
    }

    /// The first bytes tell which HTTP it is.
    async fn plain(
        &self,
        stream: TcpStream,
        endpoint: Arc<Endpoint>,
        addresses: ConnectionAddresses,
        slot: Arc<ConnectionSlot>,
    ) {
        let Some(grpc) = &endpoint.grpc else {
            return self.connection(stream, endpoint, addresses.local, slot).await;
        };
        let told = tokio::select! {
            told = tokio::time::timeout(self.timeouts.idle, sniff::version(&stream)) => told,
            () = self.stop.cancelled() => return,
        };
        match told {
            Ok(Ok(Some(Version::Two))) => self.grpc(grpc, stream, addresses, &slot).await,
            Ok(Ok(Some(Version::One))) => {
                self.connection(stream, endpoint, addresses.local, slot).await;
            }
            // Gone, or silent for too long.
            Ok(Ok(None) | Err(_)) | Err(_) => {}
        }
    }

    /// The handshake tells.
    async fn encrypted(
        &self,
        stream: TcpStream,
        tls: &TlsAcceptor,
        endpoint: Arc<Endpoint>,
        addresses: ConnectionAddresses,
        slot: Arc<ConnectionSlot>,
    ) {
        let handshake = tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream)).await;
        let Ok(Ok(stream)) = handshake else { return };
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        match &endpoint.grpc {
            Some(grpc) if is_h2 => self.grpc(grpc, stream, addresses, &slot).await,
            Some(_) | None => self.connection(stream, endpoint, addresses.local, slot).await,
        }
    }

    /// Packs and agents. Their authenticator itself bounds how many have not logged in.
    async fn grpc<I>(
        &self,
        grpc: &Arc<Grpc>,
        stream: I,
        addresses: ConnectionAddresses,
        slot: &Arc<ConnectionSlot>,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        slot.mark_as_caller();
        let _until_it_ends = slot.request();
        let shutdown = Shutdown { stop: &self.stop, cut: &self.cut };
        grpc.serve(self.timeouts.watch(stream).0, addresses, shutdown).await;
    }

    async fn connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        endpoint: Arc<Endpoint>,
        local: IpAddr,
        slot: Arc<ConnectionSlot>,
    ) {
        let service = move |request: Request<Body>| {
            let (endpoint, slot) = (endpoint.clone(), slot.clone());
            async move {
                let under_way = slot.request();
                // Whoever stands in front may have seen another end of this request than we do: what
                // follows on the connection is not to be trusted.
                let chunked = request.headers().contains_key(TRANSFER_ENCODING);
                let mut response = endpoint.answer(request, local, &slot).await;
                if chunked {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                let answer = |body| ResponseBody { body, _request: under_way };
                Ok::<_, Infallible>(response.map(answer))
            }
        };
        self.drive(stream, service).await;
    }

    /// Runs a connection to its end: the peer's, a graceful one, or the cut.
    pub(crate) async fn drive<I, S, F, B>(&self, stream: I, service: S)
    where
        I: AsyncRead + AsyncWrite + Unpin,
        S: Fn(Request<Body>) -> F,
        F: Future<Output = Result<Response<B>, Infallible>>,
        B: hyper::body::Body<Data = Bytes, Error = axum::Error> + 'static,
    {
        let (stream, watch) = self.timeouts.watch(stream);
        let timer = watch.clone();
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            service(request.map(|body| Body::new(watch.body(body))))
        });
        let connection = http1::Builder::new()
            .timer(timer)
            .header_read_timeout(self.timeouts.idle)
            .max_buf_size(MAX_HEAD)
            .max_header_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let repoll = Repoll::default();
        let served =
            poll_fn(|context| repoll.poll(context, |inner| connection.as_mut().poll(inner)));
        // A connection that ends badly is the peer's affair.
        tokio::select! {
            _ = served => return,
            () = self.stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => {}
            () = self.cut.cancelled() => {}
        }
    }

    /// Serves the operator on a Unix socket until told to stop.
    pub async fn serve_unix(self, listener: UnixListener, router: Router) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return,
            };
            let Some((stream, _)) = admitted(accepted).await else { continue };
            let Some(slot) = self.control_slots.take() else { continue };
            slot.mark_as_caller();
            let (server, router) = (self.clone(), router.clone());
            self.connections.spawn(async move {
                let evicted = slot.evicted.clone();
                let service = move |request: Request<Body>| {
                    let (under_way, router) = (slot.request(), router.clone());
                    async move {
                        let answer = |body| ResponseBody { body, _request: under_way };
                        router.oneshot(request).await.map(|response| response.map(answer))
                    }
                };
                tokio::select! {
                    () = server.drive(stream, service) => {}
                    () = evicted.cancelled() => {}
                }
            });
        }
    }
}

/// Refuses to serve with fewer files than a gateway needs: it would start, and fail at its calls.
pub fn check_open_files() -> anyhow::Result<()> {
    match open_files() {
        Some(most) if most < slots::MIN_OPEN_FILES => anyhow::bail!(
            "this process may open {most} files, and a gateway needs {}; raise the limit with `ulimit -n` or `LimitNOFILE=`",
            slots::MIN_OPEN_FILES
        ),
        _ => Ok(()),
    }
}

/// A process without descriptors must not stop accepting for ever, nor spin.
async fn admitted<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(error = %error, "a connection could not be accepted");
            tokio::time::sleep(EXHAUSTED_PAUSE).await;
            None
        }
    }
}

/// Opens the operator's socket, readable by its owner alone. The caller holds the folder's lock, so
/// that a socket that is there already is a leftover.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Which versions of HTTP are offered in a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersions {
    /// HTTP/1.1 alone, without ALPN.
    Http1,
    /// HTTP/2 too, for clients that speak nothing else, which is what gRPC does: everything but gRPC
    /// is served by HTTP/1.1 alone.
    Http1AndHttp2,
}

/// Reads certificate and key.
pub fn tls(certificates: &Path, key: &Path, versions: HttpVersions) -> anyhow::Result<TlsAcceptor> {
    use anyhow::Context;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("certificate `{}`", certificates.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("key `{}`", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    if versions == HttpVersions::Http1AndHttp2 {
        config.alpn_protocols = vec![b"http/1.1".to_vec(), H2.to_vec()];
    }
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Whether an address may be served in clear.
#[must_use]
pub fn is_private(listen: SocketAddr) -> bool {
    listen.ip().is_loopback()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
