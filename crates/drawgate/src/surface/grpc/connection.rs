//! One HTTP/2 connection: its limits, its requests and its end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::Status;
use tonic::body::Body;

use super::login::Connection;
use super::services::{is_grpc, not_grpc};
use super::{ConnectionAddresses, Grpc, Shutdown};
use drawgate_runtime::packs::PackSlot;
use drawgate_runtime::peers::DisconnectReason;

/// Bytes of a request's head; a chain of CONTINUATION frames is bounded by it too.
const MAX_HEAD: u32 = 16 * 1024;
/// Bytes that a peer may have on its way to us, on one stream and on all of them.
const STREAM_WINDOW: u32 = 256 * 1024;
const WINDOW: u32 = 1024 * 1024;
/// How long a request may take to come and to be answered. What follows on a stream is not meant.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Requests that a peer took back before they were looked at; with more it is told to calm down.
const MAX_TAKEN_BACK: usize = 32;
/// Requests that we took back because they broke the protocol.
const MAX_BROKEN: usize = 64;
/// How long a connection that must end gets to be told why.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves a connection to its end.
pub(super) async fn serve<I>(
    grpc: &Arc<Grpc>,
    stream: I,
    addresses: ConnectionAddresses,
    shutdown: Shutdown<'_>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = Connection::new(&grpc.authenticator, addresses);
    let slot = Arc::new(PackSlot::default());
    let service = {
        let (grpc, connection, slot) = (Arc::clone(grpc), connection.clone(), slot.clone());
        service_fn(move |request| answer(grpc.clone(), connection.clone(), slot.clone(), request))
    };
    let stream = TokioIo::new(stream);
    let mut http = pin!(limits(grpc).serve_connection(stream, service));
    let end = tokio::select! {
        done = http.as_mut() => disconnect_reason(&done, &slot),
        () = connection.cut().cancelled() => {
            http.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, http.as_mut()).await;
            DisconnectReason::Left
        }
        () = shutdown.stop.cancelled() => 'drained: {
            // Nobody waits for strangers.
            if connection.peer().is_none() {
                break 'drained DisconnectReason::Shutdown;
            }
            // A pack's results come as new requests, so that its connection is told to end only when
            // no call is under way; everybody else's at once.
            tokio::select! {
                _ = http.as_mut() => break 'drained DisconnectReason::Shutdown,
                () = shutdown.cut.cancelled() => break 'drained DisconnectReason::Shutdown,
                () = connection.cut().cancelled() => {}
                () = slot.released() => {}
            }
            http.as_mut().graceful_shutdown();
            tokio::select! {
                _ = http.as_mut() => {}
                () = shutdown.cut.cancelled() => {}
                () = connection.cut().cancelled() => {}
            }
            DisconnectReason::Shutdown
        }
    };
    // The calls of a pack end with its connection, and not when somebody notices.
    slot.close();
    connection.ended(end).await;
}

fn limits(grpc: &Grpc) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(grpc.max_streams)
        .max_header_list_size(MAX_HEAD)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_pending_accept_reset_streams(MAX_TAKEN_BACK)
        .max_local_error_reset_streams(MAX_BROKEN)
        .keep_alive_interval(grpc.heartbeat)
        .keep_alive_timeout(grpc.heartbeat)
        .auto_date_header(false);
    builder
}

async fn answer(
    grpc: Arc<Grpc>,
    connection: Arc<Connection>,
    slot: Arc<PackSlot>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if let Err(status) = connection.count().await {
        return Ok(status.into_http());
    }
    if !is_grpc(&request) {
        return Ok(not_grpc());
    }
    // Before anything of the body is read.
    if let Err(status) = connection.admit(&grpc.guard, &mut request).await {
        return Ok(status.into_http());
    }
    request.extensions_mut().insert(slot);
    match tokio::time::timeout(ANSWER_TIME, grpc.services.answer(request)).await {
        Ok(answered) => answered,
        Err(_) => Ok(Status::deadline_exceeded("the request did not come in time").into_http()),
    }
}

/// A connection that closes under a registered pack is lost, however politely it closes.
fn disconnect_reason(done: &hyper::Result<()>, slot: &PackSlot) -> DisconnectReason {
    match done {
        Err(error) if error.is_timeout() => DisconnectReason::Silent,
        Err(_) => DisconnectReason::Lost,
        Ok(()) if slot.is_taken() => DisconnectReason::Lost,
        Ok(()) => DisconnectReason::Left,
    }
}
