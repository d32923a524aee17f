//! Packs over gRPC: they register, get calls on one stream and answer each by a request.
//!
//! What a pack offers becomes a source like any other; here are its connection's rights and wrongs.

mod attend;
mod calls;
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
use drawgate_sdk::proto::pack_service_server::PackService;
use drawgate_sdk::proto::{Empty, ExecuteToolResponse, Heartbeat, PackManifest, ToolProgress};
use drawgate_sdk::statement::Purpose;
use drawgate_sources::pack::{Dropped, PackSource};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

pub use calls::Calls;
pub use report::{PackReport, ShownPackTool};
pub(super) use seat::Seat;

use super::login::{self, Peer};
use crate::peers::{Door, End};

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

/// The packs' service.
pub struct PackDoor {
    packs: Arc<Packs>,
    stop: CancellationToken,
}

impl PackDoor {
    pub(super) fn new(packs: Arc<Packs>, stop: CancellationToken) -> Self {
        Self { packs, stop }
    }
}

#[tonic::async_trait]
impl PackService for PackDoor {
    type ConnectStream = Calls;

    async fn connect(&self, request: Request<PackManifest>) -> Result<Response<Calls>, Status> {
        let peer = login::peer(&request, Purpose::Pack)?;
        let claim = seat_of(&request)?.claim().ok_or_else(|| {
            Status::failed_precondition(
                "this connection serves a manifest already; connect again to change it",
            )
        })?;
        let (packs, stop) = (Arc::clone(&self.packs), self.stop.clone());
        let manifest = request.into_inner();
        // A peer that goes away half-way must not leave a pack behind that nobody attends.
        let registering =
            tokio::spawn(async move { packs.register(peer, claim, manifest, stop).await });
        let calls = registering.await.map_err(|_| Status::internal("the gateway failed inside"))?;
        Ok(Response::new(calls?))
    }

    async fn tool_result(
        &self,
        request: Request<ExecuteToolResponse>,
    ) -> Result<Response<Empty>, Status> {
        login::peer(&request, Purpose::Pack)?;
        let line = seat_of(&request)?.line();
        let given = match line {
            Some(line) => line.answer(request.into_inner()),
            None => Err(Dropped::Foreign),
        };
        if let Err(dropped) = given {
            metrics::counter!("drawgate_pack_results_dropped_total", "reason" => dropped.as_str())
                .increment(1);
        }
        Ok(Response::new(Empty {}))
    }

    async fn progress(&self, request: Request<ToolProgress>) -> Result<Response<Empty>, Status> {
        login::peer(&request, Purpose::Pack)?;
        if let Some(line) = seat_of(&request)?.line() {
            line.progress(request.into_inner());
        }
        Ok(Response::new(Empty {}))
    }

    async fn alive(&self, request: Request<Heartbeat>) -> Result<Response<Empty>, Status> {
        login::peer(&request, Purpose::Pack)?;
        if let Some(line) = seat_of(&request)?.line() {
            line.alive();
        }
        Ok(Response::new(Empty {}))
    }
}

fn seat_of<T>(request: &Request<T>) -> Result<Arc<Seat>, Status> {
    let seat = request.extensions().get::<Arc<Seat>>();
    seat.cloned().ok_or_else(|| Status::internal("this request came by no connection"))
}
