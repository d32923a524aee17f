//! Many clients at once, each with its own connection, that survive the end of the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::{Gateway, TestFolder, eventually};

/// The program of `tests/fixtures/server.py` as a server called `fixture`.
pub(crate) fn fixture() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
    format!("[servers.fixture]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"{script}\"]\n")
}

/// One connection that stays open.
pub(crate) struct Client {
    sender: SendRequest<Body>,
    address: String,
    token: String,
}

impl Client {
    pub(crate) async fn connect(address: &str, token: &str) -> Result<Self, Lost> {
        let stream = TcpStream::connect(address).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, address: address.to_owned(), token: token.to_owned() })
    }

    /// Calls a tool by revision 2026-07-28 and returns the whole answer.
    pub(crate) async fn call(
        &mut self,
        id: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, Lost> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let message =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let request = Request::post("/mcp")
            .header("host", &self.address)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .body(Body::from(message.to_string()))
            .unwrap();
        self.sender.ready().await?;
        let body = self.sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        assert_eq!(answer["id"], id);
        Ok(answer)
    }
}

/// The connection ended before the answer.
#[derive(Debug)]
pub(crate) struct Lost;

impl<E: std::error::Error> From<E> for Lost {
    fn from(_: E) -> Self {
        Self
    }
}

/// Clients that call until they are told to stop or the gateway is gone.
pub(crate) struct Load {
    clients: Vec<JoinHandle<Vec<String>>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Starts them. Ids begin with `label`, and each is used once.
    pub(crate) fn start(gateway: &Gateway, label: &str, clients: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..clients).map(|number| {
            let (address, token) = (gateway.address.clone(), gateway.token.clone());
            tokio::spawn(call_on(
                address,
                token,
                format!("{label}-{number}"),
                number,
                Arc::clone(&stop),
            ))
        });
        Self { clients: clients.collect(), stop }
    }

    /// The ids of all calls that were answered.
    pub(crate) async fn answered(self) -> Vec<String> {
        let mut all = Vec::new();
        for client in self.clients {
            all.extend(client.await.unwrap());
        }
        all
    }

    /// The same, after the call that each client is at.
    pub(crate) async fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.answered().await
    }
}

async fn call_on(
    address: String,
    token: String,
    label: String,
    number: usize,
    stop: Arc<AtomicBool>,
) -> Vec<String> {
    let mut answered = Vec::new();
    let Ok(mut client) = Client::connect(&address, &token).await else { return answered };
    for count in 0.. {
        let id = format!("{label}-{count}");
        let path = format!("{number}.txt");
        let (tool, arguments) = match (number + count) % 3 {
            0 => ("vfs_write", json!({ "path": path, "content": id })),
            1 => ("vfs_read", json!({ "path": path })),
            _ => ("fixture__echo", json!({ "id": id })),
        };
        if stop.load(Ordering::Relaxed) || client.call(&id, tool, &arguments).await.is_err() {
            break;
        }
        answered.push(id);
    }
    answered
}

/// All events of a data folder, oldest first.
pub(crate) fn events(place: &TestFolder) -> Vec<Value> {
    let export = place.ok(&["audit", "export", "--events-only"]);
    export.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until the local user sees a tool.
pub(crate) async fn offers(gateway: &Gateway, tool: &str) {
    eventually(tool, async || {
        gateway.tool_names(&gateway.token).await.iter().any(|name| name == tool).then_some(())
    })
    .await;
}
