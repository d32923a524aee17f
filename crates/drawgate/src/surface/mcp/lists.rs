//! Prepared answers to `tools/list`: made once per set of capabilities and revision of the registry.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use drawgate_core::model::{Caller, Capability};
use drawgate_core::pipeline::Gateway;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// How many different lists are kept. Callers with the same capabilities share one.
const KEPT: usize = 64;

/// A list, ready to be sent.
pub(super) struct Prepared {
    revision: u64,
    held: BTreeSet<Capability>,
    /// The JSON array of tool definitions.
    pub(super) tools: Bytes,
    /// Equal for equal lists.
    pub(super) digest: [u8; 32],
}

/// The lists that were prepared.
#[derive(Default)]
pub(super) struct Lists(Mutex<Vec<Arc<Prepared>>>);

impl Lists {
    /// The list of one caller, as its grants and the registry are now.
    pub(super) fn of(&self, gateway: &Gateway, caller: &Caller) -> Arc<Prepared> {
        let parts = gateway.parts();
        let held = parts.grants.held(caller, parts.clock.now_ms());
        let snapshot = parts.registry.snapshot();
        let revision = snapshot.revision();
        if let Some(ready) = self.find(revision, &held) {
            return ready;
        }
        let listings = gateway.listings(&held, &snapshot);
        let tools = Bytes::from(serde_json::to_vec(&listings).unwrap_or_else(|_| b"[]".to_vec()));
        let digest = Sha256::digest(&tools).into();
        let prepared = Arc::new(Prepared { revision, held, tools, digest });
        let mut kept = self.0.lock();
        kept.retain(|other| other.revision == revision);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&prepared));
        prepared
    }

    fn find(&self, revision: u64, held: &BTreeSet<Capability>) -> Option<Arc<Prepared>> {
        let kept = self.0.lock();
        kept.iter().find(|list| list.revision == revision && list.held == *held).cloned()
    }
}
