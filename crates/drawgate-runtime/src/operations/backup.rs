//! Copying the data folder while the gateway runs.

use std::path::PathBuf;

use anyhow::Context as _;
use drawgate_core::audit::EventKind;
use drawgate_core::model::Principal;
use drawgate_host::store::DataDir;
use drawgate_host::store::backup::{Copied, CopyError, Destination, Snapshot};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{OperationError, Operations};

/// Where a copy of the data folder goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackUp {
    /// A folder that is not there yet, or is empty; absolute.
    pub folder: PathBuf,
}

/// A copy that was made and verified.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackedUp {
    /// The folder.
    pub folder: PathBuf,
    /// How many events its audit log has.
    pub events: u64,
    /// Its newest event.
    pub head: u64,
    /// What of the log is not proved, although nothing is wrong with it.
    pub unproved: Vec<String>,
}

impl BackedUp {
    /// A copy in a folder.
    #[must_use]
    pub fn new(folder: PathBuf, copied: Copied) -> Self {
        let Copied { events, head, unproved } = copied;
        Self { folder, events, head, unproved }
    }
}

impl Operations {
    /// Copies the data folder as it is at one moment, between two acts. The copy has the event of it.
    pub async fn back_up(
        &self,
        actor: &Principal,
        BackUp { folder }: BackUp,
    ) -> Result<BackedUp, OperationError> {
        let dir = DataDir::existing(&self.data).map_err(CopyError::from)?;
        let destination = Destination::new(&dir, &folder)?;
        let turn = self.acts.turn().await;
        let started = self.draft(actor, EventKind::BackupStarted);
        let started = started.text("folder", folder.display().to_string());
        self.audit.append(started).await?;
        let taken = spawn_blocking(move || Snapshot::take(dir)).await.context("the copy")?;
        drop(turn);
        let snapshot = taken?;
        let copied = spawn_blocking(move || snapshot.write(destination)).await;
        Ok(BackedUp::new(folder, copied.context("the copy")??))
    }
}
