//! What an operator does to packs.

use anyhow::bail;

use super::Operations;
use crate::packs::PackReport;

impl Operations {
    /// One pack.
    pub fn pack(&self, id: &str) -> anyhow::Result<PackReport> {
        match self.packs.list().into_iter().find(|pack| pack.id == id) {
            Some(pack) => Ok(pack),
            None => bail!(unknown(id)),
        }
    }

    /// Ends a pack's connection: its tools go at once, and calls under way end as unavailable. The end
    /// of the connection is written down with the reason. A pack that dials again is let in again as
    /// long as its key counts.
    pub async fn kick_pack(&self, id: &str) -> anyhow::Result<()> {
        if self.packs.kick(id).await { Ok(()) } else { bail!(unknown(id)) }
    }
}

fn unknown(id: &str) -> String {
    let shown = drawgate_core::model::shown_name(id);
    format!("no pack `{shown}` is connected; `drawgate packs list` shows those that are")
}
