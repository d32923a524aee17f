//! Outputs that were too large to be returned, in parts.

use drawgate_core::model::{ArtifactRef, Principal};
use drawgate_core::pipeline::Gateway;
use drawgate_core::store::ArtifactInfo;
use drawgate_sdk::proto::ArtifactPart;
use tonic::Status;
use tonic::codegen::tokio_stream::Iter;

/// Bytes of a part: far below what any client takes as a message.
const PART: usize = 64 * 1024;

/// An artifact on its way.
pub(in crate::surface::grpc) type Parts = Iter<std::vec::IntoIter<Result<ArtifactPart, Status>>>;

/// Reads an artifact of this agent's.
pub(super) async fn read(gateway: &Gateway, agent: &Principal, uri: &str) -> Result<Parts, Status> {
    let hash = uri.strip_prefix(ArtifactRef::URI_PREFIX).unwrap_or_default();
    let found = gateway.artifact(hash, agent).await.map_err(|error| {
        tracing::error!(error = %error, "artifacts can't be read");
        Status::unavailable("artifacts can't be read now")
    })?;
    let (info, bytes) = found.ok_or_else(|| Status::not_found("no such artifact"))?;
    Ok(tonic::codegen::tokio_stream::iter(parts(info, &bytes)))
}

fn parts(info: ArtifactInfo, bytes: &[u8]) -> Vec<Result<ArtifactPart, Status>> {
    let data = |data: &[u8]| ArtifactPart { data: data.to_vec(), ..ArtifactPart::default() };
    let (first, rest) = bytes.split_at(PART.min(bytes.len()));
    let size = bytes.len() as u64;
    let first = ArtifactPart { mime_type: info.reference.mime_type, size, ..data(first) };
    std::iter::once(first).chain(rest.chunks(PART).map(data)).map(Ok).collect()
}
