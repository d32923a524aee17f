//! One HTTP/2 connection and the contract's own clients on it, so that a test can say whatever it
//! likes, in whatever order.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use drawgate_sdk::proto::agent_message::Message as Said;
use drawgate_sdk::proto::execute_tool_response::Result as Outcome;
use drawgate_sdk::proto::fold_service_client::FoldServiceClient;
use drawgate_sdk::proto::gateway_message::Message as Heard;
use drawgate_sdk::proto::login_service_client::LoginServiceClient;
use drawgate_sdk::proto::pack_service_client::PackServiceClient;
use drawgate_sdk::proto::{
    AgentMessage, AgentRegistration, ChallengeRequest, ChallengeResponse, ExecuteToolRequest,
    ExecuteToolResponse, GatewayMessage, MessageKind, PackManifest, ProveRequest, ToolDefinition,
    Welcome,
};
use drawgate_sdk::statement::{LOGIN_NAMESPACE, LoginStatement, Purpose, SESSION_METADATA};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use ssh_key::{HashAlg, LineEnding, PrivateKey};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tonic::body::Body;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// A connection. Clones share it; it ends when all of them and their streams are dropped, or at once
/// by [`Wire::cut`].
#[derive(Clone)]
pub(crate) struct Wire {
    sender: SendRequest<Body>,
    origin: Uri,
    /// Sent with every request, once there is one.
    pub(crate) session: Option<String>,
    tasks: Tasks,
}

/// All tasks of a connection: one that is cut must not linger in any of them.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Vec<AbortHandle>>>);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, future: F) {
        let mut tasks = self.0.lock().unwrap();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(async move { drop(future.await) }).abort_handle());
    }
}

impl Wire {
    /// Dials `HOST:PORT`.
    pub(crate) async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream, "http", address).await
    }

    /// A connection over a stream that leads there already.
    pub(crate) async fn over<I>(stream: I, scheme: &str, address: &str) -> Self
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let tasks = Tasks::default();
        let (sender, connection) = handshake(tasks.clone(), TokioIo::new(stream)).await.unwrap();
        hyper::rt::Executor::execute(&tasks, connection);
        let origin = format!("{scheme}://{address}").parse().unwrap();
        Self { sender, origin, session: None, tasks }
    }

    /// Breaks the connection as a killed process would.
    pub(crate) fn cut(&self) {
        for task in self.tasks.0.lock().unwrap().iter() {
            task.abort();
        }
    }

    /// Waits until the connection is over.
    pub(crate) async fn closed(&self) {
        let mut sender = self.sender.clone();
        while !sender.is_closed() && sender.ready().await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn authority(&self) -> &str {
        self.origin.authority().unwrap().as_str()
    }

    pub(crate) fn login(&self) -> LoginServiceClient<Self> {
        LoginServiceClient::with_origin(self.clone(), self.origin.clone())
    }

    pub(crate) fn packs(&self) -> PackServiceClient<Self> {
        PackServiceClient::with_origin(self.clone(), self.origin.clone())
    }

    pub(crate) fn agents(&self) -> FoldServiceClient<Self> {
        FoldServiceClient::with_origin(self.clone(), self.origin.clone())
            .max_decoding_message_size(16 * 1024 * 1024)
    }

    pub(crate) async fn challenge(&self) -> Result<ChallengeResponse, Status> {
        let challenge = self.login().challenge(ChallengeRequest::default()).await?;
        Ok(challenge.into_inner())
    }

    /// The statement that is true on this connection.
    pub(crate) fn statement(
        &self,
        challenge: &ChallengeResponse,
        purpose: Purpose,
        name: &str,
    ) -> String {
        LoginStatement {
            purpose,
            name,
            server: &challenge.server,
            authority: self.authority(),
            nonce: &challenge.nonce,
        }
        .to_string()
    }

    /// Sends a proof, whatever it says, and keeps the session.
    pub(crate) async fn submit(
        &mut self,
        statement: String,
        signature: String,
    ) -> Result<(), Status> {
        let proof = ProveRequest { statement, signature };
        self.session = Some(self.login().prove(proof).await?.into_inner().session);
        Ok(())
    }

    /// Proves who this is, as it should be done.
    pub(crate) async fn prove(
        &mut self,
        purpose: Purpose,
        name: &str,
        key: &PrivateKey,
    ) -> Result<(), Status> {
        let challenge = self.challenge().await?;
        let statement = self.statement(&challenge, purpose, name);
        let signature = sign(key, LOGIN_NAMESPACE, &statement);
        self.submit(statement, signature).await
    }
}

/// A signature in SSHSIG form.
pub(crate) fn sign(key: &PrivateKey, namespace: &str, statement: &str) -> String {
    let signature = key.sign(namespace, HashAlg::Sha512, statement.as_bytes()).unwrap();
    signature.to_pem(LineEnding::LF).unwrap()
}

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(session) = &self.session {
            let value = HeaderValue::from_str(session).unwrap();
            request.headers_mut().insert(SESSION_METADATA, value);
        }
        Box::pin(self.sender.send_request(request))
    }
}

/// A pack that does only what it is told.
pub(crate) struct RawPack {
    pub(crate) wire: Wire,
}

impl RawPack {
    pub(crate) async fn prove(
        mut wire: Wire,
        name: &str,
        key: &PrivateKey,
    ) -> Result<Self, Status> {
        wire.prove(Purpose::Pack, name, key).await?;
        Ok(Self { wire })
    }

    /// Registers; the stream of calls is open when this returns.
    pub(crate) async fn connect(
        &self,
        manifest: PackManifest,
    ) -> Result<Streaming<ExecuteToolRequest>, Status> {
        Ok(self.wire.packs().connect(manifest).await?.into_inner())
    }

    /// Answers a call.
    pub(crate) async fn answer(&self, request_id: &str, outcome: Outcome) -> Result<(), Status> {
        let response =
            ExecuteToolResponse { request_id: request_id.to_owned(), result: Some(outcome) };
        self.wire.packs().tool_result(response).await?;
        Ok(())
    }

    /// Registers, and answers every call from then on by what `act` makes of it.
    pub(crate) async fn serve(
        self,
        manifest: PackManifest,
        act: impl Fn(&ExecuteToolRequest) -> Outcome + Send + 'static,
    ) -> JoinHandle<()> {
        let mut requests = self.connect(manifest).await.unwrap();
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                if request.kind() == MessageKind::Execute {
                    // An answer that comes too late is the gateway's to deal with.
                    let _ = self.answer(&request.request_id, act(&request)).await;
                }
            }
        })
    }
}

/// An agent that does only what it is told.
pub(crate) struct RawAgent {
    pub(crate) wire: Wire,
}

/// An agent's conversation.
pub(crate) struct Conversation {
    pub(crate) to: mpsc::Sender<AgentMessage>,
    pub(crate) from: Streaming<GatewayMessage>,
    /// Keeps the connection.
    _wire: Wire,
}

impl RawAgent {
    pub(crate) async fn prove(
        mut wire: Wire,
        name: &str,
        key: &PrivateKey,
    ) -> Result<Self, Status> {
        wire.prove(Purpose::Agent, name, key).await?;
        Ok(Self { wire })
    }

    /// Opens a conversation without a word.
    pub(crate) async fn converse(&self) -> Result<Conversation, Status> {
        let (to, messages) = mpsc::channel(16);
        let from = self.wire.agents().converse(ReceiverStream::new(messages)).await?.into_inner();
        Ok(Conversation { to, from, _wire: self.wire.clone() })
    }

    /// Opens one and registers for all that the key allows.
    pub(crate) async fn join(&self, name: &str) -> Result<(Conversation, Welcome), Status> {
        let mut conversation = self.converse().await?;
        let name = name.to_owned();
        conversation
            .say(Said::Register(AgentRegistration { name, ..AgentRegistration::default() }))
            .await;
        match conversation.hear().await? {
            Heard::Welcome(welcome) => Ok((conversation, welcome)),
            other => panic!("no welcome: {other:?}"),
        }
    }
}

impl Conversation {
    pub(crate) async fn say(&self, message: Said) {
        self.to.send(AgentMessage { message: Some(message) }).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Result<Heard, Status> {
        match self.from.message().await? {
            Some(message) => Ok(message.message.unwrap()),
            None => Err(Status::ok("the stream has ended")),
        }
    }
}

/// A manifest without features.
pub(crate) fn manifest(pack: &str, tools: Vec<ToolDefinition>) -> PackManifest {
    PackManifest {
        pack_id: pack.to_owned(),
        version: "1.0.0".to_owned(),
        tools,
        ..PackManifest::default()
    }
}

/// A tool that takes any object and needs these capabilities.
pub(crate) fn tool(name: &str, capabilities: &[&str]) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: format!("the tool {name}"),
        input_schema_json: r#"{"type":"object"}"#.to_owned(),
        required_capabilities: capabilities.iter().map(|text| (*text).to_owned()).collect(),
        ..ToolDefinition::default()
    }
}
