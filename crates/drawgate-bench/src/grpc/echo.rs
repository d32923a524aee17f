//! The bare server: answers every call on a stream, and every unary request, with what it was given.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;

use anyhow::{Context, Result};
use drawgate_sdk::proto::agent_message::Message as Asked;
use drawgate_sdk::proto::fold_service_server::{FoldService, FoldServiceServer};
use drawgate_sdk::proto::gateway_message::Message as Answered;
use drawgate_sdk::proto::login_service_server::{LoginService, LoginServiceServer};
use drawgate_sdk::proto::tool_call_result::Result as Outcome;
use drawgate_sdk::proto::{
    AgentMessage, ArtifactPart, ArtifactRequest, ChallengeRequest, ChallengeResponse,
    GatewayMessage, ProveRequest, ProveResponse, ToolCallResult,
};
use futures_util::{Stream, StreamExt, TryStreamExt};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, Streaming};
use tower::Service;

use crate::listen::LISTENING;

/// Options of the role `grpc-echo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until killed.
pub(crate) async fn main(args: Args) -> Result<()> {
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("can not bind `{}`; choose another `--listen`", args.listen))?;
    println!("{LISTENING}{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(|request| async {
            let is_unary = request.uri().path().starts_with("/drawgate.v1.LoginService/");
            if is_unary {
                LoginServiceServer::new(Echo).call(request).await
            } else {
                FoldServiceServer::new(Echo).call(request).await
            }
        });
        let served = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            if let Err(error) = served.await {
                eprintln!("a connection failed: {error}");
            }
        });
    }
}

struct Echo;

#[tonic::async_trait]
impl FoldService for Echo {
    type ConverseStream = Pin<Box<dyn Stream<Item = Result<GatewayMessage, Status>> + Send>>;
    type ReadArtifactStream = Pin<Box<dyn Stream<Item = Result<ArtifactPart, Status>> + Send>>;

    async fn read_artifact(
        &self,
        _: Request<ArtifactRequest>,
    ) -> Result<Response<Self::ReadArtifactStream>, Status> {
        Err(Status::not_found("an echo keeps nothing"))
    }

    async fn converse(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConverseStream>, Status> {
        let answers = request.into_inner().map_ok(|asked| {
            let Some(Asked::Call(call)) = asked.message else { return GatewayMessage::default() };
            let result = ToolCallResult {
                request_id: call.request_id,
                result: Some(Outcome::OutputJson(call.input_json)),
                content_json: String::new(),
            };
            GatewayMessage { message: Some(Answered::Result(result)) }
        });
        Ok(Response::new(answers.boxed()))
    }
}

#[tonic::async_trait]
impl LoginService for Echo {
    async fn challenge(
        &self,
        _: Request<ChallengeRequest>,
    ) -> Result<Response<ChallengeResponse>, Status> {
        Err(Status::unimplemented("a bare server has no secrets"))
    }

    async fn prove(
        &self,
        request: Request<ProveRequest>,
    ) -> Result<Response<ProveResponse>, Status> {
        Ok(Response::new(ProveResponse { session: request.into_inner().statement }))
    }
}
