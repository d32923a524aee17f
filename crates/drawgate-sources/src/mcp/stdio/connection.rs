//! Messages to and from a child: one task writes, one reads, callers wait for their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use drawgate_core::json;
use drawgate_core::model::ToolOutput;
use drawgate_core::source::{CallContext, PermittedCall, SourceError};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::pending::{Delivery, Pending};
use crate::mcp::changes::Changes;
use crate::mcp::diagnostics::Journal;
use crate::mcp::lines::{Line, read_line};
use crate::mcp::progress::Progress;
use crate::mcp::wire::{self, CallParams, Era, Incoming, MAX_MESSAGE, Meta, Request};
use crate::mcp::{Reply, too_late};

/// How many messages may wait for a server that does not read.
const QUEUE: usize = 128;
/// How many kilobytes they may have in all.
const QUEUE_KIB: usize = 64 * 1024;
/// How much is read from the pipe at once.
const READ_BUFFER: usize = 64 * 1024;

/// A message on its way to the server.
struct Outgoing {
    bytes: Vec<u8>,
    /// The request that it is, if it is one.
    request: Option<u64>,
    _room: OwnedSemaphorePermit,
}

/// One child's pipes.
pub(in crate::mcp) struct Connection {
    outgoing: mpsc::Sender<Outgoing>,
    room: Arc<Semaphore>,
    pending: Pending,
    next_id: AtomicU64,
    input_closed: CancellationToken,
    output_closed: CancellationToken,
    journal: Arc<Journal>,
    changes: Changes,
}

impl Connection {
    pub(super) fn open(
        stdin: ChildStdin,
        stdout: ChildStdout,
        journal: Arc<Journal>,
        changes: Changes,
    ) -> Arc<Self> {
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let connection = Arc::new(Self {
            outgoing,
            room: Arc::new(Semaphore::new(QUEUE_KIB)),
            pending: Pending::default(),
            next_id: AtomicU64::new(1),
            input_closed: CancellationToken::new(),
            output_closed: CancellationToken::new(),
            journal,
            changes,
        });
        tokio::spawn(write(Arc::clone(&connection), stdin, queue));
        tokio::spawn(read(Arc::clone(&connection), stdout));
        connection
    }

    /// Calls a tool.
    pub(in crate::mcp) async fn call(
        &self,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let id = self.id();
        let meta = Meta::of_call(Era::Sessions, cx, id);
        let params = CallParams { name: call.tool(), arguments: call.arguments(), meta };
        let bytes = Request::new(id, "tools/call", &params).to_bytes()?;
        let progress = cx.progress.clone().map(|sink| Progress::new(sink, Instant::now()));
        let exchange = self.exchange(id, bytes, progress);
        let reply = timeout_at(cx.deadline.into(), exchange).await.map_err(|_| too_late())??;
        wire::output(reply.result)
    }

    /// A request of the gateway's own. The caller bounds its time.
    pub(in crate::mcp) async fn ask<P: Serialize>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Reply, SourceError> {
        let id = self.id();
        self.exchange(id, Request::new(id, method, params).to_bytes()?, None).await
    }

    /// A notification. The caller bounds its time.
    pub(super) async fn notify(&self, message: &Value) -> Result<(), SourceError> {
        self.send(line(message), None).await
    }

    /// Returns when the server has closed its output.
    pub(super) async fn closed(&self) {
        self.output_closed.cancelled().await;
    }

    /// Ends all calls under way and refuses new ones.
    pub(super) fn fail_all(&self, reason: &str) {
        self.pending.close(reason);
    }

    pub(super) fn close_input(&self) {
        self.input_closed.cancel();
    }

    fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    async fn exchange(
        &self,
        id: u64,
        mut bytes: Vec<u8>,
        progress: Option<Progress>,
    ) -> Result<Reply, SourceError> {
        bytes.push(b'\n');
        let answer = self.pending.enter(id, progress)?;
        let _guard = GiveUp { connection: self, id };
        self.send(bytes, Some(id)).await?;
        answer.await.map_err(|_| stopped())?
    }

    /// Queues a message as soon as there is room for it.
    async fn send(&self, bytes: Vec<u8>, request: Option<u64>) -> Result<(), SourceError> {
        let room = Arc::clone(&self.room).acquire_many_owned(room_for(&bytes));
        let outgoing = Outgoing { request, _room: room.await.map_err(|_| stopped())?, bytes };
        self.outgoing.send(outgoing).await.map_err(|_| stopped())
    }

    /// Sends what may be lost: a full queue means that the server does not read anyway.
    fn try_notify(&self, message: &Value) {
        let bytes = line(message);
        let room = Arc::clone(&self.room).try_acquire_many_owned(room_for(&bytes));
        let sent = room.is_ok_and(|room| {
            self.outgoing.try_send(Outgoing { bytes, request: None, _room: room }).is_ok()
        });
        if !sent {
            tracing::debug!("a message to a server that does not read was dropped");
        }
    }

    fn receive(&self, bytes: &[u8]) {
        match json::parse(bytes) {
            // Revision 2025-03-26 lets servers answer with batches.
            Ok(Value::Array(batch)) => {
                for message in batch {
                    self.take(message, bytes.len());
                }
            }
            Ok(message) => self.take(message, bytes.len()),
            Err(_) => self.journal.ignored(),
        }
    }

    fn take(&self, message: Value, size: usize) {
        let delivery = match wire::sort(message) {
            Incoming::Answer { id, outcome } => {
                self.pending.answer(id, outcome.map(|result| Reply { result, size }))
            }
            Incoming::Progress { token, report } => self.pending.progress(token, report),
            Incoming::Request { reply } => {
                self.try_notify(&reply);
                Delivery::Delivered
            }
            Incoming::ToolsChanged => {
                self.changes.announce();
                Delivery::Delivered
            }
            Incoming::Ignored => Delivery::Delivered,
            Incoming::Nonsense => Delivery::Unknown,
        };
        if delivery == Delivery::Unknown {
            self.journal.ignored();
        }
    }
}

/// Tells the server when nobody waits for an answer any more.
struct GiveUp<'a> {
    connection: &'a Connection,
    id: u64,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if self.connection.pending.give_up(self.id) {
            self.connection.try_notify(&wire::cancelled(self.id));
        }
    }
}

fn stopped() -> SourceError {
    SourceError::unreachable("the server was stopped")
}

/// Kilobytes of the queue that a message takes.
fn room_for(bytes: &[u8]) -> u32 {
    u32::try_from((bytes.len() / 1024 + 1).min(QUEUE_KIB)).unwrap_or(u32::MAX)
}

fn line(message: &Value) -> Vec<u8> {
    let mut bytes = message.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

async fn write(
    connection: Arc<Connection>,
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<Outgoing>,
) {
    let work = async {
        while let Some(outgoing) = queue.recv().await {
            if outgoing.request.is_some_and(|id| !connection.pending.start_writing(id)) {
                continue;
            }
            if stdin.write_all(&outgoing.bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = connection.input_closed.cancelled() => {}
    }
}

async fn read(connection: Arc<Connection>, stdout: ChildStdout) {
    let mut reader = BufReader::with_capacity(READ_BUFFER, stdout);
    let mut buffer = Vec::new();
    loop {
        match read_line(&mut reader, &mut buffer, MAX_MESSAGE).await {
            Ok(Line::Whole) if buffer.trim_ascii().is_empty() => {}
            Ok(Line::Whole) => connection.receive(&buffer),
            // Whose answer it was can't be known, so all who wait must go.
            Ok(Line::TooLong) => connection.pending.fail_written(&SourceError::Protocol(format!(
                "the server sent a message of more than {MAX_MESSAGE} bytes"
            ))),
            Ok(Line::End) | Err(_) => break,
        }
        if buffer.capacity() > READ_BUFFER * 16 {
            buffer = Vec::new();
        }
    }
    connection.output_closed.cancel();
    connection.input_closed.cancel();
}
