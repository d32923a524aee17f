//! A call posted to an address.

use std::time::{Duration, Instant};

use ::http::{HeaderValue, Method, Request, header};
use bytes::Bytes;
use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::egress::{Body, read_body};

use super::MAX_RESULT;
use super::exchange::Reply;
use crate::failed_request::source_error;
use crate::server::Address;

/// How long an address may take to say that it is there.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) async fn perform(
    host: &Host,
    target: &Address,
    call: Vec<u8>,
    deadline: Instant,
) -> Result<Reply, SourceError> {
    let mut request = Request::new(Body::new(call.into()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.uri.clone();
    *request.headers_mut() = target.headers.clone();
    request.headers_mut().insert(header::CONTENT_TYPE, JSON);
    request.headers_mut().insert(header::ACCEPT, JSON);
    let response = host
        .egress
        .request(request, &target.reach, deadline)
        .await
        .map_err(|error| source_error(&error))?;
    let status = response.status();
    let refused = (!status.is_success()).then_some(status.as_u16());
    let body = read_body(response.into_body(), MAX_RESULT, deadline)
        .await
        .map_err(|error| source_error(&error))?;
    Ok(Reply { body, refused })
}

/// Checks that a server answers, with whatever status. Sends no credentials.
pub(super) async fn check(host: &Host, target: &Address) -> Result<(), SourceError> {
    let mut request = Request::new(Body::new(Bytes::new()));
    *request.method_mut() = Method::HEAD;
    *request.uri_mut() = target.uri.clone();
    let deadline = Instant::now() + CHECK_TIMEOUT;
    let asked = host.egress.request(request, &target.reach, deadline).await;
    asked.map(drop).map_err(|error| source_error(&error))
}
