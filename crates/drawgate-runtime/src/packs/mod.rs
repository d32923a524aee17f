//! Packs that have dialled in: they register a manifest, get calls and answer them.
//!
//! What a pack offers becomes a source like any other. How its messages travel is the surface's
//! business; here is what a connection may register, and what becomes of its tools when it ends.

mod monitor;
mod refusal;
mod register;
mod report;
mod slot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use drawgate_core::clock::Ids;
use drawgate_core::model::{Principal, SourceId};
use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::{SourceSupervisor, SourceTerms};
use drawgate_sources::pack::PackSource;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use refusal::PackRefusal;
pub use report::{PackReport, PackToolView};
pub use slot::PackSlot;

use crate::peers::{Peer, PeerAuthenticator};

/// The operator's settings for all packs.
#[derive(Debug, Clone, Copy)]
pub struct PackSettings {
    /// How long the tools of a pack that is gone stay listed.
    pub grace: Duration,
    /// How often a pack is asked for a sign of life.
    pub heartbeat: Duration,
    /// Calls of one pack at once, at most.
    pub max_calls: usize,
}

/// The packs that are connected, or in their grace period.
pub struct Packs {
    gateway: Gateway,
    supervisor: Arc<SourceSupervisor>,
    ids: Arc<dyn Ids>,
    /// The terms of every source.
    base: ArcSwap<SourceTerms>,
    settings: PackSettings,
    connected: Mutex<BTreeMap<SourceId, ConnectedPack>>,
    /// Held while a pack registers.
    registering: tokio::sync::Mutex<()>,
    authenticator: Arc<PeerAuthenticator>,
}

/// A pack that is connected, or in its grace period.
#[derive(Clone)]
struct ConnectedPack {
    peer: Arc<Peer>,
    source: Arc<PackSource>,
    /// How many of its calls run at once.
    calls: usize,
    /// Cancelled when the operator gives its id to another source.
    id_taken: CancellationToken,
    /// Cancelled to end its grace period.
    end_grace: CancellationToken,
    /// Cancelled when it is removed.
    gone: CancellationToken,
}

impl Packs {
    /// Creates an empty set of packs.
    #[must_use]
    pub fn new(
        gateway: Gateway,
        supervisor: Arc<SourceSupervisor>,
        ids: Arc<dyn Ids>,
        base: SourceTerms,
        settings: PackSettings,
        authenticator: Arc<PeerAuthenticator>,
    ) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            supervisor,
            ids,
            base: ArcSwap::from_pointee(base),
            settings,
            connected: Mutex::default(),
            registering: tokio::sync::Mutex::default(),
            authenticator,
        })
    }

    /// Sets the terms for packs that register from now on.
    pub fn set_terms(&self, base: SourceTerms) {
        self.base.store(Arc::new(base));
    }

    /// Ends a pack's connection and removes its tools; `false` if there is no such pack.
    pub async fn kick(&self, id: &str, operator: &Principal) -> bool {
        let pack = self.connected.lock().get(id).cloned();
        let Some(pack) = pack else { return false };
        pack.peer.disconnection.kick(operator);
        pack.end_grace.cancel();
        pack.gone.cancelled().await;
        true
    }

    fn count(&self) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; the number is small")]
        metrics::gauge!("drawgate_packs").set(self.connected.lock().len() as f64);
    }
}
