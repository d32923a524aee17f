//! Packs that have dialled in: they register a manifest, get calls and answer them.
//!
//! What a pack offers becomes a source like any other. How its messages travel is the surface's
//! business; here is what a connection may register, and what becomes of its tools when it ends.

mod attend;
mod refusal;
mod register;
mod report;
mod seat;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use drawgate_core::clock::Ids;
use drawgate_core::model::SourceId;
use drawgate_core::pipeline::Gateway;
use drawgate_core::registry::{Keeper, SourceTerms};
use drawgate_sources::pack::PackSource;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use refusal::PackRefusal;
pub use report::{PackReport, ShownPackTool};
pub use seat::Seat;

use crate::peers::{Door, End, Peer};

/// What the operator says about all packs.
#[derive(Debug, Clone, Copy)]
pub struct PackSettings {
    /// How long the tools of a pack that is gone stay listed.
    pub grace: Duration,
    /// How often a pack is asked for a sign of life.
    pub heartbeat: Duration,
    /// Calls of one pack at once, at most.
    pub max_calls: usize,
}

/// The packs that are connected, or gone for a moment.
pub struct Packs {
    gateway: Gateway,
    keeper: Arc<Keeper>,
    ids: Arc<dyn Ids>,
    /// The terms of every source.
    base: ArcSwap<SourceTerms>,
    settings: PackSettings,
    known: Mutex<BTreeMap<SourceId, Known>>,
    /// Held while a pack is judged.
    registering: tokio::sync::Mutex<()>,
    door: Arc<Door>,
}

/// One of them.
#[derive(Clone)]
struct Known {
    peer: Arc<Peer>,
    source: Arc<PackSource>,
    /// How many of its calls run at once.
    calls: usize,
    /// Cancelled when the operator gives its id to somebody else.
    notice: CancellationToken,
    /// Ends its grace.
    dismiss: CancellationToken,
    /// Cancelled when nothing of it is left.
    gone: CancellationToken,
}

impl Packs {
    /// None yet.
    #[must_use]
    pub fn new(
        gateway: Gateway,
        keeper: Arc<Keeper>,
        ids: Arc<dyn Ids>,
        base: SourceTerms,
        settings: PackSettings,
        door: Arc<Door>,
    ) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            keeper,
            ids,
            base: ArcSwap::from_pointee(base),
            settings,
            known: Mutex::default(),
            registering: tokio::sync::Mutex::default(),
            door,
        })
    }

    /// Takes over other terms, for the packs that come from now on.
    pub fn set_terms(&self, base: SourceTerms) {
        self.base.store(Arc::new(base));
    }

    /// Ends a pack's connection and takes its tools out; `false` if there is no such pack.
    pub async fn kick(&self, id: &str) -> bool {
        let known = self.known.lock().get(id).cloned();
        let Some(known) = known else { return false };
        known.peer.end(End::Kicked);
        known.dismiss.cancel();
        known.gone.cancelled().await;
        true
    }

    fn count(&self) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; the number is small")]
        metrics::gauge!("drawgate_packs").set(self.known.lock().len() as f64);
    }
}
