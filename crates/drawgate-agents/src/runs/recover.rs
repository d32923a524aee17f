//! Takes runs up again that were at work when the gateway stopped or was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::EventKind;
use drawgate_core::store::StoreError;

use super::live::{Live, Phase};
use super::pool::Amount;
use super::record::{RunRecord, Step, reserved, used};
use super::{Inner, Runs};

impl Runs {
    /// Takes up all runs that have not ended; how many there are. To be called once, when tools can be
    /// called again. Runs that were started meanwhile are left alone.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        let all = self.0.store.runs().await?;
        let roots: BTreeSet<String> = all
            .iter()
            .filter(|run| run.id == run.root && run.end.is_none())
            // A run is in memory before it is stored, so that those of this process are known here.
            .filter(|run| self.0.find(&run.id).is_none())
            .map(|run| run.root.clone())
            .collect();
        // A child is newer than its parent, so that parents come first.
        let mut restored = Vec::new();
        for record in all.into_iter().filter(|run| roots.contains(&run.root)) {
            restored.extend(self.restore(record).await?);
        }
        let runs = self.clone();
        self.0.programs.tidy(move |id| runs.is_at_work(id)).await;
        self.0.count_use(&restored);
        restored.retain(|run| run.end().is_none());
        for run in &restored {
            if run.lineage.plugin.is_some() {
                // Nobody waits for it: what a plugin was asked before it is asked again.
                let reason = "the gateway was stopped while a plugin waited for it";
                let _ = self.cancel(&run.id, reason);
            }
            let draft = self.0.draft(EventKind::RunStarted, run).flag("resumed", true);
            self.0.write_down(draft).await;
            self.drive(Arc::clone(run));
        }
        Ok(restored.len())
    }

    /// A run as it was, ended or not.
    async fn restore(&self, record: RunRecord) -> Result<Option<Arc<Live>>, StoreError> {
        let inner = &self.0;
        let (steps, inbox) =
            (inner.store.steps(&record.id).await?, inner.store.inbox(&record.id).await?);
        let is_first = record.id == record.thread;
        let history = if is_first {
            Vec::new()
        } else {
            self.history(&record.thread, record.created_at).await?.0
        };
        let (id, over) = (record.id.clone(), record.end.is_some());
        let used = time_used(&record, &steps);
        let run = match inner.build(record, history, used) {
            Ok(run) => run,
            Err(error) => {
                tracing::error!(run = id, error = %error, "a run can't be taken up again");
                return Ok(None);
            }
        };
        *run.steps.lock() = steps;
        for message in inbox {
            run.inbox.lock().push(message);
        }
        if over {
            run.phase.send_replace(Phase::Ended);
        }
        inner.restore(&run);
        Ok(Some(run))
    }
}

/// The time that a run has used: what passed until its last step. Time in which the gateway was down does
/// not count.
fn time_used(record: &RunRecord, steps: &[Step]) -> Duration {
    let last = steps.iter().map(last_moment).max().unwrap_or(record.created_at);
    let used = last.saturating_sub(record.created_at).saturating_sub(record.waited_ms);
    Duration::from_millis(used)
}

fn last_moment(step: &Step) -> u64 {
    step.until.unwrap_or(step.at)
}

impl Inner {
    /// Opens the pools of restored runs with what each and its children have used.
    fn count_use(&self, restored: &[Arc<Live>]) {
        let mut spent: BTreeMap<Arc<str>, Amount> = BTreeMap::new();
        for run in restored {
            // Requests whose answers are lost count in full.
            let own = {
                let steps = run.steps.lock();
                used(&steps).plus(reserved(&steps))
            };
            for above in &run.path {
                let sum = spent.entry(Arc::clone(above)).or_default();
                *sum = sum.plus(own);
            }
        }
        for run in restored {
            let budget = run.record.lock().budget;
            self.pools.open(&run.id, budget, spent.get(&run.id).copied().unwrap_or_default());
        }
    }
}
