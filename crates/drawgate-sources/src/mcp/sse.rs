//! HTTP with server-sent events, the transport of revision 2024-11-05: one stream brings everything,
//! and messages go to an address that the stream names first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header, uri};
use drawgate_core::source::SourceError;
use drawgate_host::egress::{Body, read_body};
use tokio::time::timeout_at;

use super::context::SourceContext;
use super::diagnostics::Journal;
use super::http::{AuthenticatedEgress, Media, Stream, media_type, refused};
use super::remote::{Remote, too_slow};
use crate::line_rpc::{MessageReader, MessageWriter, Received, SendOutcome};

/// How long a server may take to accept a message; the answer comes over the stream.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of the answer to a message is read, so that its connection can be used again.
const MAX_RECEIPT: usize = 64 * 1024;
/// The longest address for messages that is used.
const MAX_ENDPOINT: usize = 8 * 1024;
/// The stream has no word for a farewell.
const GRACE: Duration = Duration::ZERO;

/// How to reach the server.
pub(super) struct Dialer {
    pub(super) egress: AuthenticatedEgress,
    pub(super) uri: Uri,
    /// The operator's own headers.
    pub(super) headers: HeaderMap,
    pub(super) start_timeout: Duration,
}

impl Dialer {
    /// Opens the stream and shakes hands.
    pub(super) async fn connect(
        &self,
        journal: &Arc<Journal>,
        context: &SourceContext,
    ) -> Result<Remote, SourceError> {
        let deadline = Instant::now() + self.start_timeout;
        // The transport is older than the era without.
        context.memory.has_sessions();
        let mut stream = self.open(deadline).await?;
        let named = timeout_at(deadline.into(), named_endpoint(&mut stream)).await;
        let endpoint = resolve(&self.uri, &named.map_err(|_| no_endpoint())??)?;
        let writer = Posts { egress: self.egress.clone(), endpoint, headers: self.for_posts() };
        Remote::meet(writer, Events { stream, over: None }, GRACE, (journal, context), deadline)
            .await
    }

    async fn open(&self, deadline: Instant) -> Result<Stream, SourceError> {
        let mut request = Request::new(Body::default());
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().extend(self.headers.clone());
        let accept = HeaderValue::from_static("text/event-stream");
        request.headers_mut().insert(header::ACCEPT, accept);
        let response = self.egress.request(request, deadline).await?;
        if !response.status().is_success() {
            return Err(refused(response.status()));
        }
        match media_type(response.headers()) {
            Media::Events => Ok(Stream::new(response.into_body())),
            Media::Json | Media::Other => Err(SourceError::Protocol(
                "the server's answer is no event stream; is it a `streamable_http` server?"
                    .to_owned(),
            )),
        }
    }

    fn for_posts(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
    }
}

/// Waits for the event that says where messages go. The caller bounds its time.
async fn named_endpoint(stream: &mut Stream) -> Result<String, SourceError> {
    while let Some(event) = stream.next().await? {
        if event.name == b"endpoint" {
            let text = String::from_utf8(event.data).ok();
            return text.filter(|text| text.len() <= MAX_ENDPOINT).ok_or_else(|| bad_endpoint("?"));
        }
    }
    Err(SourceError::unreachable("the server ended its event stream before it named an endpoint"))
}

fn no_endpoint() -> SourceError {
    let SourceError::Unavailable { message, sent } = too_slow() else { return too_slow() };
    SourceError::Unavailable { message: format!("no event `endpoint` came: {message}"), sent }
}

/// The address for messages. It must be of the stream's own origin: a server must not direct the
/// gateway, with the operator's headers, to a third party.
fn resolve(base: &Uri, named: &str) -> Result<Uri, SourceError> {
    let named = named.trim();
    let bad = || bad_endpoint(named);
    if named.is_empty() || named.contains('\\') || named.contains('@') && !named.starts_with('/') {
        return Err(bad());
    }
    let (scheme, authority) = (base.scheme_str().unwrap_or("http"), base.authority());
    let authority = authority.map_or("", uri::Authority::as_str);
    let text = if named.starts_with("//") {
        format!("{scheme}:{named}")
    } else if named.starts_with('/') {
        format!("{scheme}://{authority}{named}")
    } else if named.contains("://") {
        named.to_owned()
    } else if named.starts_with('?') {
        format!("{scheme}://{authority}{}{named}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{named}")
    };
    let resolved: Uri = text.parse().map_err(|_| bad())?;
    if origin(&resolved).is_some() && origin(&resolved) == origin(base) {
        Ok(resolved)
    } else {
        Err(bad())
    }
}

fn origin(uri: &Uri) -> Option<(String, String, u16)> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let authority = uri.authority()?;
    let default = if scheme == "https" { 443 } else { 80 };
    let plain = !authority.as_str().contains('@');
    let host = authority.host().to_ascii_lowercase();
    plain.then_some((scheme, host, authority.port_u16().unwrap_or(default)))
}

fn bad_endpoint(named: &str) -> SourceError {
    let shown: String = named.chars().take(200).collect();
    SourceError::Protocol(format!(
        "the server wants messages at `{}`, which is not an address of its own; they are not sent",
        shown.escape_debug()
    ))
}

/// Sends each message with a request of its own.
struct Posts {
    egress: AuthenticatedEgress,
    endpoint: Uri,
    headers: HeaderMap,
}

impl MessageWriter for Posts {
    async fn send(&mut self, message: Vec<u8>) -> SendOutcome {
        let deadline = Instant::now() + ACCEPT_TIMEOUT;
        let mut request = Request::new(Body::from(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.clone();
        *request.headers_mut() = self.headers.clone();
        let response = match self.egress.request(request, deadline).await {
            Ok(response) => response,
            Err(closed) => return SendOutcome::Refused(closed.into()),
        };
        let status = response.status();
        let _receipt = read_body(response.into_body(), MAX_RECEIPT, deadline).await;
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                SendOutcome::Over(Some("the server has forgotten the connection".to_owned()))
            }
            status if status.is_success() => SendOutcome::Sent,
            status => SendOutcome::Refused(refused(status)),
        }
    }
}

/// The stream's messages.
struct Events {
    stream: Stream,
    over: Option<String>,
}

impl MessageReader for Events {
    async fn next(&mut self, buffer: &mut Vec<u8>) -> Received {
        if let Some(reason) = self.over.take() {
            return Received::End(Some(reason));
        }
        match self.stream.next().await {
            Ok(Some(event)) if matches!(event.name.as_slice(), b"" | b"message") => {
                *buffer = event.data;
                Received::Message
            }
            Ok(Some(_)) => Received::Noise,
            Ok(None) => Received::End(Some("the server ended its event stream".to_owned())),
            Err(SourceError::Protocol(reason)) => {
                self.over = Some(reason);
                Received::TooLong
            }
            Err(error) => Received::End(Some(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_of_the_same_origin() {
        let base: Uri = "https://Host.example/a/sse?x=1".parse().unwrap();
        let good = [
            ("/messages?id=1", "https://host.example/messages?id=1"),
            ("messages", "https://host.example/a/messages"),
            ("?id=1", "https://host.example/a/sse?id=1"),
            ("//HOST.example/m", "https://host.example/m"),
            ("https://host.example:443/m", "https://host.example:443/m"),
            ("/m?mail=a@b", "https://host.example/m?mail=a@b"),
            ("../up", "https://host.example/a/../up"),
        ];
        for (named, expected) in good {
            let resolved = resolve(&base, named).unwrap_or_else(|error| panic!("{named}: {error}"));
            assert_eq!(resolved.to_string().to_ascii_lowercase(), expected, "{named}");
        }
        let bad = [
            "",
            "http://host.example/m",
            "https://evil.example/m",
            "//evil.example/m",
            "https://host.example:444/m",
            "https://host.example@evil.example/m",
            "/\\evil.example",
            "\\\\evil.example",
            "https:evil.example",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://me:pw@host.example/m",
            "/a b",
            "//host.example@evil.example/",
            "ftp://host.example/",
            "/\r\nX: y",
        ];
        for named in bad {
            if let Ok(resolved) = resolve(&base, named) {
                assert_eq!(origin(&resolved), origin(&base), "{named} became {resolved}");
                assert!(!named.contains("//"), "{named} became {resolved}");
            }
        }
    }
}
