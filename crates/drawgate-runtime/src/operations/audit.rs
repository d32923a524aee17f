//! The audit log: removing old events.

use drawgate_core::model::Principal;
use serde::{Deserialize, Serialize};

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

impl Operations {
    /// Removes old events; a signed record of where the log begins replaces them.
    pub async fn prune(&self, actor: &Principal, prune: Prune) -> Result<Pruned, OperationError> {
        Ok(Pruned { removed: self.audit.prune(actor, prune.before).await? })
    }
}
