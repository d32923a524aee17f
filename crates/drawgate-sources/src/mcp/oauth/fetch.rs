//! The few requests of a login: small, bounded, never redirected.

use std::time::{Duration, Instant};

use bytes::Bytes;
use drawgate_core::json;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Map, Value};

use super::address::Address;
use super::error::LoginError;
use drawgate_host::egress::{Body, Egress, EgressError, Reach, read_body};

/// How long one request may take.
const TIME: Duration = Duration::from_secs(10);
/// Metadata and tokens are small.
const MAX_ANSWER: usize = 256 * 1024;

/// An answer.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The body, if it is a JSON object. Not for printing.
    pub(super) members: Option<Map<String, Value>>,
}

/// The way out, and whom a login may reach on it: the server and the issuer that the operator wrote,
/// wherever they are, and for all that others publish, the public internet.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) egress: &'a Egress,
    pub(super) reach: &'a Reach,
}

/// Where a request goes, and what it is called in an error.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) way: Way<'a>,
    pub(super) address: &'a Address,
    pub(super) what: &'static str,
}

impl Target<'_> {
    /// Asks for a document.
    pub(super) async fn get(self) -> Result<Fetched, LoginError> {
        self.send(Method::GET, HeaderMap::new(), Bytes::new()).await
    }

    /// Sends a form.
    pub(super) async fn form(
        self,
        form: String,
        authorization: Option<HeaderValue>,
    ) -> Result<Fetched, LoginError> {
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.extend(authorization.map(|value| (header::AUTHORIZATION, value)));
        self.send(Method::POST, headers, form.into()).await
    }

    /// Sends JSON.
    pub(super) async fn json(self, value: &Value) -> Result<Fetched, LoginError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, accept);
        self.send(Method::POST, headers, value.to_string().into()).await
    }

    async fn send(
        self,
        method: Method,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, LoginError> {
        let accept = HeaderValue::from_static("application/json");
        headers.entry(header::ACCEPT).or_insert(accept);
        let mut request = Request::new(Body::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.address.uri().clone();
        *request.headers_mut() = headers;
        let failed = |error| self.failed(error);
        let deadline = Instant::now() + TIME;
        let response =
            self.way.egress.request(request, self.way.reach, deadline).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        let events = head.headers.get(header::CONTENT_TYPE).is_some_and(is_event_stream);
        let members = if events {
            // It may never end, and nothing in it matters to a login.
            None
        } else {
            object(&read_body(body, MAX_ANSWER, deadline).await.map_err(failed)?)
        };
        Ok(Fetched { status: head.status, headers: head.headers, members })
    }

    fn failed(self, error: EgressError) -> LoginError {
        match error {
            EgressError::Refused { host, reason } => {
                LoginError::Forbidden { what: self.what, host, reason }
            }
            other => LoginError::Network { what: self.what, reason: other.to_string() },
        }
    }
}

fn is_event_stream(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"text/event-stream")
}

fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match json::parse(body) {
        Ok(Value::Object(members)) => Some(members),
        Ok(_) | Err(_) => None,
    }
}

/// A member that is text.
pub(super) fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}
