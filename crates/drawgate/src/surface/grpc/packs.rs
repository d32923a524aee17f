//! Packs over gRPC: they register, get calls on one stream and answer each by a request.

mod calls;

use std::sync::Arc;

use drawgate_runtime::packs::{PackRefusal, PackSlot, Packs};
use drawgate_sdk::proto::pack_service_server::PackService;
use drawgate_sdk::proto::{Empty, ExecuteToolResponse, Heartbeat, PackManifest, ToolProgress};
use drawgate_sdk::statement::Purpose;
use drawgate_sources::pack::Dropped;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

pub use calls::Calls;

use super::login;

/// The packs' service.
pub struct PackHandler {
    packs: Arc<Packs>,
    stop: CancellationToken,
}

impl PackHandler {
    pub(super) fn new(packs: Arc<Packs>, stop: CancellationToken) -> Self {
        Self { packs, stop }
    }
}

#[tonic::async_trait]
impl PackService for PackHandler {
    type ConnectStream = Calls;

    async fn connect(&self, request: Request<PackManifest>) -> Result<Response<Calls>, Status> {
        let peer = login::peer(&request, Purpose::Pack)?;
        let reservation = slot_of(&request)?.reserve().ok_or_else(|| {
            Status::failed_precondition(
                "this connection serves a manifest already; connect again to change it",
            )
        })?;
        let (packs, stop) = (Arc::clone(&self.packs), self.stop.clone());
        let (manifest, owner) = (request.into_inner(), Arc::clone(&peer));
        // A peer that goes away half-way must not leave a pack behind that no task monitors.
        let registering =
            tokio::spawn(async move { packs.register(owner, reservation, manifest, stop).await });
        let outgoing =
            registering.await.map_err(|_| Status::internal("the gateway failed inside"))?;
        Ok(Response::new(Calls::new(outgoing.map_err(status)?, peer)))
    }

    async fn tool_result(
        &self,
        request: Request<ExecuteToolResponse>,
    ) -> Result<Response<Empty>, Status> {
        login::peer(&request, Purpose::Pack)?;
        let connection = slot_of(&request)?.connection();
        let given = match connection {
            Some(connection) => connection.answer(request.into_inner()),
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
        if let Some(connection) = slot_of(&request)?.connection() {
            connection.progress(request.into_inner());
        }
        Ok(Response::new(Empty {}))
    }

    async fn alive(&self, request: Request<Heartbeat>) -> Result<Response<Empty>, Status> {
        login::peer(&request, Purpose::Pack)?;
        if let Some(connection) = slot_of(&request)?.connection() {
            connection.alive();
        }
        Ok(Response::new(Empty {}))
    }
}

fn slot_of<T>(request: &Request<T>) -> Result<Arc<PackSlot>, Status> {
    let slot = request.extensions().get::<Arc<PackSlot>>();
    slot.cloned().ok_or_else(|| Status::internal("this request came by no connection"))
}

fn status(refusal: PackRefusal) -> Status {
    match refusal {
        PackRefusal::InvalidName(message) => Status::failed_precondition(message),
        PackRefusal::InvalidManifest(message) => Status::invalid_argument(message),
        PackRefusal::NameTaken(message) => Status::already_exists(message),
        PackRefusal::ForeignId(message) => Status::permission_denied(message),
        PackRefusal::ConnectionEnded => {
            Status::unavailable("this connection has ended, or the gateway stops")
        }
        PackRefusal::Internal => Status::internal("the gateway failed inside"),
    }
}
