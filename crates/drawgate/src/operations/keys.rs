//! Keys of packs and agents: authorised and withdrawn by the operator, and written down.

use std::sync::Arc;

use anyhow::bail;
use drawgate_core::audit::EventKind;
use tokio::task::spawn_blocking;

use super::Operations;
use crate::peers::{Authorized, NewKey, Selection};

impl Operations {
    /// Authorises a key. It counts at once.
    pub async fn add_key(&self, new: &NewKey) -> anyhow::Result<Authorized> {
        let _acting = self.acting.lock().await;
        let line = new.line()?;
        let terms = self.door.would_add(&line)?;
        let door = Arc::clone(&self.door);
        // Others may be at the file, and are waited for.
        spawn_blocking(move || door.add(&line)).await??;
        let noted = self.note(terms.describe(self.draft(EventKind::KeyAdded))).await;
        if noted.is_err() {
            // What can't be written down does not count.
            let name = Some((terms.purpose, terms.name.clone()));
            let fingerprint = Some(terms.fingerprint.clone());
            self.take_out(Selection { fingerprint, name }).await?;
        }
        noted.map(|()| terms)
    }

    /// Withdraws keys, and cuts who is connected by them. Returns what they stood for.
    pub async fn remove_keys(&self, selection: &Selection) -> anyhow::Result<Vec<Authorized>> {
        let _acting = self.acting.lock().await;
        let gone = self.door.would_remove(selection)?;
        if gone.is_empty() {
            bail!("there is no such key; `drawgate keys list` shows them");
        }
        self.take_out(selection.clone()).await?;
        for terms in &gone {
            self.note(terms.describe(self.draft(EventKind::KeyRemoved))).await?;
        }
        Ok(gone)
    }

    async fn take_out(&self, selection: Selection) -> anyhow::Result<()> {
        let door = Arc::clone(&self.door);
        spawn_blocking(move || door.remove(&selection)).await?
    }
}
