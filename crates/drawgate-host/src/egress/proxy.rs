//! The only way out of a sandbox: a proxy that goes by the same rules as every other request.
//!
//! It takes `CONNECT` and requests with absolute `http` addresses. Each target is checked, resolved
//! once and pinned. Heads, connections and idle times are bounded; what passes through a tunnel is the
//! program's own business. Sandboxes that were given it reach the gateway itself by a name of its own.

mod forward;
mod tunnel;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::address::AddressError;
use super::error::{EgressError, Refusal};
use super::internal::{INTERNAL_HOST, INTERNAL_PORT, Internal, Upstream};
use super::network::dial;
use super::reach::Reach;
use super::{Egress, MAX_HEAD, MAX_HEADERS};

/// Connections of one sandbox at a time; more wait.
const CONNECTIONS: usize = 128;
/// How long a program may take to say what it wants.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long nothing may move on a connection.
const IDLE_TIME: Duration = Duration::from_mins(5);

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// What the programs behind a proxy may reach, and the client that it uses.
#[derive(Clone)]
pub struct ProxyAccess {
    /// The client.
    pub egress: Arc<Egress>,
    /// Hosts.
    pub reach: Reach,
    /// The gateway itself.
    pub internal: Option<Arc<dyn Internal>>,
    /// Told of what they may not reach.
    pub refused: Option<Arc<dyn RefusedHosts>>,
}

/// Hears which hosts a program asked for and may not reach.
pub trait RefusedHosts: Send + Sync + fmt::Debug + 'static {
    /// The name or address as the program wrote it, in lower case, and the port. Must not block.
    fn refused(&self, host: &str, port: u16);
}

/// Serves the programs behind a listener until it is stopped; connections end with it.
pub async fn serve(listener: TcpListener, access: ProxyAccess, stop: CancellationToken) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    let proxy = Proxy { access, stop: stop.clone() };
    let accepting = async {
        loop {
            let Ok(seat) = Arc::clone(&seats).acquire_owned().await else { return };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Too many open files, for instance: others may close theirs.
                    tracing::warn!(error = %error, "the sandbox's proxy could not accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let proxy = proxy.clone();
            tokio::spawn(async move {
                proxy.attend(stream, Arc::new(seat)).await;
            });
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = accepting => {}
    }
}

/// Kept by whatever a connection of a program's turned into, so that all of it counts as one.
type Seat = Arc<tokio::sync::OwnedSemaphorePermit>;

#[derive(Clone)]
struct Proxy {
    access: ProxyAccess,
    stop: CancellationToken,
}

impl Proxy {
    async fn attend(&self, stream: TcpStream, seat: Seat) {
        // It matters for speed only.
        let _slow = stream.set_nodelay(true);
        let service = service_fn(|request| {
            let (proxy, seat) = (self.clone(), Arc::clone(&seat));
            async move { Ok::<_, Infallible>(proxy.answer(request, seat).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::select! {
            () = self.stop.cancelled() => {}
            // A program that breaks off is no matter of the gateway's.
            _gone = connection => {}
        }
    }

    async fn answer(&self, request: Request<Incoming>, seat: Seat) -> Answer {
        let outcome = if request.method() == Method::CONNECT {
            self.tunnel(request, seat).await
        } else {
            self.forward(request, seat).await
        };
        outcome.unwrap_or_else(|error| refuse(&error))
    }

    /// A connection to a target that is allowed.
    async fn connect(&self, host: &str, port: u16) -> Result<Upstream, EgressError> {
        let host = host.to_ascii_lowercase();
        let ProxyAccess { egress, reach, internal, refused } = &self.access;
        match internal {
            Some(gateway) if host == INTERNAL_HOST && port == INTERNAL_PORT => {
                return Ok(Upstream::Gateway(gateway.connect()));
            }
            Some(_) | None => {}
        }
        let dialled = match egress.allowed.admit_host(&host, port, reach) {
            Ok(scope) => {
                let parent = egress.parent.read().clone().filter(|parent| parent.is_for(&host));
                let dialled = match parent {
                    Some(parent) => parent.dial(&egress.network, &host, port).await,
                    None => dial(&egress.network, &host, port, scope).await,
                };
                dialled.map_err(|error| error.explain(format!("{host}:{port}")))
            }
            Err(error) => Err(error),
        };
        if let (Err(EgressError::Refused { .. }), Some(refused)) = (&dialled, refused) {
            refused.refused(&host, port);
        }
        dialled.map(Upstream::Network)
    }
}

/// Says why not, and what to do about it.
fn refuse(error: &EgressError) -> Answer {
    let (status, advice) = match error {
        EgressError::Refused { reason: Refusal::Host | Refusal::Port, .. } => {
            (StatusCode::FORBIDDEN, "; add it to `permissions.hosts`")
        }
        EgressError::Refused { reason: Refusal::Private | Refusal::Inside, .. } => (
            StatusCode::FORBIDDEN,
            "; name its address in `permissions.hosts`, or have the operator allow it in `[egress] allow`",
        ),
        EgressError::Address(AddressError::Malformed(_) | AddressError::Scheme(_)) => (
            StatusCode::BAD_REQUEST,
            "; this proxy takes `CONNECT host:port` and `http://` addresses",
        ),
        EgressError::Address(_) => (StatusCode::BAD_REQUEST, ""),
        EgressError::Deadline | EgressError::Slow(_) => (StatusCode::GATEWAY_TIMEOUT, ""),
        EgressError::Connect { .. }
        | EgressError::Tls(_)
        | EgressError::Lost(_)
        | EgressError::Truncated
        | EgressError::Protocol(_)
        | EgressError::TooLarge(_)
        | EgressError::Encoding(_)
        | EgressError::Detour(_)
        | EgressError::Redirected(_) => (StatusCode::BAD_GATEWAY, ""),
    };
    let text = format!("{error}{advice}\n");
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}
