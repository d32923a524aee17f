//! HTTP by hand: bytes out, bytes in. What no library would send can be sent.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Gateway, text};

/// How long a connection may take to end before a test fails.
const LIMIT: Duration = Duration::from_mins(1);

/// Everything that came back until the connection ended.
#[derive(Debug)]
pub(crate) struct Received(pub(crate) Vec<u8>);

impl Received {
    /// The status of the first answer; 0 if there was none.
    pub(crate) fn status(&self) -> u16 {
        let line = text(self.0.get(..12).unwrap_or_default());
        line.strip_prefix("HTTP/1.1 ").and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// How many answers came.
    pub(crate) fn answers(&self) -> usize {
        text(&self.0).matches("HTTP/1.1 ").count()
    }

    pub(crate) fn head(&self) -> String {
        text(&self.0).split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase()
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let start = self.0.windows(4).position(|window| window == b"\r\n\r\n");
        start.map_or_else(Vec::new, |start| self.0[start + 4..].to_vec())
    }

    pub(crate) fn rpc_code(&self) -> Option<i64> {
        serde_json::from_slice::<Value>(&self.body()).ok()?["error"]["code"].as_i64()
    }
}

/// What the client does with its side of the connection once everything is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Wait,
    Close,
}

/// Writes bytes and reads until the gateway ends the connection.
pub(crate) async fn exchange(gateway: &Gateway, bytes: &[u8], then: Then) -> Received {
    let stream = TcpStream::connect(&gateway.address).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let bytes = bytes.to_vec();
    let writing = tokio::spawn(async move {
        // The gateway may refuse before everything is written.
        let _ = writer.write_all(&bytes).await;
        if then == Then::Close {
            let _ = writer.shutdown().await;
        }
        writer
    });
    let mut received = Vec::new();
    let read = tokio::time::timeout(LIMIT, reader.read_to_end(&mut received)).await;
    assert!(read.is_ok(), "the connection stayed open after {}", text(&received));
    writing.abort();
    Received(received)
}
