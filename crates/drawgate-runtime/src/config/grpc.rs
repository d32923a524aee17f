//! `[grpc]`: packs and agents that dial in.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packs and agents that dial in over gRPC and prove themselves with an SSH key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Grpc {
    /// Whether they may, on the address that `listen` names.
    pub enabled: bool,
    /// The file with the authorised keys, which `drawgate keys` edits. Relative to the data folder.
    #[schemars(extend("format" = "trusted-path-in-data"))]
    pub keys: PathBuf,
    /// Seconds that the tools of a pack which is gone stay listed, as unavailable, so that one that
    /// restarts does not change every agent's list. 0: they go at once.
    #[schemars(range(min = 0, max = 3600))]
    pub grace_seconds: u64,
    /// Seconds after which a silent connection is asked whether it lives; unanswered, it ends after
    /// as many again.
    #[schemars(range(min = 1, max = 3600))]
    pub heartbeat_seconds: u64,
    /// Largest message, in bytes.
    #[schemars(range(min = 16_384, max = 1_073_741_824))]
    pub max_message_bytes: usize,
    /// Most calls under way at a time in one pack.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_calls_per_pack: usize,
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            enabled: true,
            keys: PathBuf::from("authorized_keys"),
            grace_seconds: 0,
            heartbeat_seconds: 10,
            max_message_bytes: 16 * 1024 * 1024,
            max_calls_per_pack: 64,
        }
    }
}
