//! A registered pack: calls come in, run side by side, and are answered on the same connection.
//!
//! Calls belong to their connection. When it is lost they are cancelled, and what they would have
//! answered is never sent on another one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::execution::{Execution, deliver};
use super::{Call, Pack, ToolError};
use crate::gateway::{Connection, ConnectionError, Event, Line, Observer};
use crate::proto::pack_service_client::PackServiceClient;
use crate::proto::{ExecuteToolRequest, Heartbeat, MessageKind};

/// How many ids of calls are remembered, so that none runs twice.
const REMEMBERED: usize = 4096;

/// How a connection ended.
pub(super) enum End {
    /// Because the program wanted it; all calls were answered, or their time was over.
    Stopped,
    /// By itself.
    Lost(ConnectionError),
}

pub(super) struct Registered {
    pack: Arc<Pack>,
    connection: Connection,
    gateway: PackServiceClient<Line>,
    stream: Streaming<ExecuteToolRequest>,
    observer: Observer,
    tasks: JoinSet<String>,
    running: BTreeMap<String, CancellationToken>,
    known: Known,
    places: Arc<Semaphore>,
    stopping: bool,
}

impl Registered {
    pub(super) fn new(
        pack: Arc<Pack>,
        connection: Connection,
        gateway: PackServiceClient<Line>,
        stream: Streaming<ExecuteToolRequest>,
        observer: Observer,
    ) -> Self {
        let places = usize::try_from(pack.concurrency).unwrap_or(usize::MAX);
        Self {
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            pack,
            connection,
            gateway,
            stream,
            observer,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            known: Known::default(),
            stopping: false,
        }
    }

    /// Serves until the connection is lost, or `stop` is cancelled and the calls under way are
    /// answered, for which they have the time `drain`.
    pub(super) async fn serve(mut self, stop: &CancellationToken, drain: Duration) -> End {
        let mut limit = None;
        loop {
            if self.stopping && self.tasks.is_empty() {
                break;
            }
            tokio::select! {
                message = self.stream.message() => match message {
                    Ok(Some(message)) => self.take(message),
                    Ok(None) => return self.lost(ConnectionError::lost("the gateway ended the connection")),
                    Err(status) => return self.lost(status.into()),
                },
                Some(done) = self.tasks.join_next() => self.forget(done.ok()),
                () = stop.cancelled(), if !self.stopping => {
                    self.stopping = true;
                    limit = Some(tokio::time::Instant::now() + drain);
                }
                () = reached(limit) => break,
            }
        }
        self.leave().await;
        End::Stopped
    }

    fn take(&mut self, message: ExecuteToolRequest) {
        match MessageKind::try_from(message.kind) {
            Ok(MessageKind::Execute) => self.execute(message),
            Ok(MessageKind::Cancel) => {
                if let Some(running) = self.running.get(&message.request_id) {
                    running.cancel();
                }
            }
            Ok(MessageKind::Heartbeat) => self.answer_heartbeat(message.request_id),
            Ok(MessageKind::Shutdown) => self.observer.tell(&Event::Stopping),
            Err(_) => tracing::debug!(kind = message.kind, "a message of an unknown kind"),
        }
    }

    fn execute(&mut self, message: ExecuteToolRequest) {
        let id = message.request_id.clone();
        if !self.known.is_new(&id) {
            tracing::warn!(request = %id, "the gateway sent a call twice; it runs once");
            return;
        }
        let gateway = self.gateway.clone();
        match self.prepare(message) {
            Ok(execution) => {
                self.running.insert(id.clone(), execution.call.cancelled.clone());
                self.tasks.spawn(async move {
                    execution.run(gateway).await;
                    id
                });
            }
            Err(error) => {
                self.tasks.spawn(async move {
                    deliver(gateway, id.clone(), Err(error)).await;
                    id
                });
            }
        }
    }

    fn prepare(&self, message: ExecuteToolRequest) -> Result<Execution, ToolError> {
        let name = message.tool_name;
        let pack = &self.pack;
        if self.stopping {
            return Err(ToolError::new(format!("pack `{}` is stopping; try again", pack.id)));
        }
        // The gateway keeps to the limit; a call too many is one that waits for a cancelled one.
        let limit = usize::try_from(pack.concurrency).unwrap_or(usize::MAX).saturating_mul(2);
        if self.running.len() >= limit {
            return Err(ToolError::new(format!("pack `{}` is busy; try again", pack.id)));
        }
        let tool = pack
            .tools
            .get(&name)
            .ok_or_else(|| ToolError::new(format!("pack `{}` has no tool `{name}`", pack.id)))?;
        let arguments: Value = serde_json::from_str(&message.input_json)
            .map_err(|error| ToolError::new(format!("the arguments are no JSON: {error}")))?;
        let time = (message.timeout_ms > 0).then(|| Duration::from_millis(message.timeout_ms));
        let call = Call {
            id: message.request_id,
            tool: name,
            arguments,
            deadline: time.and_then(|time| Instant::now().checked_add(time)),
            traceparent: (!message.traceparent.is_empty()).then_some(message.traceparent),
            cancelled: CancellationToken::new(),
            gateway: Some(self.gateway.clone()),
        };
        Ok(Execution {
            tool: Arc::clone(tool),
            call,
            places: Arc::clone(&self.places),
            cancel_grace: pack.cancel_grace,
        })
    }

    fn answer_heartbeat(&mut self, request_id: String) {
        let mut gateway = self.gateway.clone();
        self.tasks.spawn(async move {
            if let Err(error) = gateway.alive(Heartbeat { request_id }).await {
                tracing::debug!(%error, "a heartbeat was not answered");
            }
            String::new()
        });
    }

    fn forget(&mut self, done: Option<String>) {
        if let Some(id) = done {
            self.running.remove(&id);
        }
    }

    /// Nobody waits any more. The calls hear it and end by themselves, shortly.
    fn cancel_all(&mut self) {
        for running in std::mem::take(&mut self.running).into_values() {
            running.cancel();
        }
        self.tasks.detach_all();
    }

    fn lost(mut self, error: ConnectionError) -> End {
        self.cancel_all();
        End::Lost(error)
    }

    async fn leave(mut self) {
        self.cancel_all();
        let Self { connection, gateway, stream, .. } = self;
        drop(stream);
        drop(gateway);
        connection.close().await;
    }
}

async fn reached(limit: Option<tokio::time::Instant>) {
    match limit {
        Some(limit) => sleep_until(limit).await,
        None => std::future::pending().await,
    }
}

/// The ids of the latest calls.
#[derive(Default)]
struct Known {
    ids: BTreeSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Known {
    /// Whether this id was not seen yet; it is from now on.
    fn is_new(&mut self, id: &str) -> bool {
        let id: Arc<str> = id.into();
        if !self.ids.insert(Arc::clone(&id)) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_counts_once_and_is_forgotten_only_after_many_others() {
        let mut known = Known::default();
        assert!(known.is_new("first"));
        for number in 1..REMEMBERED {
            assert!(known.is_new(&number.to_string()));
        }
        assert!(!known.is_new("first"));
        assert!(known.is_new("one more"));
        assert!(known.is_new("first"));
        assert_eq!(known.ids.len(), REMEMBERED);
        assert_eq!(known.order.len(), REMEMBERED);
    }
}
