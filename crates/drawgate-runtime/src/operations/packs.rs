//! Packs: programs that are connected and offer tools.

use drawgate_core::model::{Principal, shown_name};
use serde::{Deserialize, Serialize};

use super::{OperationError, Operations};
use crate::packs::{PackReport, PackToolView};

/// A pack and its tools.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackDetails {
    /// The pack.
    pub pack: PackReport,
    /// Its tools, by name.
    pub tools: Vec<PackToolView>,
}

impl Operations {
    /// All packs that are connected or in their grace period, by id.
    #[must_use]
    pub fn packs(&self) -> Vec<PackReport> {
        self.packs.list()
    }

    /// One pack.
    pub fn pack(&self, id: &str) -> Result<PackDetails, OperationError> {
        let pack = self.packs.list().into_iter().find(|pack| pack.id == id);
        Ok(PackDetails { pack: pack.ok_or_else(|| unknown(id))?, tools: self.packs.tools(id) })
    }

    /// Ends a pack's connection: its tools go at once, and calls under way end as unavailable. The event
    /// of the disconnection names the actor. A pack that dials again is admitted again as long as its key
    /// is authorised.
    pub async fn kick_pack(&self, actor: &Principal, id: &str) -> Result<(), OperationError> {
        if !self.packs.kick(id, actor).await {
            return Err(unknown(id));
        }
        Ok(())
    }
}

fn unknown(id: &str) -> OperationError {
    OperationError::UnknownPack(shown_name(id))
}
