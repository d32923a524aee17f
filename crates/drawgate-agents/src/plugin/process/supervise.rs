//! Keeps a plugin's process at work: notices its end, starts it again with growing pauses, and gives it up
//! for a while when it fails again and again.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use drawgate_sources::backoff::Backoff;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::child::Child;
use super::{Shared, State};
use crate::plugin::declared::{self, Declared};

/// Failures in a row after which a plugin is given up for a while.
const FAILURES: u32 = 5;
/// A process that lasted this long is taken for healthy, and failures are counted anew.
const HEALTHY: Duration = Duration::from_mins(1);

/// Looks after the processes of one plugin.
pub(super) struct Supervisor {
    pub(super) shared: Arc<Shared>,
    pub(super) declared: Declared,
    pub(super) stop: CancellationToken,
}

impl Supervisor {
    /// Works until the plugin is stopped. The first process has been started and asked already.
    pub(super) async fn run(self, first: Child) {
        let limits = &self.shared.limits;
        let mut backoff = Backoff::new(limits.first_pause, limits.longest_pause);
        let (mut failures, mut next) = (0, Some(first));
        while let Some(child) = next.take() {
            let began = Instant::now();
            let Some(reason) = self.serve(child).await else { break };
            if began.elapsed() >= HEALTHY {
                failures = 0;
                backoff.reset();
            }
            next = self.recover(reason, &mut failures, &mut backoff).await;
        }
        self.shared.set(State::Stopped);
    }

    /// Serves with one process. Returns why it was lost; nothing if the plugin was stopped.
    async fn serve(&self, mut child: Child) -> Option<String> {
        self.shared.set(State::Ready(Arc::clone(&child.session)));
        let lost = tokio::select! {
            reason = child.lost(&self.shared.limits) => Some(reason),
            () = self.stop.cancelled() => None,
        };
        if let Some(reason) = &lost {
            let plugin = &self.shared.id;
            child.session.close(&format!("the plugin `{plugin}` was lost: {reason}"));
        } else {
            self.shared.set(State::Stopped);
            child.end(&self.shared.limits).await;
        }
        self.shared.journal.change(|report| report.pid = None);
        lost
    }

    /// Starts a new process, after a pause; nothing if the plugin was stopped.
    async fn recover(
        &self,
        mut reason: String,
        failures: &mut u32,
        backoff: &mut Backoff,
    ) -> Option<Child> {
        let random = RandomState::new();
        loop {
            *failures = failures.saturating_add(1);
            let [jitter, ..] = random.hash_one(*failures).to_le_bytes();
            let given_up = *failures >= FAILURES;
            let pause = if given_up {
                self.shared.limits.breaker_pause
            } else {
                backoff.next(jitter.into())
            };
            self.shared.down(&reason, *failures, given_up);
            let again = async {
                sleep(pause).await;
                self.shared.set(State::Starting);
                self.shared.journal.change(|report| report.restarts += 1);
                self.restart().await
            };
            let outcome = tokio::select! {
                outcome = again => outcome,
                () = self.stop.cancelled() => return None,
            };
            match outcome {
                Ok(child) => return Some(child),
                Err(failed) => reason = failed,
            }
        }
    }

    async fn restart(&self) -> Result<Child, String> {
        let shared = &self.shared;
        let (child, statement) = Child::start(shared).await?;
        let declared = declared::check(&shared.manifest, &shared.id, statement)
            .map_err(|problems| problems.to_string())?;
        if declared != self.declared {
            return Err("it declares other tools or hooks than when it was loaded".to_owned());
        }
        if shared.started.load(Ordering::Acquire) {
            let begun = child.session.begin(shared.limits.start).await;
            begun.map_err(|error| error.to_string())?;
        }
        Ok(child)
    }
}
