//! Which service answers a request.

use std::convert::Infallible;
use std::sync::Arc;

use drawgate_sdk::proto::FILE_DESCRIPTOR_SET;
use drawgate_sdk::proto::fold_service_server::FoldServiceServer;
use drawgate_sdk::proto::login_service_server::LoginServiceServer;
use drawgate_sdk::proto::pack_service_server::PackServiceServer;
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, HealthService};
use tower::util::BoxCloneSyncService;

use super::agents::Agents;
use super::login::{self, Login};
use super::packs::PackHandler;
use drawgate_runtime::packs::Packs;

type PackServer = PackServiceServer<PackHandler>;
type FoldServer = FoldServiceServer<Agents>;
type LoginServer = LoginServiceServer<Login>;
type Health = tonic_health::pb::health_server::HealthServer<HealthService>;
type Reflection = BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>;

/// All services of the surface.
pub(super) struct Services {
    login: LoginServer,
    packs: PackServer,
    agents: FoldServer,
    health: Health,
    reflection: Reflection,
    /// The same in the version that most tools still ask for.
    reflection_alpha: Reflection,
}

impl Services {
    pub(super) fn new(
        packs: Arc<Packs>,
        agents: Agents,
        max_message: usize,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let reporter = HealthReporter::new();
        tokio::spawn(report_health(reporter.clone(), stop.clone()));
        let health = Health::new(HealthService::from_health_reporter(reporter));
        let described = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let reflection = described().build_v1()?.max_decoding_message_size(login::MAX_MESSAGE);
        let alpha = described().build_v1alpha()?.max_decoding_message_size(login::MAX_MESSAGE);
        let handler = PackHandler::new(packs, stop.clone());
        Ok(Self {
            login: LoginServer::new(Login).max_decoding_message_size(login::MAX_MESSAGE),
            packs: PackServer::new(handler).max_decoding_message_size(max_message),
            agents: FoldServer::new(agents).max_decoding_message_size(max_message),
            health: health.max_decoding_message_size(login::MAX_MESSAGE),
            reflection: BoxCloneSyncService::new(reflection),
            reflection_alpha: BoxCloneSyncService::new(alpha),
        })
    }

    /// Hands a request on that has been admitted.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path();
        let service = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        match service.map(|(service, _)| service) {
            Some(PackServer::NAME) => self.packs.clone().call(request).await,
            Some(FoldServer::NAME) => self.agents.clone().call(request).await,
            Some(LoginServer::NAME) => self.login.clone().call(request).await,
            Some(Health::NAME) => self.health.clone().call(request).await,
            Some("grpc.reflection.v1.ServerReflection") => {
                self.reflection.clone().call(request).await
            }
            Some("grpc.reflection.v1alpha.ServerReflection") => {
                self.reflection_alpha.clone().call(request).await
            }
            _ => Ok(Status::unimplemented("there is no such service").into_http()),
        }
    }
}

/// Whether a request is one of gRPC; anything else must use HTTP/1.1.
pub(super) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    request.method() == http::Method::POST
        && kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// The answer to a request that is not of gRPC.
pub(super) fn not_grpc() -> Response<Body> {
    let text = "HTTP/2 is for gRPC here; use HTTP/1.1 for everything else\n";
    let mut response = Response::new(Body::new(http_body_util::Full::from(text)));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// The services are well until the gateway stops.
async fn report_health(reporter: HealthReporter, stop: CancellationToken) {
    let all = ["", PackServer::NAME, FoldServer::NAME, LoginServer::NAME];
    for service in all {
        reporter.set_service_status(service, ServingStatus::Serving).await;
    }
    stop.cancelled().await;
    for service in all {
        reporter.set_service_status(service, ServingStatus::NotServing).await;
    }
}
