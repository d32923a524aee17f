//! An MCP client over one connection of its own, with as little in the way as possible.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::answer::{self, Flaw};

const REVISION: &str = "2025-11-25";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Longest wait for a connection; on loopback more means that nobody accepts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Whom to call.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Target {
    /// Address of the server, as `HOST:PORT`; its endpoint is `/mcp`
    #[arg(long)]
    pub(crate) to: String,
    /// Bearer token to send
    #[arg(long)]
    pub(crate) token: Option<String>,
}

/// One connection, with an MCP session after [`Client::initialize`].
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    next_id: u64,
}

/// A right answer: its size, and when the last of it arrived, which is before it was checked.
pub(crate) struct Received {
    pub(crate) bytes: usize,
    pub(crate) at: Instant,
}

impl Client {
    /// Opens the connection.
    pub(crate) async fn connect(target: &Target) -> Result<Self> {
        let connecting = TcpStream::connect(&target.to);
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .with_context(|| format!("`{}` does not accept connections", target.to))??;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, headers: headers(target)?, next_id: 1 })
    }

    /// The status of a GET, with the body thrown away.
    pub(crate) async fn get(&mut self, path: &str) -> Result<u16> {
        let answer = self.send(Method::GET, path, Bytes::new()).await?;
        let status = answer.status().as_u16();
        answer.collect().await?;
        Ok(status)
    }

    /// Opens an MCP session.
    pub(crate) async fn initialize(&mut self) -> Result<()> {
        let message = json!({ "jsonrpc": "2.0", "id": self.take_id(), "method": "initialize",
            "params": { "protocolVersion": REVISION, "capabilities": {},
                "clientInfo": { "name": "drawgate-bench", "version": "1" } } });
        let answer = self.send(Method::POST, "/mcp", message.to_string().into()).await?;
        if let Some(session) = answer.headers().get(SESSION) {
            self.headers.insert(SESSION, session.clone());
        }
        let body = read_message(answer).await?;
        let body: Value = serde_json::from_slice(&body)?;
        let Some(revision) = body.pointer("/result/protocolVersion").and_then(Value::as_str) else {
            bail!("`initialize` was refused: {body}");
        };
        self.headers.insert(PROTOCOL_VERSION, HeaderValue::from_str(revision)?);
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let answer = self.send(Method::POST, "/mcp", message.to_string().into()).await?;
        let status = answer.status();
        answer.collect().await?;
        if !status.is_success() {
            bail!("`notifications/initialized` was refused with status {status}");
        }
        Ok(())
    }

    /// Calls `echo` and checks the answer.
    pub(crate) async fn echo(&mut self, text: &str) -> Result<Received, Flaw> {
        let id = self.take_id();
        let body = self
            .post(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{text}"}}}}}}"#
            ))
            .await?;
        let received = Received { bytes: body.len(), at: Instant::now() };
        answer::check_echo(&body, id, text)?;
        Ok(received)
    }

    /// Has the server say that it is there.
    pub(crate) async fn ping(&mut self) -> Result<(), Flaw> {
        let id = self.take_id();
        let body = self.post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await?;
        answer::check_empty(&body, id)
    }

    /// Calls `echo` without what it needs, which must be refused.
    pub(crate) async fn refused(&mut self) -> Result<(), Flaw> {
        let id = self.take_id();
        let body = self
            .post(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"note":"the message is missing"}}}}}}"#
            ))
            .await?;
        answer::check_refused(&body, id)
    }

    /// Lists all tools, page after page, of which there must be `at_least` so many.
    pub(crate) async fn list(&mut self, at_least: usize) -> Result<Received, Flaw> {
        let (mut tools, mut bytes) = (0, 0);
        let mut cursor = None;
        loop {
            let id = self.take_id();
            let params =
                cursor.map_or_else(|| json!({}), |cursor: String| json!({ "cursor": cursor }));
            let message =
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params });
            let body = self.post(message.to_string()).await?;
            let at = Instant::now();
            bytes += body.len();
            let page = answer::check_list(&body, id)?;
            tools += page.tools;
            cursor = page.next;
            if cursor.is_none() {
                answer::check_count(tools, at_least)?;
                return Ok(Received { bytes, at });
            }
        }
    }

    /// Ends the session. Whether the server has sessions does not matter here.
    pub(crate) async fn end(mut self) {
        if let Ok(answer) = self.send(Method::DELETE, "/mcp", Bytes::new()).await {
            let _ = answer.collect().await;
        }
    }

    fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    async fn post(&mut self, message: String) -> Result<Bytes> {
        let answer = self.send(Method::POST, "/mcp", message.into()).await?;
        read_message(answer).await
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse()?;
        request.headers_mut().clone_from(&self.headers);
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

fn headers(target: &Target) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_str(&target.to)?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accepted = "application/json, text/event-stream";
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    if let Some(token) = &target.token {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}"))?);
    }
    Ok(headers)
}

/// Reads a whole answer, which must be a success, and takes the message out of it.
async fn read_message(answer: Response<Incoming>) -> Result<Bytes> {
    let status = answer.status();
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let event_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let body = answer.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body).chars().take(300).collect::<String>();
        bail!("status {status}: {text}");
    }
    if event_stream {
        return Ok(Bytes::copy_from_slice(answer::event_data(&body)?));
    }
    Ok(body)
}
