//! One living process of a plugin: requests to it, and whether it still answers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use drawgate_core::source::SourceError;
use drawgate_sources::line_rpc::{Ending, Link, Request};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The largest message in either direction.
pub(super) const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// How many requests may be under way in each direction.
pub(super) const IN_FLIGHT: usize = 64;
/// The code of JSON-RPC for a method that a peer does not have.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// A process that has been started.
pub(super) struct Session {
    plugin: Arc<str>,
    pub(super) link: Arc<Link>,
    slots: Semaphore,
    /// What the plugin has asked for and is being done; cancelled when it is done.
    effects: Mutex<Vec<CancellationToken>>,
    /// Told when a request was given up, so that the process is asked whether it is still there.
    suspected: Notify,
    /// Cancelled with the session: what the plugin asked for is given up.
    pub(super) over: CancellationToken,
    fault: OnceLock<String>,
    faulty: CancellationToken,
}

impl Session {
    pub(super) fn new(plugin: Arc<str>, link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self {
            plugin,
            link,
            slots: Semaphore::new(IN_FLIGHT),
            effects: Mutex::default(),
            suspected: Notify::new(),
            over: CancellationToken::new(),
            fault: OnceLock::new(),
            faulty: CancellationToken::new(),
        })
    }

    /// Sends a request and waits for its result. The caller bounds its time.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Map<String, Value>, SourceError> {
        let closed =
            |_| SourceError::unreachable(format!("the plugin `{}` is stopped", self.plugin));
        let mut unanswered = Unanswered { session: self, answered: false };
        let slot = self.slots.acquire().await.map_err(closed);
        let outcome = match &slot {
            Ok(_) => self.exchange(method, params).await,
            Err(error) => Err(error.clone()),
        };
        unanswered.answered = true;
        outcome
    }

    /// The plugin has asked for something, which is done when the guard is dropped.
    pub(super) fn effect(&self) -> DropGuard {
        let done = CancellationToken::new();
        let mut effects = self.effects.lock();
        effects.retain(|effect| !effect.is_cancelled());
        effects.push(done.clone());
        done.drop_guard()
    }

    /// Waits until all is done that the plugin has asked for so far.
    pub(super) async fn settled(&self) {
        let effects = self.effects.lock().clone();
        for effect in effects {
            effect.cancelled().await;
        }
    }

    /// Has the plugin begin its work. One that does not know the request, such as an MCP server, has nothing
    /// to begin.
    pub(super) async fn begin(&self, limit: Duration) -> Result<(), SourceError> {
        let params = json!({});
        let answer = timeout(limit, self.ask("drawgate/start", &params)).await;
        match answer {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if is_unknown_method(&error) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(SourceError::Timeout(format!(
                "the plugin `{}` did not finish its `start` within {} s",
                self.plugin,
                limit.as_secs_f32()
            ))),
        }
    }

    /// Returns when a request was given up and the process then did not answer in time.
    pub(super) async fn hung(&self, patience: Duration) {
        loop {
            self.suspected.notified().await;
            if timeout(patience, self.exchange("ping", &json!({}))).await.is_err() {
                return;
            }
        }
    }

    /// The process did what ends it.
    pub(super) fn fail(&self, why: String) {
        self.fault.get_or_init(|| why);
        self.faulty.cancel();
    }

    /// Returns when the process did what ends it, and says what.
    pub(super) async fn failed(&self) -> String {
        self.faulty.cancelled().await;
        self.fault.get().cloned().unwrap_or_default()
    }

    /// Ends all requests in both directions.
    pub(super) fn close(&self, reason: &str) {
        self.link.fail_all(reason);
        self.link.close_input();
        self.link.hang_up();
        self.over.cancel();
    }

    async fn exchange(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Map<String, Value>, SourceError> {
        let id = self.link.id();
        let bytes = Request::new(id, method, params).to_bytes()?;
        if bytes.len() > MAX_MESSAGE {
            let message = format!(
                "a plugin takes messages of {MAX_MESSAGE} bytes at most, and this one has {}",
                bytes.len()
            );
            return Err(SourceError::Arguments { message, details: None });
        }
        let mut waiting = self.link.request(id, bytes, Ending::Cancel).await;
        let outcome = match &mut waiting {
            Ok(waiting) => waiting.outcome().await,
            Err(error) => Err(error.clone()),
        };
        outcome.map(|reply| reply.result).map_err(|error| self.named(error))
    }

    /// The transport speaks of servers.
    fn named(&self, error: SourceError) -> SourceError {
        let named =
            |text: &str| text.replacen("the server", &format!("the plugin `{}`", self.plugin), 1);
        match error {
            SourceError::Unavailable { message, sent } => {
                SourceError::Unavailable { message: named(&message), sent }
            }
            SourceError::Protocol(message) => SourceError::Protocol(named(&message)),
            SourceError::Failed { .. }
            | SourceError::Arguments { .. }
            | SourceError::Invalid(_)
            | SourceError::Timeout(_)
            | SourceError::Sandbox(_) => error,
        }
    }
}

fn is_unknown_method(error: &SourceError) -> bool {
    match error {
        SourceError::Failed { details: Some(details), .. } => {
            details.get("code").and_then(Value::as_i64) == Some(METHOD_NOT_FOUND)
        }
        SourceError::Failed { details: None, .. }
        | SourceError::Unavailable { .. }
        | SourceError::Arguments { .. }
        | SourceError::Protocol(_)
        | SourceError::Invalid(_)
        | SourceError::Timeout(_)
        | SourceError::Sandbox(_) => false,
    }
}

/// A request that, dropped before it is answered, makes its plugin suspect.
struct Unanswered<'a> {
    session: &'a Session,
    answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.session.suspected.notify_one();
        }
    }
}
