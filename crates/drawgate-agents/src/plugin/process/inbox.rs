//! What comes from a plugin's process: answers, requests of its own, log messages, and noise.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::registry::visible_text;
use drawgate_sources::line_rpc::{
    Delivery, Envelope, Line, Message, MessageReader, Received, Receiver, Reply, read_line_or_stop,
    sort,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::process::ChildStdout;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Shared;
use super::asks::{self, Refusal};
use super::pace::Pace;
use super::session::{IN_FLIGHT, MAX_MESSAGE, Session};

/// How much is read from the pipe at once.
const READ_BUFFER: usize = 64 * 1024;
/// How much is read of a plugin's messages in a second.
const MESSAGES_A_SECOND: usize = 1000;
const BYTES_A_SECOND: usize = 16 * 1024 * 1024;
/// Messages without meaning in a minute after which a process is ended.
const NOISE_A_MINUTE: u32 = 1000;
/// Refusals that a plugin has not read after which its process is ended.
const REFUSALS: usize = 1000;
/// Log messages in a second; others are left out.
const LOGS_A_SECOND: u32 = 100;
/// How many characters of a log message are kept.
const LOG_CHARACTERS: usize = 4096;

/// A plugin's standard output, at a bounded pace.
pub(super) struct PluginLines {
    stdout: BufReader<ChildStdout>,
    shared: Arc<Shared>,
    pace: Pace,
}

impl PluginLines {
    pub(super) fn new(stdout: ChildStdout, shared: Arc<Shared>) -> Self {
        let stdout = BufReader::with_capacity(READ_BUFFER, stdout);
        Self { stdout, shared, pace: Pace::new(MESSAGES_A_SECOND, BYTES_A_SECOND) }
    }
}

impl MessageReader for PluginLines {
    async fn next(&mut self, buffer: &mut Vec<u8>) -> Received {
        self.pace.keep().await;
        let line = read_line_or_stop(&mut self.stdout, buffer, MAX_MESSAGE).await;
        self.pace.count(buffer.len());
        match line {
            Ok(Line::Whole) if buffer.trim_ascii().is_empty() => Received::Noise,
            Ok(Line::Whole) => {
                if !buffer.trim_ascii_start().starts_with(b"{") {
                    self.shared.journal.printed(buffer);
                }
                Received::Message
            }
            // It might never end, and whose answer it was can't be known.
            Ok(Line::TooLong) => {
                let most = MAX_MESSAGE;
                Received::End(Some(format!("it wrote a message of more than {most} bytes")))
            }
            Ok(Line::End) | Err(_) => Received::End(None),
        }
    }
}

/// Takes the messages of one process.
pub(super) struct Inbox {
    shared: Arc<Shared>,
    session: Arc<Session>,
    asks: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    noise: Mutex<Window>,
    logs: Mutex<Window>,
}

impl Inbox {
    pub(super) fn new(shared: Arc<Shared>, session: Arc<Session>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            session,
            asks: Arc::new(Semaphore::new(IN_FLIGHT)),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            noise: Mutex::new(Window::new(Duration::from_mins(1))),
            logs: Mutex::new(Window::new(Duration::from_secs(1))),
        })
    }

    /// A request of the plugin's own, answered in a task of its own.
    fn request(&self, id: Value, method: String, params: Option<Value>) {
        if let Ok(slot) = Arc::clone(&self.asks).try_acquire_owned() {
            let shared = Arc::clone(&self.shared);
            let effect = asks::takes_effect(&method).then(|| self.session.effect());
            self.answer(slot, async move {
                let outcome = asks::answer(&shared, &method, params).await;
                drop(effect);
                answer(&id, outcome)
            });
        } else if let Ok(slot) = Arc::clone(&self.refusals).try_acquire_owned() {
            self.answer(slot, async move { answer(&id, Err(Refusal::busy(IN_FLIGHT))) });
        } else {
            self.session.fail("it asks for more and does not read the answers".to_owned());
        }
    }

    fn answer(
        &self,
        slot: OwnedSemaphorePermit,
        work: impl Future<Output = Value> + Send + 'static,
    ) {
        let session = Arc::clone(&self.session);
        tokio::spawn(async move {
            let _slot = slot;
            let work = async {
                // Fails when the process has ended.
                let _gone = session.link.notify(&work.await).await;
            };
            tokio::select! {
                () = work => {}
                () = session.over.cancelled() => {}
            }
        });
    }

    fn log(&self, params: Option<&Value>) {
        if self.logs.lock().add() > LOGS_A_SECOND {
            return;
        }
        let member = |name: &str| params.and_then(|params| params.get(name));
        let data = match member("data") {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => return self.ignored(),
        };
        let short: String = data.chars().take(LOG_CHARACTERS).collect();
        let (plugin, text) = (self.shared.id.as_str(), visible_text(&short));
        match member("level").and_then(Value::as_str) {
            Some("debug") => tracing::debug!(plugin, "{text}"),
            Some("warning") => tracing::warn!(plugin, "{text}"),
            Some("error" | "critical" | "alert" | "emergency") => tracing::error!(plugin, "{text}"),
            Some(_) | None => tracing::info!(plugin, "{text}"),
        }
    }
}

impl Receiver for Inbox {
    fn message(&self, message: Envelope, size: usize) {
        match sort(message) {
            Message::Answer { id, outcome } => {
                let outcome = outcome.map(|result| Reply { result, size });
                if self.session.link.answer(id, outcome) == Delivery::Unknown {
                    self.ignored();
                }
            }
            Message::Request { id, method, params } => self.request(id, method, params),
            Message::Notification { method, params } if method == "notifications/message" => {
                self.log(params.as_ref());
            }
            Message::Notification { .. } | Message::Nonsense => self.ignored(),
        }
    }

    fn ignored(&self) {
        self.shared.journal.change(|report| report.ignored_messages += 1);
        if self.noise.lock().add() > NOISE_A_MINUTE {
            let why =
                format!("it wrote more than {NOISE_A_MINUTE} messages without meaning in a minute");
            self.session.fail(why);
        }
    }
}

/// The answer to a request of a plugin's.
fn answer(id: &Value, outcome: Result<Value, Refusal>) -> Value {
    let message = match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(refusal) => json!({ "jsonrpc": "2.0", "id": id, "error": refusal }),
    };
    if message.to_string().len() <= MAX_MESSAGE {
        return message;
    }
    let refusal = Refusal::failed(format!("the answer has more than {MAX_MESSAGE} bytes"));
    json!({ "jsonrpc": "2.0", "id": id, "error": refusal })
}

/// How much came in some time.
struct Window {
    length: Duration,
    since: Instant,
    count: u32,
}

impl Window {
    fn new(length: Duration) -> Self {
        Self { length, since: Instant::now(), count: 0 }
    }

    /// Counts one more, and says how many there were in this window.
    fn add(&mut self) -> u32 {
        let now = Instant::now();
        if now.saturating_duration_since(self.since) >= self.length {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count
    }
}
