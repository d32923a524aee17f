//! Messages to and from a peer: one task writes, one reads, callers wait for their answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use drawgate_core::source::SourceError;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::messages::{MessageReader, MessageWriter, Received, SendOutcome};
use super::pending::Pending;
use super::unreadable::{self, Unreadable, Whose};
use super::wire::{self, Envelope};
use crate::pace::Pace;

/// How many messages may wait for a peer that does not read.
const QUEUE: usize = 128;
/// How many kilobytes they may have in all.
const QUEUE_KIB: usize = 64 * 1024;
/// A buffer that one large message has made larger than this is not kept.
const KEPT_BUFFER: usize = 1024 * 1024;
/// How long a transport may take to say farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// The result of a request.
#[derive(Debug)]
pub struct Reply {
    /// The members of the result.
    pub result: Map<String, Value>,
    /// Bytes of the message that it came in.
    pub size: usize,
}

/// What became of a request.
pub type Outcome = Result<Reply, SourceError>;

/// Whether a message was meant for a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It was.
    Delivered,
    /// Nothing waits for it.
    Unknown,
}

/// What the peer is told when a request is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// That the request is cancelled.
    Cancel,
    /// Nothing: before the handshake is done it would not understand.
    Silence,
}

/// Gets the messages of a peer.
pub trait Receiver: Send + Sync + 'static {
    /// A message that could be parsed, and how many bytes it had.
    fn message(&self, message: Envelope, size: usize);

    /// Something came that is meant for nobody.
    fn ignored(&self);
}

/// A message on its way to the peer.
struct Outgoing {
    bytes: Vec<u8>,
    /// The request that it is, if it is one.
    request: Option<u64>,
    _room: OwnedSemaphorePermit,
}

/// One peer's messages, whatever carries them.
pub struct Link {
    outgoing: mpsc::Sender<Outgoing>,
    room: Arc<Semaphore>,
    pending: Pending,
    next_id: AtomicU64,
    /// How many requests were answered.
    answered: AtomicU64,
    /// The largest message that the transport reads.
    max_message: usize,
    input_closed: CancellationToken,
    output_closed: CancellationToken,
    hung_up: CancellationToken,
    /// Why nothing more comes, once the transport has said so.
    end: OnceLock<String>,
}

impl Link {
    /// Takes the end of a transport that writes. Nothing is read until [`listen`](Self::listen).
    pub fn open(writer: impl MessageWriter, max_message: usize) -> Arc<Self> {
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let link = Arc::new(Self {
            outgoing,
            room: Arc::new(Semaphore::new(QUEUE_KIB)),
            pending: Pending::default(),
            next_id: AtomicU64::new(1),
            answered: AtomicU64::new(0),
            max_message,
            input_closed: CancellationToken::new(),
            output_closed: CancellationToken::new(),
            hung_up: CancellationToken::new(),
            end: OnceLock::new(),
        });
        tokio::spawn(write(Arc::clone(&link), writer, queue));
        link
    }

    /// Takes the end of the transport that reads.
    pub fn listen(self: &Arc<Self>, reader: impl MessageReader, receiver: Arc<impl Receiver>) {
        tokio::spawn(listen(Arc::clone(self), reader, receiver));
    }

    /// The id of the next request.
    pub fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request that has this id. The caller bounds its time.
    pub async fn request(
        self: &Arc<Self>,
        id: u64,
        bytes: Vec<u8>,
        ending: Ending,
    ) -> Result<Waiting, SourceError> {
        let answer = self.pending.enter(id)?;
        let waiting = Waiting { link: Arc::clone(self), id, answer, ending };
        self.send(bytes, Some(id)).await?;
        Ok(waiting)
    }

    /// Sends a notification or an answer. The caller bounds its time.
    pub async fn notify(&self, message: &Value) -> Result<(), SourceError> {
        self.send(bytes_of(message), None).await
    }

    /// Sends what may be lost: a full queue means that the peer does not read anyway.
    pub fn try_notify(&self, message: &Value) {
        let bytes = bytes_of(message);
        let room = Arc::clone(&self.room).try_acquire_many_owned(room_for(&bytes));
        let sent = room.is_ok_and(|room| {
            self.outgoing.try_send(Outgoing { bytes, request: None, _room: room }).is_ok()
        });
        if !sent {
            tracing::debug!("a message to a server that does not read was dropped");
        }
    }

    /// Gives an answer to the request that waits for it.
    pub fn answer(&self, id: u64, outcome: Outcome) -> Delivery {
        let delivery = self.pending.answer(id, outcome);
        if delivery == Delivery::Delivered {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        delivery
    }

    /// Returns when the peer has closed its output.
    pub async fn closed(&self) {
        self.output_closed.cancelled().await;
    }

    /// Why the peer's output ended, if the transport knows.
    pub fn end_reason(&self) -> Option<&str> {
        self.end.get().map(String::as_str)
    }

    /// Stops reading. A transport that ends with its reader ends here.
    pub fn hang_up(&self) {
        self.hung_up.cancel();
    }

    /// Ends all requests under way and refuses new ones.
    pub fn fail_all(&self, reason: &str) {
        self.pending.close(reason);
    }

    /// Lets the writer say farewell and end.
    pub fn close_input(&self) {
        self.input_closed.cancel();
    }

    /// Queues a message as soon as there is room for it.
    async fn send(&self, bytes: Vec<u8>, request: Option<u64>) -> Result<(), SourceError> {
        let room = Arc::clone(&self.room).acquire_many_owned(room_for(&bytes));
        let outgoing = Outgoing { request, _room: room.await.map_err(|_| stopped())?, bytes };
        self.outgoing.send(outgoing).await.map_err(|_| stopped())
    }

    /// The peer did not take a message.
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

    fn receive(&self, bytes: &[u8], receiver: &impl Receiver) {
        match unreadable::read(bytes) {
            Ok(messages) => {
                for message in messages {
                    receiver.message(message, bytes.len());
                }
            }
            Err(unreadable) => {
                if self.fail(&unreadable) == Delivery::Unknown {
                    receiver.ignored();
                }
            }
        }
    }

    /// Fails the request whose answer can't be read.
    fn fail(&self, unreadable: &Unreadable) -> Delivery {
        let error = unreadable.to_error();
        match unreadable.whose {
            Whose::Request(id) => self.pending.answer(id, Err(error)),
            // All who wait must go, like when an answer is too long.
            Whose::Unclear => {
                self.pending.fail_written(&error);
                Delivery::Delivered
            }
            Whose::Nobodys => Delivery::Unknown,
        }
    }

    /// The error of all who waited when a message was too long.
    fn too_long(&self) -> SourceError {
        let most = self.max_message;
        SourceError::Protocol(format!("the server sent a message of more than {most} bytes"))
    }
}

/// A request that the peer has got, or will get. Dropping it tells the peer, if it may be cancelled.
pub struct Waiting {
    link: Arc<Link>,
    id: u64,
    answer: oneshot::Receiver<Outcome>,
    ending: Ending,
}

impl Waiting {
    /// Waits for the answer. May be dropped and called again, until it has returned.
    pub async fn outcome(&mut self) -> Outcome {
        (&mut self.answer).await.map_err(|_| stopped())?
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.link.pending.give_up(self.id) && self.ending == Ending::Cancel {
            self.link.try_notify(&wire::cancelled(self.id));
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

fn bytes_of(message: &Value) -> Vec<u8> {
    message.to_string().into_bytes()
}

async fn write(
    link: Arc<Link>,
    mut writer: impl MessageWriter,
    mut queue: mpsc::Receiver<Outgoing>,
) {
    let work = async {
        while let Some(Outgoing { bytes, request, _room }) = queue.recv().await {
            if request.is_some_and(|id| !link.pending.start_writing(id)) {
                continue;
            }
            match writer.send(bytes).await {
                SendOutcome::Sent => {}
                SendOutcome::Refused(error) => link.refused(request, error),
                SendOutcome::Over(reason) => {
                    link.over(reason);
                    break;
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = link.input_closed.cancelled() => {}
    }
    let _late = timeout(FAREWELL, writer.close()).await;
}

async fn listen(link: Arc<Link>, mut reader: impl MessageReader, receiver: Arc<impl Receiver>) {
    let work = async {
        let (mut buffer, mut pace) = (Vec::new(), Pace::default());
        loop {
            let answered = link.answered.load(Ordering::Relaxed);
            match reader.next(&mut buffer).await {
                Received::Message => link.receive(&buffer, &*receiver),
                Received::Noise => receiver.ignored(),
                // Whose answer it was can't be known, so all who wait must go.
                Received::TooLong => link.pending.fail_written(&link.too_long()),
                Received::End(reason) => break link.over(reason),
            }
            let size = buffer.len();
            if buffer.capacity() > KEPT_BUFFER {
                buffer = Vec::new();
            }
            // What answers a request is bounded by the requests; all else is the peer's own choice.
            if link.answered.load(Ordering::Relaxed) == answered {
                pace.message(size).await;
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = link.hung_up.cancelled() => {}
    }
    link.output_closed.cancel();
    link.input_closed.cancel();
}
