//! Outputs that were too large to be returned, read on the agent's own connection.

use tokio::time::timeout;
use tonic::{Code, Status};

use super::CallError;
use crate::gateway::{ANSWER_LIMIT, Line};
use crate::proto::ArtifactRequest;
use crate::proto::fold_service_client::FoldServiceClient;

/// The whole of an output that was too large to be returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The media type, such as `text/plain`.
    pub mime_type: String,
    /// All of it.
    pub data: Vec<u8>,
}

pub(super) async fn read(
    mut client: FoldServiceClient<Line>,
    uri: String,
) -> Result<Artifact, CallError> {
    let late = |_| CallError::unavailable("the gateway took too long to answer");
    let asked = client.read_artifact(ArtifactRequest { uri });
    let mut parts = timeout(ANSWER_LIMIT, asked).await.map_err(late)?.map_err(failed)?.into_inner();
    let mut found: Option<(Artifact, u64)> = None;
    while let Some(part) =
        timeout(ANSWER_LIMIT, parts.message()).await.map_err(late)?.map_err(failed)?
    {
        let (artifact, _) = found.get_or_insert_with(|| {
            (Artifact { mime_type: part.mime_type, data: Vec::new() }, part.size)
        });
        artifact.data.extend(part.data);
    }
    match found {
        Some((artifact, size)) if artifact.data.len() as u64 == size => Ok(artifact),
        _ => Err(CallError::unavailable("the gateway's answer ended too soon")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn failed(status: Status) -> CallError {
    let code = match status.code() {
        Code::NotFound | Code::InvalidArgument => CallError::RESOURCE_NOT_FOUND,
        _ => CallError::UNAVAILABLE,
    };
    CallError::new(code, status.message())
}
