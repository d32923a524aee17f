//! A call posted to an address.

use std::time::Instant;

use ::http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use bytes::Bytes;
use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::egress::{Body, EgressError, read_body};

use super::MAX_RESULT;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) async fn perform(
    host: &Host,
    uri: &Uri,
    headers: &HeaderMap,
    call: Vec<u8>,
    deadline: Instant,
) -> Result<Bytes, SourceError> {
    let mut request = Request::new(Body::new(call.into()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(header::CONTENT_TYPE, JSON);
    request.headers_mut().insert(header::ACCEPT, JSON);
    let response =
        host.egress.request(request, deadline).await.map_err(|error| source_error(&error))?;
    let status = response.status();
    let body = read_body(response.into_body(), MAX_RESULT, deadline)
        .await
        .map_err(|error| source_error(&error))?;
    // A failing tool may say so with a status of its own and still send a result.
    let is_result = body.trim_ascii_start().starts_with(b"{");
    if status.is_success() || is_result {
        return Ok(body);
    }
    Err(SourceError::lost(format!("the address answered with HTTP {}", status.as_u16())))
}

fn source_error(error: &EgressError) -> SourceError {
    match error {
        EgressError::Deadline => {
            SourceError::Timeout("there was no result before the deadline".to_owned())
        }
        EgressError::TooLarge(_) => SourceError::Protocol(error.to_string()),
        EgressError::Connect { .. } | EgressError::Address(_) | EgressError::Tls(_) => {
            SourceError::unreachable(error.to_string())
        }
        EgressError::Lost(_) => SourceError::lost(error.to_string()),
    }
}
