//! Outputs that were too long to return.

use std::sync::Arc;

use drawgate_core::audit::EventKind;
use drawgate_core::model::{Principal, shown_name};
use drawgate_core::store::ArtifactInfo;

use super::{OperationError, Operations};

impl Operations {
    /// All artifacts, newest first.
    pub async fn artifacts(&self) -> Result<Vec<ArtifactInfo>, OperationError> {
        Ok(self.gateway.artifacts(&Principal::local()).await?)
    }

    /// An artifact and its bytes.
    pub async fn artifact(&self, sha256: &str) -> Result<(ArtifactInfo, Vec<u8>), OperationError> {
        let found = self.gateway.artifact(sha256, &Principal::local()).await?;
        found.ok_or_else(|| unknown(sha256))
    }

    /// Removes an artifact of all its owners.
    pub async fn remove_artifact(
        &self,
        actor: &Principal,
        sha256: &str,
    ) -> Result<(), OperationError> {
        let turn = self.acts.turn().await;
        let artifacts = Arc::clone(&self.control.parts().artifacts);
        let all = artifacts.list(&Principal::local()).await?;
        if !all.iter().any(|info| info.reference.sha256 == sha256) {
            return Err(unknown(sha256));
        }
        let outcome = self.draft(actor, EventKind::ArtifactRemoved).text("artifact", sha256);
        let sha256 = sha256.to_owned();
        let work = async move {
            artifacts.remove(&sha256).await.map(drop).map_err(|error| error.to_string())
        };
        Ok(turn.act_on_files(vec![outcome], self.files(), work).await?)
    }
}

fn unknown(sha256: &str) -> OperationError {
    OperationError::UnknownArtifact(shown_name(sha256))
}
