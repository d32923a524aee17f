//! Where the browser brings the answer: one path on a port of this machine, for one answer.
//!
//! Any page in the browser can send requests here. What does not carry the login's own `state` is
//! turned away and changes nothing, so that no other program can end the login.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use drawgate_core::secret::Secret;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::error::LoginError;
use super::form;

const PATH: &str = "/callback";
/// Connections at a time; a browser needs one or two.
const MAX_CONNECTIONS: usize = 16;
/// How long one may last.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// The longest answer.
const MAX_QUERY: usize = 16 * 1024;

const THANKS: &str = "Drawgate has received the answer. You can close this window.\n";
const UNKNOWN: &str = "There is nothing here.\n";
const FOREIGN: &str = "This answer does not belong to the login that is under way.\n";

/// A port that waits for the answer.
pub(super) struct Listener {
    socket: TcpListener,
    port: u16,
}

/// Which port to wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// This one and no other.
    Exactly(u16),
    /// This one if it is free, else any.
    Rather(u16),
    /// Any.
    Any,
}

impl Listener {
    pub(super) async fn bind(port: Port) -> Result<Self, LoginError> {
        let (wanted, or_any) = match port {
            Port::Exactly(port) => (port, false),
            Port::Rather(port) => (port, true),
            Port::Any => (0, false),
        };
        let failed = |port| {
            move |error: std::io::Error| LoginError::Listener { port, reason: error.to_string() }
        };
        let socket = match TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await {
            Err(_) if or_any => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
            bound => bound,
        };
        let socket = socket.map_err(failed(wanted))?;
        let port = socket.local_addr().map_err(failed(wanted))?.port();
        Ok(Self { socket, port })
    }

    /// The address that the browser is sent to.
    pub(super) fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the answer with this state, and returns its query.
    pub(super) async fn answer(self, state: &Secret<String>) -> Secret<String> {
        let (sender, mut answers) = mpsc::channel(1);
        let callback = Arc::new(Callback {
            host: format!("127.0.0.1:{}", self.port),
            state: state.clone(),
            sender,
        });
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let connection = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, self.socket.accept().await)
            };
            tokio::select! {
                // The callback holds the sender, so there is always an end to wait for.
                Some(query) = answers.recv() => return query,
                (place, accepted) = connection => match accepted {
                    Ok((stream, _)) => {
                        let served = timeout(CONNECTION_TIME, serve(stream, Arc::clone(&callback)));
                        tokio::spawn(async move {
                            let _place = place;
                            // What goes wrong with one connection is the browser's business.
                            let _ = served.await;
                        });
                    }
                    // Out of descriptors, most likely; others may give theirs back.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        }
    }
}

/// The one answer that is waited for.
struct Callback {
    host: String,
    state: Secret<String>,
    sender: mpsc::Sender<Secret<String>>,
}

async fn serve(stream: TcpStream, callback: Arc<Callback>) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = callback.take(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await
}

impl Callback {
    fn take(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
        let ours = host == Some(self.host.as_bytes()) && request.uri().path() == PATH;
        if !ours || request.method() != Method::GET {
            return page(StatusCode::NOT_FOUND, UNKNOWN);
        }
        let query = request.uri().query().unwrap_or_default();
        let state = form::one(query, "state");
        if query.len() > MAX_QUERY || state.as_ref() != Some(self.state.expose()) {
            return page(StatusCode::BAD_REQUEST, FOREIGN);
        }
        match self.sender.try_send(Secret::new(query.to_owned())) {
            Ok(()) => page(StatusCode::OK, THANKS),
            // It has been answered already.
            Err(_) => page(StatusCode::BAD_REQUEST, FOREIGN),
        }
    }
}

fn page(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
