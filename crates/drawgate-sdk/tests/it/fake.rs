//! A gateway of a few lines, which the tests play the part of.
//!
//! It checks the login as the real one does, and hands everything else to the test.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use drawgate_sdk::proto::fold_service_server::{FoldService, FoldServiceServer};
use drawgate_sdk::proto::login_service_server::{LoginService, LoginServiceServer};
use drawgate_sdk::proto::pack_service_server::{PackService, PackServiceServer};
use drawgate_sdk::proto::*;
use drawgate_sdk::statement::{
    LOGIN_NAMESPACE, LoginStatement, SERVER_NAMESPACE, SESSION_METADATA, server_statement,
};
use drawgate_sdk::{Backoff, Gateway, Key};
use futures_util::{Stream, StreamExt as _, stream};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ssh_key::private::{Ed25519Keypair, PrivateKey};
use ssh_key::{HashAlg, LineEnding, PublicKey, SshSig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::codegen::Service as _;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

type Answer<T> = Result<Response<T>, Status>;
type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A pack that has registered.
pub(crate) struct PackHere {
    pub(crate) manifest: PackManifest,
    pub(crate) calls: UnboundedSender<Result<ExecuteToolRequest, Status>>,
}

/// An agent that wants to converse.
pub(crate) struct AgentHere {
    pub(crate) said: Streaming<AgentMessage>,
    pub(crate) say: UnboundedSender<Result<GatewayMessage, Status>>,
}

/// What a pack sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    Result(ExecuteToolResponse),
    Progress(ToolProgress),
    Alive(String),
}

pub(crate) struct Fake {
    address: SocketAddr,
    shared: Arc<Shared>,
    pub(crate) packs: UnboundedReceiver<PackHere>,
    pub(crate) agents: UnboundedReceiver<AgentHere>,
    pub(crate) heard: UnboundedReceiver<Heard>,
}

struct Shared {
    key: PrivateKey,
    logins: Mutex<Vec<String>>,
    refuse: Mutex<Option<Status>>,
    connections: Mutex<JoinSet<()>>,
    open: watch::Sender<usize>,
    packs: UnboundedSender<PackHere>,
    agents: UnboundedSender<AgentHere>,
    heard: UnboundedSender<Heard>,
}

#[derive(Clone)]
struct Service(Arc<Shared>);

/// The key of all packs and agents here.
pub(crate) fn key() -> Key {
    let key = PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]));
    Key::parse(&key.to_openssh(LineEnding::LF).unwrap()).unwrap()
}

/// Tries again at once.
pub(crate) fn at_once() -> Backoff {
    Backoff::new(std::time::Duration::from_micros(1), std::time::Duration::from_micros(1))
}

impl Fake {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// With TLS, if there is a way to accept it.
    pub(crate) async fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (packs, packs_here) = mpsc::unbounded_channel();
        let (agents, agents_here) = mpsc::unbounded_channel();
        let (from_packs, heard) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            key: PrivateKey::from(Ed25519Keypair::from_seed(&[1; 32])),
            logins: Mutex::default(),
            refuse: Mutex::default(),
            connections: Mutex::default(),
            open: watch::Sender::new(0),
            packs,
            agents,
            heard: from_packs,
        });
        tokio::spawn(accept(listener, tls, Arc::clone(&shared)));
        Self { address, shared, packs: packs_here, agents: agents_here, heard }
    }

    pub(crate) fn gateway(&self) -> Gateway {
        Gateway::at(&format!("http://{}", self.address)).unwrap()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn identity(&self) -> String {
        self.shared.identity()
    }

    /// The next registration, of a pack or an agent, is answered with this.
    pub(crate) fn refuse(&self, status: Status) {
        *self.shared.refuse.lock().unwrap() = Some(status);
    }

    /// Cuts every connection without a word.
    pub(crate) fn cut(&self) {
        self.shared.connections.lock().unwrap().abort_all();
    }

    /// Ends when no connection is left.
    pub(crate) async fn deserted(&self) {
        self.shared.open.subscribe().wait_for(|open| *open == 0).await.unwrap();
    }

    /// The names that have logged in, in order.
    pub(crate) fn logins(&self) -> Vec<String> {
        self.shared.logins.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, service) = (tls.clone(), Service(Arc::clone(&shared)));
        let open = Open::new(&shared);
        shared.connections.lock().unwrap().spawn(async move {
            let _open = open;
            match tls {
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, service).await;
                    }
                }
                None => serve(stream, service).await,
            }
        });
    }
}

/// A connection that counts as open until this is dropped.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.open.send_modify(|open| *open += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: Service) {
    let routes = Routes::new(LoginServiceServer::new(service.clone()))
        .add_service(PackServiceServer::new(service.clone()))
        .add_service(FoldServiceServer::new(service));
    let serve = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        let mut routes = routes.clone();
        let authority = request.uri().authority().unwrap().to_string();
        request.extensions_mut().insert(Authority(authority));
        async move { routes.call(request).await }
    });
    // How a connection ends is the client's concern.
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), serve)
        .await;
}

impl Shared {
    fn identity(&self) -> String {
        self.key.fingerprint(HashAlg::Sha256).to_string()
    }

    fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let session = request.metadata().get(SESSION_METADATA).map(|value| value.to_str().unwrap());
        (session == Some("the session"))
            .then_some(())
            .ok_or_else(|| Status::unauthenticated("no session"))?;
        self.refuse.lock().unwrap().take().map_or(Ok(()), Err)
    }
}

fn outgoing<T: Send + 'static>() -> (UnboundedSender<Result<T, Status>>, BoxStream<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let stream = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    });
    (sender, stream.boxed())
}

#[tonic::async_trait]
impl LoginService for Service {
    async fn challenge(&self, request: Request<ChallengeRequest>) -> Answer<ChallengeResponse> {
        let authority = authority_of(&request);
        let client_nonce = request.into_inner().client_nonce;
        let statement = server_statement(&authority, "the nonce", &client_nonce);
        let signature =
            self.0.key.sign(SERVER_NAMESPACE, HashAlg::Sha512, statement.as_bytes()).unwrap();
        Ok(Response::new(ChallengeResponse {
            nonce: "the nonce".to_owned(),
            server: self.0.identity(),
            expires_in_seconds: 60,
            server_signature: signature.to_pem(LineEnding::LF).unwrap(),
        }))
    }

    async fn prove(&self, request: Request<ProveRequest>) -> Answer<ProveResponse> {
        let authority = authority_of(&request);
        let ProveRequest { statement, signature } = request.into_inner();
        let read = LoginStatement::parse(&statement).unwrap();
        assert_eq!((read.authority, read.nonce), (authority.as_str(), "the nonce"));
        assert_eq!(read.server, self.0.identity());
        let signature = SshSig::from_pem(signature).unwrap();
        let public = PublicKey::from_openssh(&key().public_key().unwrap()).unwrap();
        public.verify(LOGIN_NAMESPACE, statement.as_bytes(), &signature).unwrap();
        self.0.logins.lock().unwrap().push(format!("{} {}", read.purpose, read.name));
        Ok(Response::new(ProveResponse { session: "the session".to_owned() }))
    }
}

fn authority_of<T>(request: &Request<T>) -> String {
    request.extensions().get::<Authority>().unwrap().0.clone()
}

/// HTTP/2's `:authority` of a request.
#[derive(Clone)]
struct Authority(String);

#[tonic::async_trait]
impl PackService for Service {
    type ConnectStream = BoxStream<ExecuteToolRequest>;

    async fn connect(&self, request: Request<PackManifest>) -> Answer<Self::ConnectStream> {
        self.0.check(&request)?;
        let (calls, stream) = outgoing();
        self.0.packs.send(PackHere { manifest: request.into_inner(), calls }).unwrap();
        Ok(Response::new(stream))
    }

    async fn tool_result(&self, request: Request<ExecuteToolResponse>) -> Answer<Empty> {
        self.0.check(&request)?;
        self.0.heard.send(Heard::Result(request.into_inner())).unwrap();
        Ok(Response::new(Empty {}))
    }

    async fn progress(&self, request: Request<ToolProgress>) -> Answer<Empty> {
        self.0.check(&request)?;
        self.0.heard.send(Heard::Progress(request.into_inner())).unwrap();
        Ok(Response::new(Empty {}))
    }

    async fn alive(&self, request: Request<Heartbeat>) -> Answer<Empty> {
        self.0.check(&request)?;
        self.0.heard.send(Heard::Alive(request.into_inner().request_id)).unwrap();
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl FoldService for Service {
    type ConverseStream = BoxStream<GatewayMessage>;
    type ReadArtifactStream = BoxStream<ArtifactPart>;

    /// Has one artifact, `drawgate://artifacts/here`, in two parts; another, `cut`, ends too soon.
    async fn read_artifact(
        &self,
        request: Request<ArtifactRequest>,
    ) -> Answer<Self::ReadArtifactStream> {
        self.0.check(&request)?;
        let part = |data: &str, mime_type: &str, size| ArtifactPart {
            data: data.into(),
            mime_type: mime_type.to_owned(),
            size,
        };
        let parts = match request.into_inner().uri.as_str() {
            "drawgate://artifacts/here" => vec![part("one ", "text/plain", 7), part("two", "", 0)],
            "drawgate://artifacts/cut" => vec![part("one ", "text/plain", 7)],
            _ => return Err(Status::not_found("no such artifact")),
        };
        Ok(Response::new(stream::iter(parts.into_iter().map(Ok)).boxed()))
    }

    async fn converse(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Answer<Self::ConverseStream> {
        self.0.check(&request)?;
        let (say, stream) = outgoing();
        self.0.agents.send(AgentHere { said: request.into_inner(), say }).unwrap();
        Ok(Response::new(stream))
    }
}
