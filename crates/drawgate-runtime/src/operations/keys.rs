//! Keys of packs and agents: authorised and withdrawn by the operator.

use std::sync::Arc;

use anyhow::bail;
use drawgate_core::acts::Turn;
use drawgate_core::audit::EventKind;
use tokio::task::spawn_blocking;

use super::Operations;
use crate::peers::{Authorized, Door, NewKey, Selection};

impl Operations {
    /// Authorises a key. It counts at once.
    pub async fn add_key(&self, new: &NewKey) -> anyhow::Result<Authorized> {
        let turn = self.acts.turn().await;
        let line = new.line()?;
        let terms = self.door.would_add(&line)?;
        let change = move |door: &Door| door.add(&line);
        self.change_keys(turn, EventKind::KeyAdded, std::slice::from_ref(&terms), change).await?;
        Ok(terms)
    }

    /// Withdraws keys, and cuts who is connected by them. Returns what they stood for.
    pub async fn remove_keys(&self, selection: &Selection) -> anyhow::Result<Vec<Authorized>> {
        let turn = self.acts.turn().await;
        let gone = self.door.would_remove(selection)?;
        if gone.is_empty() {
            bail!("there is no such key; `drawgate keys list` shows them");
        }
        let selection = selection.clone();
        let change = move |door: &Door| door.remove(&selection);
        self.change_keys(turn, EventKind::KeyRemoved, &gone, change).await?;
        Ok(gone)
    }

    async fn change_keys(
        &self,
        turn: Turn,
        kind: EventKind,
        keys: &[Authorized],
        change: impl FnOnce(&Door) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let outcomes = keys.iter().map(|terms| terms.describe(self.draft(kind))).collect();
        let door = Arc::clone(&self.door);
        let work = async move {
            // Others may be at the file, and are waited for.
            let done = spawn_blocking(move || change(&door)).await;
            done.map_err(anyhow::Error::from).flatten().map_err(|error| format!("{error:#}"))
        };
        Ok(turn.act_on_files(outcomes, self.files(), work).await?)
    }
}
