//! Artifacts in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::{ArtifactInfo, ArtifactLimits, NewArtifact, StoreError};
use crate::canonical;
use crate::model::{ArtifactRef, Principal};

/// The artifacts that are kept, by hash.
pub(super) struct Kept {
    all: BTreeMap<String, Artifact>,
    limits: ArtifactLimits,
}

struct Artifact {
    bytes: Vec<u8>,
    /// One for each owner; never empty.
    owners: Vec<ArtifactInfo>,
}

impl Kept {
    pub(super) fn new(limits: ArtifactLimits) -> Self {
        Self { all: BTreeMap::new(), limits }
    }

    pub(super) fn put(&mut self, new: NewArtifact) -> Result<ArtifactRef, StoreError> {
        let sha256 = canonical::sha256_hex(&new.bytes);
        let (size, quota) = (new.bytes.len() as u64, self.limits.quota);
        if size > quota {
            return Err(StoreError::Quota { used: size, quota });
        }
        self.clear(&sha256, new.created_at, quota - size);
        let info = ArtifactInfo {
            reference: ArtifactRef::new(sha256.clone(), size, new.mime_type),
            owner: new.owner,
            tool_id: new.tool_id,
            created_at: new.created_at,
        };
        let empty = Artifact { bytes: new.bytes, owners: Vec::new() };
        let artifact = self.all.entry(sha256).or_insert(empty);
        artifact.owners.retain(|other| other.owner != info.owner);
        artifact.owners.push(info.clone());
        Ok(info.reference)
    }

    pub(super) fn get(
        &self,
        sha256: &str,
        reader: &Principal,
        now_ms: u64,
    ) -> Option<(ArtifactInfo, Vec<u8>)> {
        let artifact = self.all.get(sha256)?;
        let readable = artifact.owners.iter().filter(|info| self.may_read(reader, info, now_ms));
        let newest = readable.max_by_key(|info| info.created_at)?;
        Some((newest.clone(), artifact.bytes.clone()))
    }

    pub(super) fn list(&self, reader: &Principal, now_ms: u64) -> Vec<ArtifactInfo> {
        let all = self.all.values().flat_map(|artifact| &artifact.owners);
        let mut found: Vec<ArtifactInfo> =
            all.filter(|info| self.may_read(reader, info, now_ms)).cloned().collect();
        found.sort_by(|a, b| {
            let key = |info: &ArtifactInfo| {
                (Reverse(info.created_at), info.reference.sha256.clone(), info.owner.clone())
            };
            key(a).cmp(&key(b))
        });
        found
    }

    pub(super) fn remove(&mut self, sha256: &str) -> bool {
        self.all.remove(sha256).is_some()
    }

    pub(super) fn expire(&mut self, now_ms: u64) -> usize {
        self.clear("", now_ms, u64::MAX)
    }

    /// Removes all but one artifact that are too old, then the oldest until the others have no more
    /// bytes than this; how many went.
    fn clear(&mut self, but: &str, now_ms: u64, most: u64) -> usize {
        let oldest = self.limits.oldest(now_ms);
        let others = self.all.iter().filter(|(sha256, _)| *sha256 != but);
        let mut by_age: Vec<(u64, String, u64)> = others
            .map(|(sha256, it)| (it.created_at(), sha256.clone(), it.bytes.len() as u64))
            .collect();
        by_age.sort();
        let mut used: u64 = by_age.iter().map(|(_, _, size)| size).sum();
        let mut removed = 0;
        for (created_at, sha256, size) in by_age {
            if created_at >= oldest && used <= most {
                break;
            }
            self.all.remove(&sha256);
            used -= size;
            removed += 1;
        }
        removed
    }

    fn may_read(&self, reader: &Principal, info: &ArtifactInfo, now_ms: u64) -> bool {
        let is_theirs = info.owner == *reader || *reader == Principal::local();
        is_theirs && info.created_at >= self.limits.oldest(now_ms)
    }
}

impl Artifact {
    /// When it was stored last.
    fn created_at(&self) -> u64 {
        self.owners.iter().map(|info| info.created_at).max().unwrap_or_default()
    }
}
