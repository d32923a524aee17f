//! The gateway, as programs reach it that do the work of runs: tools by MCP, models through the relay.
//!
//! Each sandbox has a channel of its own, which knows its run. A request needs the token of that run, so
//! that neither a token elsewhere nor a request without one is worth anything.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use drawgate_agents::model::ProgramRequest;
use drawgate_agents::runs::Runs;
use drawgate_agents::runs::programs::{ProgramEndpoint, RelayBody, RelayReply, RunProgram};
use drawgate_core::model::Caller;
use drawgate_core::pipeline::Gateway;
use drawgate_runtime::callers::Identity;
use drawgate_runtime::refusals::RefusalLimiter;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, StatusCode};
use tokio::io::{DuplexStream, duplex};

use crate::server::Server;
use crate::surface::intake::Intake;
use crate::surface::mcp::{self, Mcp, Transport};

/// Bytes on their way between a sandbox and the gateway.
const BUFFER: usize = 64 * 1024;
/// The largest request to a model: a long conversation with images.
const MAX_BODY: usize = 32 * 1024 * 1024;
/// How long a request may take to arrive.
const BODY_TIME: Duration = Duration::from_mins(1);
/// What the paths of models begin with.
const RELAY: &str = "/relay/";
/// Headers in which programs show a key, beside `Authorization`.
const KEY_HEADERS: [&str; 2] = ["x-api-key", "x-goog-api-key"];

/// The surface for programs.
pub struct ProgramSurface(Arc<Inner>);

struct Inner {
    server: Server,
    gateway: Gateway,
    mcp: Mcp,
    runs: Runs,
    refusals: RefusalLimiter,
}

impl ProgramSurface {
    /// Serves programs with these.
    #[must_use]
    pub fn new(server: &Server, gateway: &Gateway, mcp: &Mcp, runs: &Runs) -> Self {
        Self(Arc::new(Inner {
            server: server.clone(),
            gateway: gateway.clone(),
            mcp: mcp.clone(),
            runs: runs.clone(),
            refusals: RefusalLimiter::default(),
        }))
    }
}

impl ProgramEndpoint for ProgramSurface {
    fn connect(&self, run: &str) -> DuplexStream {
        let (near, far) = duplex(BUFFER);
        let (inner, run) = (Arc::clone(&self.0), Arc::<str>::from(run));
        // The connection ends with the sandbox; the gateway does not wait for it when it stops.
        tokio::spawn(async move {
            let server = inner.server.clone();
            let service = move |request: Request<Body>| {
                let (inner, run) = (Arc::clone(&inner), Arc::clone(&run));
                async move { Ok(Box::pin(inner.answer(&run, request)).await) }
            };
            server.drive(far, service).await;
        });
        near
    }
}

impl Inner {
    async fn answer(&self, run: &str, request: Request<Body>) -> Response {
        let path = request.uri().path().to_owned();
        let relayed = path.strip_prefix(RELAY).and_then(|rest| rest.split_once('/'));
        if path != "/mcp" && relayed.is_none() {
            return refused(StatusCode::NOT_FOUND, "no such path; there are `/mcp` and `/relay/`");
        }
        let token = token(request.headers());
        let Some(program) = token.and_then(|token| self.runs.program(run, token)) else {
            if self.refusals.allows(self.gateway.clock().now_ms()) {
                self.gateway.record_refused_caller(None, "run_token").await;
            }
            return refused(StatusCode::UNAUTHORIZED, "unauthorized: this is not the run's token");
        };
        if let Some((provider, rest)) = relayed {
            let path = format!("/{rest}");
            return relay(self.mcp.intake(), &program, provider, &path, request).await;
        }
        let Caller { principal, carried, lineage, .. } = program.caller();
        let identity = Identity { principal, carried, lineage };
        mcp::handle(&self.mcp, identity, Transport::Run, request).await
    }
}

/// The one token of a request, in whichever header its program shows it.
fn token(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let mut keys = KEY_HEADERS.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    bearer.or_else(|| keys.next()).map(str::trim)
}

async fn relay(
    intake: &Intake,
    program: &RunProgram,
    provider: &str,
    path: &str,
    request: Request<Body>,
) -> Response {
    let (head, body) = request.into_parts();
    let Some(slot) = program.relay_slot() else {
        let message = "too many requests of this program are under way; try again later";
        return refused(StatusCode::TOO_MANY_REQUESTS, message);
    };
    let caller = program.caller().principal;
    let (body, charge) = match intake.read(&caller, body, (MAX_BODY, BODY_TIME)).await {
        Ok(body) => body.into_parts(),
        Err(error) => return refused(error.status(), &error.to_string()),
    };
    let request =
        ProgramRequest { method: &head.method, path, headers: &head.headers, body: &body };
    let taken = (slot, charge);
    let RelayReply { status, headers, body } = program.relay(provider, &request, taken).await;
    let body = match body {
        RelayBody::Whole(bytes) => Body::from(bytes),
        RelayBody::Stream(pieces) => {
            Body::from_stream(futures_util::stream::unfold(pieces, |mut pieces| async move {
                let piece: Result<Bytes, _> = pieces.recv().await?;
                Some((piece, pieces))
            }))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn refused(status: StatusCode, message: &str) -> Response {
    (status, format!("{message}\n")).into_response()
}
