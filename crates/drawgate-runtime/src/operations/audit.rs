//! The audit log: asking it, and removing old events.

use drawgate_core::audit::search::{AuditPage, AuditQuery, AuditSearch, FoundEvents, IdQuery};
use drawgate_core::model::Principal;
use drawgate_core::store::AuditReader;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{OperationError, Operations};

/// Events that may go.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Prune {
    /// All before this sequence.
    pub before: u64,
}

/// Events that are gone.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Pruned {
    /// How many.
    pub removed: u64,
}

/// Answers one page of a question to a log, whether or not a gateway writes it.
pub async fn search_audit(
    reader: &dyn AuditReader,
    query: AuditQuery,
) -> Result<AuditPage, OperationError> {
    Ok(reader.search(AuditSearch::new(query)?).await?)
}

/// Finds one page of the events that an id belongs to, with arguments that are kept beside them.
pub async fn find_audit(
    reader: &dyn AuditReader,
    query: IdQuery,
) -> Result<FoundEvents, OperationError> {
    let mut found = reader.find(query).await?;
    for event in found.events.iter_mut().map(|found| &mut found.event) {
        if event["inputKept"] == true
            && let Some(hash) = event["inputHash"].as_str()
            && let Some(kept) = reader.payload(hash).await?
        {
            event["input"] = serde_json::from_str(&kept).unwrap_or(Value::String(kept));
        }
    }
    Ok(found)
}

impl Operations {
    /// Answers one page of a question to the log.
    pub async fn search_audit(&self, query: AuditQuery) -> Result<AuditPage, OperationError> {
        search_audit(&*self.audit.reader(), query).await
    }

    /// Finds one page of the events that an id belongs to.
    pub async fn find_audit(&self, query: IdQuery) -> Result<FoundEvents, OperationError> {
        find_audit(&*self.audit.reader(), query).await
    }

    /// Removes old events; a signed record of where the log begins replaces them.
    pub async fn prune(&self, actor: &Principal, prune: Prune) -> Result<Pruned, OperationError> {
        Ok(Pruned { removed: self.audit.prune(actor, prune.before).await? })
    }
}
