//! MCP, as a server: streamable HTTP, and standard input and output by a bridge.
//!
//! Both eras of the protocol end here: revisions with sessions (2025-03-26 to 2025-11-25) and the one
//! without (2026-07-28). What passes on to the gate knows of neither.

mod caller;
mod lists;
mod methods;
mod session;
mod transport;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_agents::runs::Runs;
use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::SourceSupervisor;
use drawgate_runtime::tasks::Tasks;

pub use methods::tasks::FORMAT as TASK_FORMAT;
pub use session::sessions::Sessions;
pub use transport::bridge;
pub use transport::http::{Transport, handle};

use crate::surface::intake::Intake;
use crate::telemetry::Spans;

/// The MCP server. Cheap to clone.
#[derive(Clone)]
pub struct Mcp {
    inner: Arc<Inner>,
}

struct Inner {
    gateway: Gateway,
    sessions: Sessions,
    lists: lists::Lists,
    streams: transport::watch::Streams,
    subscription_table: methods::subscriptions::SubscriptionTable,
    log_levels: methods::logging::SourceLogLevels,
    parameters: wire::parameters::ParameterHeaders,
    tasks: Option<Tasks>,
    task_followers: methods::tasks::Followers,
    runs: Option<Runs>,
    first_lists: Option<FirstLists>,
    spans: Spans,
    max_body: usize,
    intake: Intake,
}

/// Sources that have never listed anything are waited for by the first lists.
struct FirstLists {
    supervisor: Arc<SourceSupervisor>,
    until: Instant,
}

impl Mcp {
    /// An MCP server in front of a gate.
    #[must_use]
    pub fn new(gateway: Gateway, sessions: Sessions, spans: Spans, max_body: usize) -> Self {
        let inner = Inner {
            gateway,
            sessions,
            lists: lists::Lists::default(),
            streams: transport::watch::Streams::default(),
            subscription_table: methods::subscriptions::SubscriptionTable::default(),
            log_levels: methods::logging::SourceLogLevels::default(),
            parameters: wire::parameters::ParameterHeaders::default(),
            tasks: None,
            task_followers: methods::tasks::Followers::default(),
            runs: None,
            first_lists: None,
            spans,
            max_body,
            intake: Intake::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same, with calls that can become tasks.
    #[must_use]
    pub fn with_tasks(mut self, tasks: Tasks) -> Self {
        // It is new, so that nobody else holds it.
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.tasks = Some(tasks);
        }
        self
    }

    /// The same, with lists that wait for new sources in the first time of a gateway.
    #[must_use]
    pub fn with_first_lists(mut self, supervisor: Arc<SourceSupervisor>, time: Duration) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.first_lists = Some(FirstLists { supervisor, until: Instant::now() + time });
        }
        self
    }

    async fn first_lists(&self) {
        let Some(FirstLists { supervisor, until }) = &self.inner.first_lists else { return };
        let rest = until.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            supervisor.settle_lists(rest).await;
        }
    }

    /// The same, for programs that do the work of runs too.
    #[must_use]
    pub fn with_runs(mut self, runs: Runs) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.runs = Some(runs);
        }
        self
    }

    /// What requests take up in memory.
    #[must_use]
    pub(crate) fn intake(&self) -> &Intake {
        &self.inner.intake
    }

    /// Ends all open streams, so that connections can close.
    pub fn close(&self) {
        self.inner.streams.close();
    }

    /// Forgets sessions that have been idle for too long.
    pub fn sweep(&self) {
        self.inner.sessions.sweep();
    }

    /// Sessions that are open.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.inner.sessions.len()
    }
}

#[cfg(test)]
#[path = "size_tests.rs"]
mod size_tests;
