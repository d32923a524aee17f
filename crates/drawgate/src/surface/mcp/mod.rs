//! MCP, as a server: streamable HTTP, and standard input and output by a bridge.
//!
//! Both eras of the protocol end here: revisions with sessions (2025-03-26 to 2025-11-25) and the one
//! without (2026-07-28). What passes on to the gate knows of neither.

pub mod bridge;
mod call;
mod call_request;
mod caller_view;
mod client;
mod completion;
mod era;
mod event_buffer;
mod finder;
mod http;
mod instructions;
mod lists;
mod logging;
mod message;
mod methods;
mod parameters;
mod prompts;
mod questions;
mod replays;
mod reply;
mod requests;
mod resources;
mod session;
mod sse;
mod subscriptions;
pub mod tasks;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_agents::runs::Runs;
use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::SourceSupervisor;
use drawgate_runtime::tasks::Tasks;

pub use http::{Transport, handle};
pub use session::Sessions;

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
    streams: watch::Streams,
    subscription_table: subscriptions::SubscriptionTable,
    log_levels: logging::SourceLogLevels,
    parameters: parameters::ParameterHeaders,
    tasks: Option<Tasks>,
    task_followers: tasks::Followers,
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
            streams: watch::Streams::default(),
            subscription_table: subscriptions::SubscriptionTable::default(),
            log_levels: logging::SourceLogLevels::default(),
            parameters: parameters::ParameterHeaders::default(),
            tasks: None,
            task_followers: tasks::Followers::default(),
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
