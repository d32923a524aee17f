//! Messages to and from a server: one task writes, one reads, callers wait for their answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use drawgate_core::source::{CallContext, PermittedCall, SourceError};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::exchange::{Ending, Exchange, stopped};
use super::pending::Pending;
use crate::mcp::Reply;
use crate::mcp::callers::{ActiveCall, Callers, Delivery, On};
use crate::mcp::context::SourceContext;
use crate::mcp::diagnostics::Journal;
use crate::mcp::messages::{MessageReader, MessageWriter, Received, SendOutcome, too_long};
use crate::mcp::requests::Allowed;
use crate::mcp::wire::{self, CallParams, Era, Form, Incoming, Meta, Request, Unreadable, Whose};

/// How many messages may wait for a server that does not read.
const QUEUE: usize = 128;
/// How many kilobytes they may have in all.
const QUEUE_KIB: usize = 64 * 1024;
/// A buffer that one large message has made larger than this is not kept.
const KEPT_BUFFER: usize = 1024 * 1024;
/// How long a transport may take to say farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// A message on its way to the server.
struct Outgoing {
    bytes: Vec<u8>,
    /// The request that it is, if it is one.
    request: Option<u64>,
    _room: OwnedSemaphorePermit,
}

/// One server's messages, whatever carries them.
pub(in crate::mcp) struct Connection {
    outgoing: mpsc::Sender<Outgoing>,
    room: Arc<Semaphore>,
    pub(super) pending: Pending,
    callers: Arc<Callers>,
    era: OnceLock<Era>,
    next_id: AtomicU64,
    input_closed: CancellationToken,
    output_closed: CancellationToken,
    hung_up: CancellationToken,
    /// Why nothing more comes, once the transport has said so.
    end: OnceLock<String>,
    journal: Arc<Journal>,
    context: SourceContext,
}

impl Connection {
    /// Takes a transport's two ends.
    pub(in crate::mcp) fn open(
        writer: impl MessageWriter,
        reader: impl MessageReader,
        journal: Arc<Journal>,
        context: SourceContext,
    ) -> Arc<Self> {
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let connection = Arc::new(Self {
            outgoing,
            room: Arc::new(Semaphore::new(QUEUE_KIB)),
            pending: Pending::default(),
            callers: Callers::new(context.allowed),
            era: OnceLock::new(),
            next_id: AtomicU64::new(1),
            input_closed: CancellationToken::new(),
            output_closed: CancellationToken::new(),
            hung_up: CancellationToken::new(),
            end: OnceLock::new(),
            journal,
            context,
        });
        tokio::spawn(write(Arc::clone(&connection), writer, queue));
        tokio::spawn(read(Arc::clone(&connection), reader));
        connection
    }

    /// Asks for what a caller wants. The caller bounds its time.
    pub(in crate::mcp) async fn begin(
        self: &Arc<Self>,
        call: &PermittedCall,
        form: Form<'_>,
        cx: &CallContext,
    ) -> Result<Exchange, SourceError> {
        let id = self.id();
        let meta = Meta::of_call(self.era(), self.allowed(), cx, id);
        let params = CallParams::new(call, form, meta);
        let bytes = Request::new(id, form.method(call), &params).to_bytes()?;
        self.exchange(id, bytes, Some(self.callers.enter(id, cx)), Ending::Cancel).await
    }

    /// A request of the gateway's own. The caller bounds its time.
    pub(in crate::mcp) async fn ask<P: Serialize>(
        self: &Arc<Self>,
        method: &str,
        params: &P,
    ) -> Result<Reply, SourceError> {
        let id = self.id();
        let bytes = Request::new(id, method, params).to_bytes()?;
        self.exchange(id, bytes, None, Ending::Cancel).await?.reply().await
    }

    /// A request before the handshake, which the server may not understand.
    pub(in crate::mcp) async fn probe<P: Serialize>(
        self: &Arc<Self>,
        method: &str,
        params: &P,
    ) -> Result<Reply, SourceError> {
        let id = self.id();
        let bytes = Request::new(id, method, params).to_bytes()?;
        self.exchange(id, bytes, None, Ending::Silence).await?.reply().await
    }

    /// The rules that the server follows.
    pub(in crate::mcp) fn era(&self) -> Era {
        self.era.get().copied().unwrap_or_default()
    }

    /// Notes the server's rules, once.
    pub(in crate::mcp) fn set_era(&self, era: Era) {
        self.era.get_or_init(|| era);
    }

    /// What the server may ask of callers.
    pub(in crate::mcp) fn allowed(&self) -> Allowed {
        self.context.allowed
    }

    pub(in crate::mcp) fn context(&self) -> &SourceContext {
        &self.context
    }

    /// Whether calls are under way, those included that wait for their callers' answers.
    pub(in crate::mcp) fn is_busy(&self) -> bool {
        !self.callers.is_empty()
    }

    /// A notification. The caller bounds its time.
    pub(in crate::mcp) async fn notify(&self, message: &Value) -> Result<(), SourceError> {
        self.send(bytes_of(message), None).await
    }

    /// Returns when the server has closed its output.
    pub(in crate::mcp) async fn closed(&self) {
        self.output_closed.cancelled().await;
    }

    /// Why the server's output ended, if the transport knows.
    pub(in crate::mcp) fn end_reason(&self) -> Option<&str> {
        self.end.get().map(String::as_str)
    }

    /// Stops reading. A transport that ends with its reader ends here.
    pub(in crate::mcp) fn hang_up(&self) {
        self.hung_up.cancel();
    }

    /// Ends all calls under way and refuses new ones.
    pub(in crate::mcp) fn fail_all(&self, reason: &str) {
        self.pending.close(reason);
    }

    /// Lets the writer say farewell and end.
    pub(in crate::mcp) fn close_input(&self) {
        self.input_closed.cancel();
    }

    fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        bytes: Vec<u8>,
        active_call: Option<ActiveCall>,
        ending: Ending,
    ) -> Result<Exchange, SourceError> {
        let answer = self.pending.enter(id)?;
        let exchange = Exchange { connection: Arc::clone(self), id, answer, active_call, ending };
        self.send(bytes, Some(id)).await?;
        Ok(exchange)
    }

    /// Queues a message as soon as there is room for it.
    async fn send(&self, bytes: Vec<u8>, request: Option<u64>) -> Result<(), SourceError> {
        let room = Arc::clone(&self.room).acquire_many_owned(room_for(&bytes));
        let outgoing = Outgoing { request, _room: room.await.map_err(|_| stopped())?, bytes };
        self.outgoing.send(outgoing).await.map_err(|_| stopped())
    }

    /// Sends what may be lost: a full queue means that the server does not read anyway.
    pub(super) fn try_notify(&self, message: &Value) {
        let bytes = bytes_of(message);
        let room = Arc::clone(&self.room).try_acquire_many_owned(room_for(&bytes));
        let sent = room.is_ok_and(|room| {
            self.outgoing.try_send(Outgoing { bytes, request: None, _room: room }).is_ok()
        });
        if !sent {
            tracing::debug!("a message to a server that does not read was dropped");
        }
    }

    /// The server did not take a message.
    fn refused(&self, request: Option<u64>, error: SourceError) {
        if let Some(id) = request {
            // It may have been given up.
            let _delivery = self.pending.answer(id, Err(error));
        } else {
            tracing::debug!(%error, "a notification did not reach a server");
        }
    }

    /// The transport has ended. One that gives a reason ends both ways.
    fn over(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            self.end.get_or_init(|| reason);
            self.hang_up();
        }
    }

    fn receive(&self, bytes: &[u8]) {
        match wire::read(bytes) {
            // Revision 2025-03-26 lets servers answer with batches.
            Ok(Value::Array(batch)) => {
                for message in batch {
                    self.take(message, bytes.len());
                }
            }
            Ok(message) => self.take(message, bytes.len()),
            Err(unreadable) => self.fail(&unreadable),
        }
    }

    /// Fails the call whose answer can't be read.
    fn fail(&self, unreadable: &Unreadable) {
        let error = unreadable.to_error();
        let delivery = match unreadable.whose {
            Whose::Request(id) => self.pending.answer(id, Err(error)),
            // All who wait must go, like when an answer is too long.
            Whose::Unclear => {
                self.pending.fail_written(&error);
                Delivery::Delivered
            }
            Whose::Nobodys => Delivery::Unknown,
        };
        if delivery == Delivery::Unknown {
            self.journal.ignored();
        }
    }

    fn take(&self, message: Value, size: usize) {
        let delivery = match wire::sort(message) {
            Incoming::Answer { id, outcome } => {
                self.pending.answer(id, outcome.map(|result| Reply { result, size }))
            }
            Incoming::Progress { token, report } => self.callers.report(token, report),
            Incoming::Log(message) => {
                self.callers.log(On::Any, message);
                Delivery::Delivered
            }
            // Servers of the other era don't ask in this way.
            Incoming::Request(_) if self.era() == Era::Stateless => Delivery::Unknown,
            Incoming::Request(request) => {
                if let Some(reply) = self.callers.ask(On::Any, request) {
                    self.try_notify(&reply);
                }
                Delivery::Delivered
            }
            Incoming::News(news) => {
                self.context.hear(news);
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

/// Kilobytes of the queue that a message takes.
fn room_for(bytes: &[u8]) -> u32 {
    u32::try_from((bytes.len() / 1024 + 1).min(QUEUE_KIB)).unwrap_or(u32::MAX)
}

fn bytes_of(message: &Value) -> Vec<u8> {
    message.to_string().into_bytes()
}

async fn write(
    connection: Arc<Connection>,
    mut writer: impl MessageWriter,
    mut queue: mpsc::Receiver<Outgoing>,
) {
    let work = async {
        while let Some(Outgoing { bytes, request, _room }) = queue.recv().await {
            if request.is_some_and(|id| !connection.pending.start_writing(id)) {
                continue;
            }
            match writer.send(bytes).await {
                SendOutcome::Sent => {}
                SendOutcome::Refused(error) => connection.refused(request, error),
                SendOutcome::Over(reason) => {
                    connection.over(reason);
                    break;
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = connection.input_closed.cancelled() => {}
    }
    let _late = timeout(FAREWELL, writer.close()).await;
}

async fn read(connection: Arc<Connection>, mut reader: impl MessageReader) {
    let work = async {
        let mut buffer = Vec::new();
        loop {
            match reader.next(&mut buffer).await {
                Received::Message => connection.receive(&buffer),
                Received::Noise => connection.journal.ignored(),
                // Whose answer it was can't be known, so all who wait must go.
                Received::TooLong => connection.pending.fail_written(&too_long()),
                Received::End(reason) => break connection.over(reason),
            }
            if buffer.capacity() > KEPT_BUFFER {
                buffer = Vec::new();
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = connection.hung_up.cancelled() => {}
    }
    connection.output_closed.cancel();
    connection.input_closed.cancel();
}
