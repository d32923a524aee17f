//! What keeps a gateway in order while it runs: edits of its configuration, logins, housekeeping.
//!
//! The tasks end with [`Runtime::close`].

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::policy::ApprovalState;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::assemble::{Runtime, follow_logins, follow_restarts};
use crate::follow::follow_config;
use crate::webhook;

/// How often old artifacts and tasks are removed, and the log's head is signed.
const PAUSE: Duration = Duration::from_secs(30);
/// How long runs of before wait for servers whose tools are not known.
const RESUME_TIME: Duration = Duration::from_secs(30);
/// How often the system's clock is compared with the time.
const CLOCK_PAUSE: Duration = Duration::from_secs(1);
/// The smallest step that is written down.
const CLOCK_STEP_MS: u64 = 1000;
/// Servers that wait to be started again; more have to wait before they are asked for.
const RESTARTS: usize = 8;

impl Runtime {
    /// Begins to follow the configuration file, logins, profiles and the log's head, and to tidy up from time to
    /// time.
    pub fn start_upkeep(self: &Arc<Self>) {
        let runtime = || Arc::clone(self);
        self.background.spawn(follow_config(runtime()));
        self.background.spawn(follow_logins(runtime()));
        let (restarts, requests) = mpsc::channel(RESTARTS);
        if self.operations.restarts.set(restarts).is_ok() {
            self.background.spawn(follow_restarts(runtime(), requests));
        }
        self.background.spawn(follow_profiles(runtime()));
        self.background.spawn(follow_agents(runtime()));
        self.background.spawn(send_heads(runtime()));
        self.background.spawn(send_approvals(runtime()));
        self.background.spawn(follow_clock(runtime()));
        self.background.spawn(tidy(runtime()));
    }
}

async fn follow_profiles(runtime: Arc<Runtime>) {
    runtime.operations.profiles.follow().await;
}

/// Takes up the runs and tasks of before, and keeps the tools of agents in line with their profiles and with
/// the plugins.
async fn follow_agents(runtime: Arc<Runtime>) {
    let agents = &runtime.operations.agents;
    // A run should not find tools missing that it had before.
    runtime.supervisor().settle_lists(RESUME_TIME).await;
    match agents.plugins.tasks().recover().await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "runs of agents go on"),
        Err(error) => tracing::error!(%error, "runs of agents can't be taken up again"),
    }
    agents.follow().await;
}

async fn send_heads(runtime: Arc<Runtime>) {
    runtime.anchors.follow().await;
}

/// Tells the webhook of every new approval. A call does not wait for that.
async fn send_approvals(runtime: Arc<Runtime>) {
    let mut asked = runtime.gateway().approval_requests();
    loop {
        match asked.recv().await {
            Ok(approval) => {
                let Some(listed) = runtime.operations.approval(&approval.id) else { continue };
                if listed.approval.state == ApprovalState::Pending {
                    let page = listed.page.as_deref();
                    webhook::send(&runtime.configuration(), &runtime.host, &approval, page).await;
                }
            }
            Err(RecvError::Lagged(count)) => {
                tracing::warn!(
                    count,
                    "approvals were asked for faster than `approvals.webhook` takes them; these were not sent"
                );
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// Writes down each step of the system's clock that time did not follow.
async fn follow_clock(runtime: Arc<Runtime>) {
    let clock = &runtime.host.clock;
    let read = || {
        clock.now_ms();
        clock.behind_ms()
    };
    // The start has written down where it began.
    let mut told = read();
    loop {
        tokio::time::sleep(CLOCK_PAUSE).await;
        // A thread that stands still during a reading sees a step that is none; not twice in a row.
        let behind = read().min(read());
        if behind.abs_diff(told) < CLOCK_STEP_MS {
            continue;
        }
        told = behind;
        let seconds = behind / 1000;
        tracing::warn!(
            seconds,
            "the system's clock was set back; time goes on by the machine's own"
        );
        let step = EventDraft::new(EventKind::ClockStepped, clock.now_ms())
            .number("clockBehindMs", behind)
            .text("reason", format!("the system's clock is {seconds} s behind"));
        if let Err(error) = runtime.audit().append(step).await {
            tracing::warn!(%error, "a step of the system's clock could not be written down");
        }
    }
}

async fn tidy(runtime: Arc<Runtime>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Err(error) = runtime.artifacts().expire(runtime.host.clock.now_ms()).await {
            tracing::warn!(error = %error, "old artifacts could not be removed");
        }
        if let Err(error) = runtime.audit().checkpoint().await {
            tracing::warn!(error = %error, "the audit log's head could not be signed");
        }
        runtime.operations.settle().await;
        if let Err(error) = runtime.operations.agents.runs.sweep().await {
            tracing::warn!(%error, "old runs could not be removed");
        }
        if let Err(error) = runtime.operations.agents.plugins.tasks().sweep().await {
            tracing::warn!(%error, "old tasks could not be removed");
        }
        if let Some(tasks) = runtime.operations.tasks.get() {
            tasks.sweep().await;
        }
    }
}
