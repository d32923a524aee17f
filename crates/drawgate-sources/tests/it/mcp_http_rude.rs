//! MCP servers over HTTP that break the rules of HTTP itself.

use drawgate_core::source::ToolSource;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::mcp;

#[derive(Debug, Clone, Copy)]
enum Rudeness {
    /// It says for ever that it will answer.
    Chatter,
    /// It says the length of its answer in two ways.
    TwoLengths,
}

/// Serves on a free port, and gives the address.
async fn serve(rudeness: Rudeness) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, rudeness));
        }
    });
    format!("http://{address}/mcp")
}

async fn answer(mut stream: TcpStream, rudeness: Rudeness) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    match rudeness {
        Rudeness::Chatter => {
            while stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").await.is_ok() {}
        }
        Rudeness::TwoLengths => {
            let both = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\
                transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
            // The client may be gone before it has all of it.
            let _gone = stream.write_all(both.as_bytes()).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_breaks_the_rules_of_http_is_not_listened_to() {
    for (rudeness, expected) in [
        (Rudeness::Chatter, "it never comes to the point"),
        (Rudeness::TwoLengths, "it says its length in two ways"),
    ] {
        let source = mcp(json!({ "url": serve(rudeness).await, "start_timeout_ms": 20_000 }));
        let error = source.manifest().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{rudeness:?}: {error}");
        source.close().await;
    }
}
