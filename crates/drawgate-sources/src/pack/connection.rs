//! One pack's connection: calls go out in order, answers find their call, and the end of the
//! connection ends every call on it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use drawgate_core::source::{ProgressSink, Sent};
use drawgate_sdk::proto::{ExecuteToolRequest, ExecuteToolResponse, MessageKind, ToolProgress};
use parking_lot::Mutex;
use serde_json::{Map, Number, Value};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::ending::{Dropped, Ending};
use super::manifest::Features;
use super::outgoing::{Outgoing, Queued};
use super::pending::{Heard, Pending};

/// Room for what is not a call: heartbeats, and the news that the gateway stops.
const ROOM: usize = 8;
/// Heartbeats without a sign of life after which a pack counts as silent.
const MISSED: u32 = 2;

/// The gateway's end of a pack's connection.
pub struct PackConnection {
    /// The first half of its request ids: an answer from an earlier connection fits no call of this.
    stamp: String,
    features: Features,
    state: Mutex<State>,
    ended: CancellationToken,
    unanswered: AtomicU32,
    dropped: AtomicU64,
}

struct State {
    pending: Pending,
    /// None once the connection has ended.
    outgoing: Option<mpsc::Sender<Queued>>,
    ending: Option<Ending>,
}

impl State {
    fn answer(&mut self, number: u64, response: ExecuteToolResponse) -> Result<(), Dropped> {
        match self.ending {
            None => self.pending.answer(number, response),
            // Its calls have ended with the connection.
            Some(_) => Err(Dropped::Late),
        }
    }
}

/// What is to be called.
pub(super) struct ToolCall {
    pub(super) tool: String,
    pub(super) input_json: String,
    pub(super) timeout_ms: u64,
    pub(super) traceparent: String,
    pub(super) progress: Option<Arc<dyn ProgressSink>>,
}

impl PackConnection {
    /// A connection for so many calls at once, and what goes out on it. `stamp` differs for each.
    pub(super) fn new(stamp: String, features: Features, calls: usize) -> (Arc<Self>, Outgoing) {
        // Each call may have to be withdrawn as well.
        let room = calls.saturating_mul(2).saturating_add(ROOM);
        let (outgoing, messages) = mpsc::channel(room);
        let state = State { pending: Pending::default(), outgoing: Some(outgoing), ending: None };
        let connection = Arc::new(Self {
            stamp,
            features,
            state: Mutex::new(state),
            ended: CancellationToken::new(),
            unanswered: AtomicU32::new(0),
            dropped: AtomicU64::new(0),
        });
        (Arc::clone(&connection), Outgoing::new(connection, messages))
    }

    /// Calls and waits for the answer. Dropping the future withdraws the call.
    pub(super) async fn call(&self, wanted: ToolCall) -> Heard {
        let outgoing = self.state.lock().outgoing.clone().ok_or(Sent::Nothing)?;
        // Kept from the start, so that a withdrawal always finds room.
        let withdrawal =
            if self.features.cancel { Some(self.place(outgoing.clone()).await?) } else { None };
        let place = self.place(outgoing).await?;
        let (number, answer) = self.open(wanted.progress)?;
        let _open = OpenCall { connection: self, number, withdrawal };
        let request = ExecuteToolRequest {
            tool_name: wanted.tool,
            input_json: wanted.input_json,
            timeout_ms: wanted.timeout_ms,
            traceparent: wanted.traceparent,
            ..self.message(MessageKind::Execute, number)
        };
        drop(place.send(Queued::Call(number, request)));
        answer.await.unwrap_or(Err(Sent::Perhaps))
    }

    /// Waits for room for a message; fails when the connection ends.
    async fn place(
        &self,
        outgoing: mpsc::Sender<Queued>,
    ) -> Result<mpsc::OwnedPermit<Queued>, Sent> {
        let outgoing = match outgoing.try_reserve_owned() {
            Ok(place) => return Ok(place),
            Err(TrySendError::Full(outgoing)) => outgoing,
            Err(TrySendError::Closed(_)) => return Err(Sent::Nothing),
        };
        tokio::select! {
            place = outgoing.reserve_owned() => place.map_err(|_| Sent::Nothing),
            () = self.ended.cancelled() => Err(Sent::Nothing),
        }
    }

    fn open(
        &self,
        progress: Option<Arc<dyn ProgressSink>>,
    ) -> Result<(u64, oneshot::Receiver<Heard>), Sent> {
        let mut state = self.state.lock();
        if state.ending.is_some() {
            return Err(Sent::Nothing);
        }
        Ok(state.pending.open(progress))
    }

    fn message(&self, kind: MessageKind, number: u64) -> ExecuteToolRequest {
        ExecuteToolRequest {
            request_id: format!("{}{number:016x}", self.stamp),
            kind: kind.into(),
            ..ExecuteToolRequest::default()
        }
    }

    fn number_of(&self, request_id: &str) -> Option<u64> {
        let digits = request_id.strip_prefix(&self.stamp)?;
        // Reading a number would put up with a sign.
        let is_ours = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16).ok().filter(|_| is_ours)
    }

    /// Takes an answer in.
    pub fn answer(&self, response: ExecuteToolResponse) -> Result<(), Dropped> {
        self.alive();
        let given = match self.number_of(&response.request_id) {
            Some(number) => self.state.lock().answer(number, response),
            None => Err(Dropped::Foreign),
        };
        given.inspect_err(|_| {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Takes news of a call in. What belongs to no call, or to one that wants no news, is dropped.
    pub fn progress(&self, news: ToolProgress) {
        self.alive();
        let Some(number) = self.number_of(&news.request_id) else { return };
        let sink = self.state.lock().pending.progress(number);
        let (Some(sink), Some(progress)) = (sink, Number::from_f64(news.progress)) else { return };
        let mut report = Map::new();
        report.insert("progress".to_owned(), Value::Number(progress));
        if let Some(total) = news.total.and_then(Number::from_f64) {
            report.insert("total".to_owned(), Value::Number(total));
        }
        if !news.message.is_empty() {
            report.insert("message".to_owned(), Value::String(news.message));
        }
        sink.report(report);
    }

    /// The pack has given a sign of life.
    pub fn alive(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Asks a pack that understands it for a sign of life. One that has given none for too long is
    /// silent, and that ends the connection.
    pub fn beat(&self) {
        if !self.features.heartbeat {
            return;
        }
        let unanswered = self.unanswered.fetch_add(1, Ordering::Relaxed);
        if unanswered >= MISSED {
            self.end(Ending::Silent);
            return;
        }
        self.tell(MessageKind::Heartbeat);
    }

    /// Tells a pack that understands it that the gateway stops.
    pub fn announce_stop(&self) {
        if self.features.shutdown {
            self.tell(MessageKind::Shutdown);
        }
    }

    fn tell(&self, kind: MessageKind) {
        let message = self.message(kind, 0);
        if let Some(outgoing) = &self.state.lock().outgoing {
            // Where there is no room the pack does not read, and its silence will tell.
            let _ = outgoing.try_send(Queued::Other(message));
        }
    }

    /// Ends the connection and every call on it. Only the first reason counts.
    pub fn end(&self, ending: Ending) {
        let mut state = self.state.lock();
        if state.ending.is_none() {
            state.ending = Some(ending);
            state.outgoing = None;
            state.pending.end();
            drop(state);
            self.ended.cancel();
        }
    }

    /// Whether a call is still to be sent, which it then is.
    pub(super) fn sends(&self, number: u64) -> bool {
        self.state.lock().pending.send(number)
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.state.lock().ending
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// How many calls wait for their answers.
    #[must_use]
    pub fn calls_under_way(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// How many answers were dropped.
    #[must_use]
    pub fn answers_dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A call that is under way; withdrawn when it is dropped without an answer.
struct OpenCall<'a> {
    connection: &'a PackConnection,
    number: u64,
    withdrawal: Option<mpsc::OwnedPermit<Queued>>,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        let given_up = self.connection.state.lock().pending.give_up(self.number);
        // What the pack has not got yet is left out of what goes to it.
        if let (Some(Sent::Perhaps), Some(place)) = (given_up, self.withdrawal.take()) {
            let message = self.connection.message(MessageKind::Cancel, self.number);
            drop(place.send(Queued::Other(message)));
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
