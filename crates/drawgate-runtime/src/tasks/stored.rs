//! Tasks in the store: loads those of earlier runs, and removes those that have expired.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::Principal;
use drawgate_core::pipeline::{CallOptions, Gateway};
use drawgate_core::registry::Resolution;
use drawgate_core::store::Documents;
use drawgate_host::seal::SealingKey;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::record::{Record, Status};
use super::{Format, Inner, LiveTask, Tasks, size_of};

/// Where tasks are kept, each with the `principal` that it belongs to.
pub const KIND: &str = "task";
/// Bytes of results that are kept; the oldest go first.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How long a call that goes on after a restart waits for its source to come back.
const RETURN_TIME: Duration = Duration::from_mins(5);
/// Why a task has failed whose call was under way when the gateway ended.
const CUT: &str = "the gateway was stopped while the tool ran, and its outcome is unknown; find out whether it \
    did its work before you call it again";
/// Changes that a slow listener may lag behind.
const MAX_LAG: usize = 256;

impl Tasks {
    /// Loads the tasks of earlier runs. What can be taken up again is; the rest of what was under way
    /// has failed.
    pub async fn load(
        gateway: Gateway,
        documents: Arc<dyn Documents>,
        key: SealingKey,
        after: Duration,
        format: Format,
    ) -> anyhow::Result<Self> {
        let stored = documents.documents(KIND).await?;
        let tasks = Self(Arc::new(Inner {
            gateway,
            documents,
            key,
            format,
            after,
            live: Mutex::default(),
            ending: tokio::sync::Mutex::default(),
            changed: broadcast::Sender::new(MAX_LAG),
        }));
        for (id, body) in stored {
            if let Some(record) = Record::open(&id, &body, &tasks.0.key) {
                tasks.take_over(record).await;
            } else {
                tracing::warn!(task = id, "a kept task can't be read");
            }
        }
        Ok(tasks)
    }

    /// Ends the tasks that the next process can't take up again. What became of their calls is not known.
    pub async fn cut(&self) {
        let cut: Vec<(String, CancellationToken)> = {
            let live = self.0.live.lock();
            let is_cut = |task: &&LiveTask| {
                task.record.status == Status::Working && task.record.handle.is_none()
            };
            live.values()
                .filter(is_cut)
                .map(|it| (it.record.id.clone(), it.cancel.clone()))
                .collect()
        };
        for (id, cancel) in cut {
            self.fail(&id, CUT).await;
            cancel.cancel();
        }
    }

    async fn take_over(&self, record: Record) {
        let id = record.id.clone();
        let (over, handle) = (record.status.is_over(), record.handle.clone());
        let size = size_of(&record);
        let cancel = CancellationToken::new();
        let live = LiveTask { record, cancel: cancel.clone(), waits: false, size };
        self.0.live.lock().insert(id.clone(), live);
        match handle {
            _ if over => {}
            Some(handle) => {
                tokio::spawn(self.clone().resume(id, handle, cancel));
            }
            None => {
                self.fail(&id, CUT).await;
            }
        }
    }

    /// Takes a call up again as soon as its tool is back.
    async fn resume(self, id: String, handle: String, cancel: CancellationToken) {
        let Some((caller, call, client)) = self.parts_of(&id) else { return };
        let gateway = &self.0.gateway;
        let mut revisions = gateway.registry_changes();
        let back = async {
            loop {
                let found = gateway.registry().resolve(&call.tool_id, &caller, |_| true);
                if matches!(found, Resolution::Found(_)) || revisions.changed().await.is_err() {
                    return;
                }
            }
        };
        // If it does not come back, the call itself says so.
        let _ = tokio::time::timeout(RETURN_TIME, back).await;
        let options = CallOptions {
            cancel,
            page_request: (self.0.format.page_request)(&client),
            client,
            as_task: true,
            resume: Some(handle.into()),
            progress: Some(self.handles(&id)),
            ..CallOptions::default()
        };
        let result = gateway.call(&caller, call, options).await;
        self.settle(&id, result).await;
    }

    /// Forgets what has expired, and the oldest that are over where results take too much room.
    pub async fn sweep(&self) {
        let now = self.0.gateway.clock().now_ms();
        let gone: Vec<String> = {
            let mut live = self.0.live.lock();
            let mut gone: Vec<String> = live
                .values()
                .filter(|task| task.record.expires_at() <= now)
                .map(|task| task.record.id.clone())
                .collect();
            gone.extend(excess(&live));
            for id in &gone {
                if let Some(task) = live.remove(id) {
                    task.cancel.cancel();
                }
            }
            gone
        };
        self.remove_stored(gone).await;
    }

    /// Ends and forgets a caller's tasks: nothing of them may pass to the next of this name.
    pub async fn forget(&self, principal: &Principal) {
        let gone: Vec<String> = {
            let mut live = self.0.live.lock();
            let own = live.values().filter(|task| task.record.principal == *principal);
            let gone: Vec<String> = own.map(|task| task.record.id.clone()).collect();
            for id in &gone {
                if let Some(task) = live.remove(id) {
                    task.cancel.cancel();
                }
            }
            gone
        };
        self.remove_stored(gone).await;
    }

    async fn remove_stored(&self, gone: Vec<String>) {
        for id in gone {
            if let Err(error) = self.0.documents.remove_document(KIND, &id).await {
                tracing::warn!(%error, "a task could not be removed");
            }
        }
    }

    pub(super) async fn store(&self, record: &Record) -> Result<(), String> {
        let body = record.seal(&self.0.key).ok_or("a task can't be sealed")?;
        let stored = self.0.documents.put_document(KIND, &record.id, &body).await;
        stored.map_err(|error| error.to_string())
    }

    pub(super) async fn store_handle(self, id: String, handle: String) {
        let record = {
            let mut live = self.0.live.lock();
            let Some(task) = live.get_mut(&id).filter(|task| !task.record.status.is_over()) else {
                return;
            };
            if task.record.handle.as_deref() == Some(&*handle) {
                return;
            }
            task.record.handle = Some(handle);
            task.record.clone()
        };
        if let Err(error) = self.store(&record).await {
            tracing::warn!(error, "a task could not be kept; it will not outlive the gateway");
        }
    }
}

/// What must go so that the results fit: the oldest of whoever holds most, until they do.
fn excess(live: &BTreeMap<String, LiveTask>) -> Vec<String> {
    let mut held: BTreeMap<&Principal, (usize, Vec<&LiveTask>)> = BTreeMap::new();
    for task in live.values().filter(|task| task.record.status.is_over()) {
        let (bytes, own) = held.entry(&task.record.principal).or_default();
        *bytes += task.size;
        own.push(task);
    }
    for (_, own) in held.values_mut() {
        own.sort_by_key(|task| std::cmp::Reverse(task.record.updated_at));
    }
    let mut total: usize = held.values().map(|(bytes, _)| bytes).sum();
    let mut gone = Vec::new();
    while total > MAX_BYTES {
        let Some((bytes, own)) = held.values_mut().max_by_key(|(bytes, _)| *bytes) else { break };
        let Some(oldest) = own.pop() else { break };
        *bytes -= oldest.size;
        total -= oldest.size;
        gone.push(oldest.record.id.clone());
    }
    gone
}
