//! WebSocket with the subprotocol `mcp`: one text message for each message of the protocol.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderValue, Request, Uri, header};
use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::egress::{Body, Reach, Upgrade, UpgradedStream};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};

use super::context::SourceContext;
use super::diagnostics::Journal;
use super::http::refused;
use super::remote::Remote;
use super::wire::MAX_MESSAGE;
use crate::failed_request::source_error;
use crate::line_rpc::{MessageReader, MessageWriter, Received, SendOutcome};

/// The subprotocol that makes a WebSocket an MCP connection.
const SUBPROTOCOL: &str = "mcp";
/// How long a server may take to answer a farewell.
const GRACE: Duration = Duration::from_secs(1);

/// How to reach the server.
pub(super) struct Dialer {
    pub(super) host: Arc<Host>,
    /// Its address, with `http` for `ws` and `https` for `wss`.
    pub(super) uri: Uri,
    /// The operator's own headers.
    pub(super) headers: HeaderMap,
    pub(super) reach: Reach,
    pub(super) start_timeout: Duration,
}

impl Dialer {
    /// Opens the connection and shakes hands, first as the transport asks, then as MCP does.
    pub(super) async fn connect(
        &self,
        journal: &Arc<Journal>,
        context: &SourceContext,
    ) -> Result<Remote, SourceError> {
        let deadline = Instant::now() + self.start_timeout;
        let stream = self.open(deadline).await?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await;
        let (sink, stream) = socket.split();
        let reader = Reading { stream, over: None };
        Remote::meet(Writing(sink), reader, GRACE, (journal, context), deadline).await
    }

    async fn open(&self, deadline: Instant) -> Result<UpgradedStream, SourceError> {
        let key = generate_key();
        let mut request = Request::new(Body::default());
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().extend(self.headers.clone());
        let fixed = [
            (header::CONNECTION, "Upgrade"),
            (header::UPGRADE, "websocket"),
            (header::SEC_WEBSOCKET_VERSION, "13"),
            (header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL),
        ];
        for (name, value) in fixed {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Ok(key) = HeaderValue::from_str(&key) {
            request.headers_mut().insert(header::SEC_WEBSOCKET_KEY, key);
        }
        match self.host.egress.upgrade(request, &self.reach, deadline).await {
            Ok(Upgrade::Agreed { headers, stream }) => check(&headers, &key).map(|()| stream),
            Ok(Upgrade::Refused(response)) if response.status().is_success() => {
                Err(SourceError::Protocol("the server does not speak WebSocket here".to_owned()))
            }
            Ok(Upgrade::Refused(response)) => Err(refused(response.status())),
            Err(error) => Err(source_error(&error)),
        }
    }
}

/// Whether the answer is one to this request, and for MCP.
fn check(headers: &HeaderMap, key: &str) -> Result<(), SourceError> {
    let is = |name, expected: &str| headers.get(name).is_some_and(|value| value == expected);
    let upgraded = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    let problem = if !upgraded.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
        || !is(header::SEC_WEBSOCKET_ACCEPT, &derive_accept_key(key.as_bytes()))
    {
        "the server's answer does not open a WebSocket"
    } else if !is(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        "the server does not speak the WebSocket subprotocol `mcp`"
    } else if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        "the server uses WebSocket extensions that were not offered"
    } else {
        return Ok(());
    };
    Err(SourceError::Protocol(problem.to_owned()))
}

struct Writing(SplitSink<WebSocketStream<UpgradedStream>, Message>);

impl MessageWriter for Writing {
    async fn send(&mut self, message: Vec<u8>) -> SendOutcome {
        // JSON that the gateway wrote is text.
        let Ok(text) = String::from_utf8(message) else { return SendOutcome::Sent };
        match self.0.send(Message::text(text)).await {
            Ok(()) => SendOutcome::Sent,
            Err(error) => SendOutcome::Over(Some(lost(&error))),
        }
    }

    async fn close(&mut self) {
        // It fails when the connection is already gone, which is as well.
        let _gone = self.0.close().await;
    }
}

struct Reading {
    stream: SplitStream<WebSocketStream<UpgradedStream>>,
    over: Option<String>,
}

impl MessageReader for Reading {
    async fn next(&mut self, buffer: &mut Vec<u8>) -> Received {
        if let Some(reason) = self.over.take() {
            return Received::End(Some(reason));
        }
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    buffer.clear();
                    buffer.extend_from_slice(text.as_bytes());
                    return Received::Message;
                }
                Some(Ok(Message::Binary(_))) => return Received::Noise,
                // Pings are answered by the library when it is asked for the next message.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => return Received::End(Some(farewell(frame))),
                Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                    let reason =
                        format!("the server sent a message of more than {MAX_MESSAGE} bytes");
                    self.over = Some(reason);
                    return Received::TooLong;
                }
                Some(Err(error)) => return Received::End(Some(lost(&error))),
                None => return Received::End(Some("the server closed the connection".to_owned())),
            }
        }
    }
}

fn farewell(frame: Option<CloseFrame>) -> String {
    match frame {
        None => "the server closed the connection".to_owned(),
        Some(frame) => {
            let reason: String = frame.reason.as_str().chars().take(200).collect();
            let code = u16::from(frame.code);
            format!("the server closed the connection: {code} `{}`", reason.escape_debug())
        }
    }
}

fn lost(error: &Error) -> String {
    format!("the connection was lost: {error}")
}
