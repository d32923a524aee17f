//! The MCP server: what all of its requests share.

pub(crate) mod followers;
pub(crate) mod log_levels;
pub(crate) mod streams;
pub(crate) mod subscription_table;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_agents::runs::Runs;
use drawgate_core::model::Caller;
use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::SourceSupervisor;
use drawgate_runtime::tasks::Tasks;

use self::followers::Followers;
use self::log_levels::SourceLogLevels;
use self::streams::Streams;
use self::subscription_table::SubscriptionTable;
use super::lists::{Lists, Prepared};
use super::session::sessions::Sessions;
use super::wire::parameters::ParameterHeaders;
use crate::surface::intake::Intake;
use crate::telemetry::Spans;

/// The MCP server. Cheap to clone.
#[derive(Clone)]
pub struct Mcp {
    pub(crate) inner: Arc<Inner>,
}

/// What all requests share.
pub(crate) struct Inner {
    pub(crate) gateway: Gateway,
    pub(crate) sessions: Sessions,
    pub(crate) lists: Lists,
    pub(crate) streams: Streams,
    pub(crate) subscription_table: SubscriptionTable,
    pub(crate) log_levels: SourceLogLevels,
    pub(crate) parameters: ParameterHeaders,
    pub(crate) tasks: Option<Tasks>,
    pub(crate) task_followers: Followers,
    pub(crate) runs: Option<Runs>,
    first_lists: Option<FirstLists>,
    pub(crate) spans: Spans,
    pub(crate) max_body: usize,
    pub(crate) intake: Intake,
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
            lists: Lists::default(),
            streams: Streams::default(),
            subscription_table: SubscriptionTable::default(),
            log_levels: SourceLogLevels::default(),
            parameters: ParameterHeaders::default(),
            tasks: None,
            task_followers: Followers::default(),
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
        // It is new, so that this is its only holder.
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

    /// Waits for sources that have never listed anything, in the first time of a gateway.
    pub(crate) async fn first_lists(&self) {
        let Some(FirstLists { supervisor, until }) = &self.inner.first_lists else { return };
        let rest = until.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            supervisor.settle_first_lists(rest).await;
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

    /// The lists of one caller, as its grants and the registry are now.
    pub(crate) fn lists(&self, caller: &Caller) -> Arc<Prepared> {
        self.inner.lists.of(&self.inner.gateway, caller)
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
