//! Whether sources work now, found out by asking them instead of waiting for their next attempt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::SourceSupervisor;
use super::status::SourceState;
use super::supervised::SupervisedSource;
use crate::guard;
use crate::model::SourceId;

impl SourceSupervisor {
    /// Tries every source now, all at once. Returns what is wrong with those that do not work; one that
    /// works again is registered when this returns.
    pub async fn check(&self, limit: Duration) -> BTreeMap<SourceId, String> {
        let mut checks = JoinSet::new();
        for found in self.sources.lock().values() {
            let supervised = Arc::clone(&found.supervised);
            checks.spawn(async move {
                let problem = supervised.check(limit).await?;
                Some((supervised.source.id().clone(), problem))
            });
        }
        checks.join_all().await.into_iter().flatten().collect()
    }
}

impl SupervisedSource {
    async fn check(&self, limit: Duration) -> Option<String> {
        let checked = timeout(limit, guard::catch(self.source.check())).await;
        match checked {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => return Some(error.to_string()),
            Ok(Err(guard::Panicked)) => return Some("the source failed inside".to_owned()),
            Err(_) => return Some(format!("no answer within {} s", limit.as_secs())),
        }
        let mut settled = self.settled.subscribe();
        let has_failed = || self.status.lock().state == SourceState::Failed;
        if has_failed() {
            self.again.notify_one();
            let back = async { while has_failed() && settled.changed().await.is_ok() {} };
            // Its state says the rest.
            let _late = timeout(limit, back).await;
        }
        None
    }
}
