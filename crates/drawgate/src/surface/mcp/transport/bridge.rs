//! From standard input and output to a gateway's control socket: each line is one message.
//!
//! The bridge knows nothing of tools. It remembers the client's `initialize`, so that it can open a
//! new session when the gateway behind it has changed.

mod lines;
mod lost;
mod summary;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use drawgate_core::model::Principal;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::lines::{InputLine, MAX_LINE, read_line, write_lines};
use self::lost::{NoAnswer, told};
use self::summary::{Kind, MessageSummary, question_id, request_id};
use crate::surface::mcp::wire::era::SESSION_HEADER;
use crate::surface::mcp::wire::message::{INTERNAL_ERROR, INVALID_REQUEST};

/// The header by which the owner of the folder acts as one of the agents.
pub const AS_AGENT: &str = "drawgate-agent";

/// Lines that wait to be written.
const MAX_WAITING: usize = 64;
/// Messages under way at once; more wait in the pipe.
const MAX_OPEN: usize = 256;

/// Starts a gateway where none answers on the socket.
#[async_trait]
pub trait GatewayStarter: Send + Sync {
    /// Returns when one does.
    async fn ensure(&self) -> anyhow::Result<()>;
}

/// The bridge of one client.
#[derive(Clone)]
pub struct Bridge {
    shared: Arc<Shared>,
}

struct Shared {
    socket: PathBuf,
    agent: Option<Principal>,
    starter: Arc<dyn GatewayStarter>,
    state: Mutex<State>,
    /// Ends the stream of notices when the input has ended.
    closing: CancellationToken,
}

#[derive(Default)]
struct State {
    session: Option<String>,
    initialize: Option<Bytes>,
    /// Requests that the bridge itself can cancel, by their ids.
    open: HashMap<String, CancellationToken>,
    /// Questions of the gateway that the client has not answered, by their ids.
    asked: HashMap<String, Value>,
    /// The input has ended, so that nothing can be answered any more.
    ended: bool,
}

impl Bridge {
    /// A bridge to the gateway at a socket.
    #[must_use]
    pub fn new(
        socket: PathBuf,
        agent: Option<Principal>,
        starter: Arc<dyn GatewayStarter>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                socket,
                agent,
                starter,
                state: Mutex::default(),
                closing: CancellationToken::new(),
            }),
        }
    }

    /// Carries messages until the input ends; answers that are under way are still written.
    pub async fn run(
        &self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> anyhow::Result<()> {
        let (lines, waiting) = mpsc::channel(MAX_WAITING);
        let writer = tokio::spawn(write_lines(output, waiting));
        let open = Arc::new(tokio::sync::Semaphore::new(MAX_OPEN));
        let tasks = TaskTracker::new();
        let mut input = BufReader::new(input);
        while let Some(line) = read_line(&mut input).await? {
            let InputLine::Whole(line) = line else {
                let refused = json!({ "jsonrpc": "2.0", "id": null, "error": {
                    "code": INVALID_REQUEST, "message": format!("a message is larger than {MAX_LINE} bytes") } });
                lines.send(Bytes::from(refused.to_string())).await?;
                continue;
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let message = MessageSummary::of(&line);
            match message.kind {
                Kind::Cancel if self.give_up(&message) => {}
                // What opens or cancels must not be overtaken by what follows it, and an answer to a
                // question must not wait behind the calls that ask.
                Kind::Initialize | Kind::Notification | Kind::Cancel | Kind::Response => {
                    self.shared.state.lock().asked.remove(&message.id);
                    self.carry(line, message.kind, &lines).await;
                }
                Kind::Request | Kind::Alone | Kind::Listen => {
                    let permit = Arc::clone(&open).acquire_owned().await?;
                    let kind = message.kind;
                    let given_up = self.begin(&message);
                    let work = self.clone().perform(line, message, given_up, lines.clone(), permit);
                    if kind == Kind::Listen {
                        // Has no end of its own, so the end of the input does not wait for it.
                        tokio::spawn(work);
                    } else {
                        tasks.spawn(work);
                    }
                }
            }
        }
        self.refuse_questions().await;
        tasks.close();
        tasks.wait().await;
        self.shared.closing.cancel();
        drop(lines);
        writer.await??;
        Ok(())
    }

    /// With its input the client has ended all that it could answer.
    async fn refuse_questions(&self) {
        let asked = {
            let mut state = self.shared.state.lock();
            state.ended = true;
            std::mem::take(&mut state.asked)
        };
        for id in asked.into_values() {
            self.refuse(&id).await;
        }
    }

    async fn refuse(&self, id: &Value) {
        let refusal = json!({ "jsonrpc": "2.0", "id": id, "error": {
            "code": INTERNAL_ERROR, "message": "the client has ended its input" } });
        // A gateway that is gone asks nothing.
        drop(self.post(Bytes::from(refusal.to_string())).await);
    }

    /// Passes a message of a stream on to the client; a question that comes too late is refused.
    async fn pass(&self, message: Bytes, lines: &mpsc::Sender<Bytes>) -> anyhow::Result<()> {
        if let Some(id) = question_id(&message) {
            let ended = {
                let mut state = self.shared.state.lock();
                if !state.ended {
                    state.asked.insert(id.to_string(), id.clone());
                }
                state.ended
            };
            if ended {
                self.refuse(&id).await;
                return Ok(());
            }
        }
        Ok(lines.send(message).await?)
    }

    async fn perform(
        self,
        line: Bytes,
        message: MessageSummary,
        given_up: CancellationToken,
        lines: mpsc::Sender<Bytes>,
        permit: OwnedSemaphorePermit,
    ) {
        tokio::select! {
            () = self.carry(line, message.kind, &lines) => {}
            () = given_up.cancelled() => {}
        }
        self.shared.state.lock().open.remove(&message.id);
        drop(permit);
    }

    /// Notes a request that only the bridge can cancel: without a session the gateway knows it by
    /// its connection alone.
    fn begin(&self, message: &MessageSummary) -> CancellationToken {
        match message.kind {
            Kind::Alone | Kind::Listen => {
                let given_up = self.shared.closing.child_token();
                let mut state = self.shared.state.lock();
                state.open.insert(message.id.clone(), given_up.clone());
                given_up
            }
            Kind::Initialize
            | Kind::Request
            | Kind::Notification
            | Kind::Cancel
            | Kind::Response => CancellationToken::new(),
        }
    }

    /// Cancels such a request. `false` if it is another.
    fn give_up(&self, message: &MessageSummary) -> bool {
        let request = self.shared.state.lock().open.remove(&message.id);
        request.inspect(CancellationToken::cancel).is_some()
    }

    async fn carry(&self, line: Bytes, kind: Kind, lines: &mpsc::Sender<Bytes>) {
        if kind == Kind::Initialize {
            let mut state = self.shared.state.lock();
            state.initialize = Some(line.clone());
            state.session = None;
        }
        if let Err(error) = self.exchange(line.clone(), kind, lines).await {
            tracing::warn!(error = format!("{error:#}"), "a message could not be carried");
            if let Some(id) = request_id(&line).filter(|_| kind != Kind::Response) {
                let refused = json!({ "jsonrpc": "2.0", "id": id, "error": {
                    "code": INTERNAL_ERROR, "message": told(&error) } });
                // The client may be gone; then the message is dropped.
                let _ = lines.send(Bytes::from(refused.to_string())).await;
            }
        }
    }

    async fn exchange(
        &self,
        line: Bytes,
        kind: Kind,
        lines: &mpsc::Sender<Bytes>,
    ) -> anyhow::Result<()> {
        let id = request_id(&line).unwrap_or(Value::Null);
        let sent = self.post(line.clone()).await;
        let answer = match sent {
            Ok(answer) if answer.status() != StatusCode::NOT_FOUND || kind == Kind::Initialize => {
                answer
            }
            // The gateway has changed: nothing was done yet, so the message goes to the new one.
            Ok(_) => {
                self.reopen(lines).await?;
                self.post(line).await?
            }
            Err(NoAnswer::BeforeSending(_)) => {
                self.shared.starter.ensure().await?;
                self.reopen(lines).await?;
                self.post(line).await.map_err(NoAnswer::into_error)?
            }
            Err(lost @ NoAnswer::Perhaps(_)) => return Err(lost.into_error()),
        };
        if kind == Kind::Initialize {
            self.opened(&answer, lines);
        }
        let expects = !matches!(kind, Kind::Notification | Kind::Cancel | Kind::Response);
        if expects && is_plain_refusal(&answer) {
            let body = answer.into_body().collect().await.context("the answer ended early")?;
            let text = String::from_utf8_lossy(&body.to_bytes()).trim().to_owned();
            let refused = json!({ "jsonrpc": "2.0", "id": id, "error": {
                "code": INVALID_REQUEST, "message": text } });
            lines.send(Bytes::from(refused.to_string())).await?;
            return Ok(());
        }
        self.forward(answer, lines).await
    }

    /// Opens a session anew with what the client said at first.
    async fn reopen(&self, lines: &mpsc::Sender<Bytes>) -> anyhow::Result<()> {
        let initialize = {
            let mut state = self.shared.state.lock();
            state.session = None;
            state.initialize.clone()
        };
        let Some(initialize) = initialize else { return Ok(()) };
        let answer = self.post(initialize).await.map_err(NoAnswer::into_error)?;
        self.opened(&answer, lines);
        Ok(())
    }

    fn opened(&self, answer: &Response<Incoming>, lines: &mpsc::Sender<Bytes>) {
        let session = answer.headers().get(SESSION_HEADER).and_then(|value| value.to_str().ok());
        let Some(session) = session.map(str::to_owned) else { return };
        self.shared.state.lock().session = Some(session);
        let (bridge, lines) = (self.clone(), lines.clone());
        tokio::spawn(async move {
            // Without the stream the client misses notices of changes, nothing else.
            let stream = async {
                if let Ok(answer) = bridge.send(Method::GET, Bytes::new()).await {
                    let _ = bridge.forward(answer, &lines).await;
                }
            };
            tokio::select! {
                () = stream => {}
                () = bridge.shared.closing.cancelled() => {}
            }
        });
    }

    /// Writes an answer's messages as lines: one for JSON, one per event for a stream.
    async fn forward(
        &self,
        answer: Response<Incoming>,
        lines: &mpsc::Sender<Bytes>,
    ) -> anyhow::Result<()> {
        let kind = answer
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if kind.starts_with("application/json") {
            let body =
                answer.into_body().collect().await.context("the answer ended early")?.to_bytes();
            lines.send(body).await?;
            return Ok(());
        }
        if !kind.starts_with("text/event-stream") {
            return Ok(());
        }
        let mut body = answer.into_body();
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.context("the stream ended early")?.into_data() {
                text.extend_from_slice(&data);
            }
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                if let Some(message) = event_data(&event) {
                    self.pass(message, lines).await?;
                }
            }
        }
        Ok(())
    }

    async fn post(&self, line: Bytes) -> Result<Response<Incoming>, NoAnswer> {
        self.send(Method::POST, line).await
    }

    async fn send(&self, method: Method, body: Bytes) -> Result<Response<Incoming>, NoAnswer> {
        let stream = UnixStream::connect(&self.shared.socket).await;
        let stream = stream.map_err(|error| NoAnswer::BeforeSending(error.into()))?;
        let connected = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) =
            connected.map_err(|error| NoAnswer::BeforeSending(error.into()))?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.shared.state.lock().session {
            request = request.header(SESSION_HEADER, session);
        }
        if let Some(agent) = &self.shared.agent {
            request = request.header(AS_AGENT, agent.as_str());
        }
        let request = request
            .body(Body::from(body))
            .map_err(|error| NoAnswer::BeforeSending(error.into()))?;
        sender.send_request(request).await.map_err(|error| {
            // A connection that was closed before it took the request: the gateway ends just now.
            if error.is_canceled() {
                NoAnswer::BeforeSending(error.into())
            } else {
                NoAnswer::Perhaps(error.into())
            }
        })
    }
}

/// A refusal before the protocol's own form applied, such as of a body that is too large.
fn is_plain_refusal(answer: &Response<Incoming>) -> bool {
    let kind = answer
        .headers()
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let is_message = kind.starts_with("application/json") || kind.starts_with("text/event-stream");
    !answer.status().is_success() && !is_message
}

/// Our own events have exactly one line of data.
fn event_data(event: &[u8]) -> Option<Bytes> {
    let data = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: "))?;
    Some(Bytes::copy_from_slice(data))
}
