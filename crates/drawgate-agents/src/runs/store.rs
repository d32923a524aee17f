//! Runs, steps and messages as documents of the gateway's store, sealed.

use std::sync::Arc;

use drawgate_core::store::{Documents, Owed, Store, StoreError, Write};
use drawgate_host::seal::SealingKey;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::record::{InboxMessage, RunRecord, Step};

/// The kinds of documents.
const RUN: &str = "run";
const STEP: &str = "run_step";
const INBOX: &str = "run_inbox";

/// Steps of a run, in an order that is also that of their ids.
const STEP_DIGITS: usize = 8;

/// One change of what is kept.
pub(crate) enum Change<'a> {
    /// Adds or replaces a run.
    Run(&'a RunRecord),
    /// Adds or replaces a step of a run.
    Step(&'a str, &'a Step),
    /// Adds a message.
    Message(&'a InboxMessage),
    /// Removes a message: it is a step now.
    Delivered(&'a str),
    /// Notes an event that the audit log must get.
    Owe(&'a Owed),
    /// A change of something that belongs to runs and is kept beside them.
    Beside(&'a Write),
}

/// Where runs are kept.
#[derive(Clone)]
pub(crate) struct RunStore {
    store: Arc<dyn Store>,
    documents: Arc<dyn Documents>,
    key: SealingKey,
}

impl RunStore {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        documents: Arc<dyn Documents>,
        key: SealingKey,
    ) -> Self {
        Self { store, documents, key }
    }

    /// Makes all of these changes, or none of them and fails.
    pub(crate) async fn commit(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let writes = changes.iter().map(|change| self.write(change)).collect::<Result<_, _>>()?;
        self.store.commit(writes).await
    }

    fn write(&self, change: &Change<'_>) -> Result<Write, StoreError> {
        Ok(match change {
            Change::Run(run) => self.put(RUN, run.id.clone(), run)?,
            Change::Step(run, step) => self.put(STEP, step_id(run, step.seq), step)?,
            Change::Message(message) => self.put(INBOX, message.id.clone(), message)?,
            Change::Owe(owed) => Write::Owe(Owed::clone(owed)),
            Change::Beside(write) => Write::clone(write),
            Change::Delivered(id) => Write::RemoveDocument { kind: INBOX, id: (*id).to_owned() },
        })
    }

    /// The write that adds or replaces a sealed document.
    pub(crate) fn put(
        &self,
        kind: &'static str,
        id: String,
        value: &impl Serialize,
    ) -> Result<Write, StoreError> {
        let failed = |reason: String| StoreError::Unavailable { operation: "seal a run", reason };
        let bytes = serde_json::to_vec(value).map_err(|error| failed(error.to_string()))?;
        let sealed = self.key.seal(context(kind, &id).as_bytes(), bytes);
        let sealed = sealed.map_err(|error| failed(error.to_string()))?;
        Ok(Write::PutDocument { kind, id, body: json!({ "sealed": sealed }) })
    }

    fn open<T: DeserializeOwned>(&self, kind: &'static str, id: &str, body: &Value) -> Option<T> {
        let sealed = body.get("sealed")?.as_str()?;
        let bytes = self.key.open(context(kind, id).as_bytes(), sealed)?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Reads what can be read; the rest is reported.
    fn all<T: DeserializeOwned>(&self, kind: &'static str, found: Vec<(String, Value)>) -> Vec<T> {
        let open = |(id, body): (String, Value)| {
            let value = self.open(kind, &id, &body);
            if value.is_none() {
                tracing::warn!(kind, id, "a stored document of a run can't be read");
            }
            value
        };
        found.into_iter().filter_map(open).collect()
    }

    /// The documents of a kind whose id begins with a prefix, by id, as far as they can be read.
    pub(crate) async fn sealed<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        prefix: &str,
    ) -> Result<Vec<T>, StoreError> {
        Ok(self.all(kind, self.documents.documents_under(kind, prefix).await?))
    }

    /// Removes a document.
    pub(crate) async fn remove_sealed(
        &self,
        kind: &'static str,
        id: String,
    ) -> Result<(), StoreError> {
        self.store.commit(vec![Write::RemoveDocument { kind, id }]).await
    }

    /// All runs, oldest first, parents before their children.
    pub(crate) async fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        let mut runs: Vec<RunRecord> = self.all(RUN, self.documents.documents(RUN).await?);
        runs.sort_by(|a, b| (a.created_at, a.depth, &a.id).cmp(&(b.created_at, b.depth, &b.id)));
        Ok(runs)
    }

    /// The steps of a run, in order.
    pub(crate) async fn steps(&self, run: &str) -> Result<Vec<Step>, StoreError> {
        let found = self.documents.documents_under(STEP, &format!("{run}/")).await?;
        Ok(self.all(STEP, found))
    }

    /// The messages that wait for a run, in order.
    pub(crate) async fn inbox(&self, run: &str) -> Result<Vec<InboxMessage>, StoreError> {
        let found = self.documents.documents_under(INBOX, &format!("{run}/")).await?;
        Ok(self.all(INBOX, found))
    }

    /// Removes a run with all that belongs to it.
    pub(crate) async fn remove(&self, run: &str) -> Result<(), StoreError> {
        let mut writes = vec![Write::RemoveDocument { kind: RUN, id: run.to_owned() }];
        for kind in [STEP, INBOX] {
            let found = self.documents.documents_under(kind, &format!("{run}/")).await?;
            writes.extend(found.into_iter().map(|(id, _)| Write::RemoveDocument { kind, id }));
        }
        self.store.commit(writes).await
    }
}

fn step_id(run: &str, seq: u32) -> String {
    format!("{run}/{seq:0STEP_DIGITS$}")
}

fn context(kind: &str, id: &str) -> String {
    format!("{kind} {id}")
}
