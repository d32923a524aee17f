//! The signed record that stands for events removed by retention.

use serde_json::{Map, Value};

use super::checkpoint::{CheckpointError, Signer, VerifyKeys, number, object, text};
use crate::canonical;

/// Says, signed, where a pruned log begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneRecord {
    /// The newest event that was removed.
    pub sequence: u64,
    /// Its hash, which the first event that is left has as its predecessor's.
    pub head: String,
    /// The hash of the newest checkpoint that was removed.
    pub checkpoint: String,
    /// The installation.
    pub install: String,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

impl PruneRecord {
    /// The signed canonical JSON.
    #[must_use]
    pub fn to_signed_json(&self, signer: &Signer) -> String {
        let mut map = Map::new();
        map.insert("at".to_owned(), self.at.into());
        map.insert("checkpoint".to_owned(), self.checkpoint.clone().into());
        map.insert("head".to_owned(), self.head.clone().into());
        map.insert("install".to_owned(), self.install.clone().into());
        map.insert("pruned".to_owned(), self.sequence.into());
        let signature = signer.sign(map.clone());
        map.insert("key".to_owned(), signer.keys().public_hex().into());
        map.insert("signature".to_owned(), signature.into());
        canonical::to_string(&Value::Object(map))
    }

    /// Reads a record and checks its signature.
    pub fn parse(body: &str, keys: &VerifyKeys) -> Result<Self, CheckpointError> {
        keys.check(body)?;
        Self::parse_unchecked(body)
    }

    /// Reads a record without checking who signed it.
    pub fn parse_unchecked(body: &str) -> Result<Self, CheckpointError> {
        let map = object(body)?;
        Ok(Self {
            // Its own name, so that a checkpoint can't be passed off as a prune record.
            sequence: number(&map, "pruned")?,
            head: text(&map, "head")?,
            checkpoint: text(&map, "checkpoint")?,
            install: text(&map, "install")?,
            at: number(&map, "at")?,
        })
    }
}
