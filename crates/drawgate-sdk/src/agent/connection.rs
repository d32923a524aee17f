//! The conversation of one connection: its beginning, and what comes in on it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::outcome;
use super::state::State;
use crate::gateway::{Connection, ConnectionError, Event, Line, MAX_MESSAGE, Observer};
use crate::proto::agent_message::Message;
use crate::proto::fold_service_client::FoldServiceClient;
use crate::proto::gateway_message::Message as Incoming;
use crate::proto::{AgentMessage, AgentRegistration, GatewayMessage, Welcome};

/// Calls that wait to be sent; further ones wait in their own future.
const OUTGOING: usize = 64;
/// How long the gateway may take to end the conversation after the agent did.
const FAREWELL: Duration = Duration::from_secs(1);

/// A conversation whose welcome has come.
pub(super) struct Conversation {
    connection: Connection,
    client: FoldServiceClient<Line>,
    incoming: Streaming<GatewayMessage>,
    outgoing: mpsc::Sender<Message>,
}

impl Conversation {
    /// Registers, and waits for the welcome.
    pub(super) async fn begin(
        connection: Connection,
        origin: http::Uri,
        registration: AgentRegistration,
        state: &Arc<State>,
    ) -> Result<(Self, Welcome), ConnectionError> {
        let (outgoing, queue) = mpsc::channel(OUTGOING);
        let first = Message::Register(registration);
        let mut client = FoldServiceClient::with_origin(connection.line(), origin)
            .max_decoding_message_size(MAX_MESSAGE);
        let messages = messages(first, queue, Arc::clone(state));
        let mut incoming = client.converse(messages).await?.into_inner();
        let welcome = loop {
            match incoming.message().await?.and_then(|message| message.message) {
                Some(Incoming::Welcome(welcome)) => break welcome,
                Some(_) => {}
                None => return Err(ConnectionError::lost("the gateway gave no welcome")),
            }
        };
        Ok((Self { connection, client, incoming, outgoing }, welcome))
    }

    pub(super) fn server(&self) -> &str {
        self.connection.server()
    }

    /// From now on calls can go out.
    pub(super) fn open(&self, state: &State, welcome: Welcome) {
        state.connected(welcome, self.outgoing.clone(), self.client.clone());
    }

    /// Takes what comes until the connection is lost, or `stop` is cancelled: then `None`.
    pub(super) async fn hold(
        mut self,
        state: &State,
        observer: &Observer,
        stop: &CancellationToken,
    ) -> Option<ConnectionError> {
        let error = loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.leave(state).await;
                    return None;
                }
                message = self.incoming.message() => match message {
                    Ok(Some(message)) => take(message.message, state, observer),
                    Ok(None) => break ConnectionError::lost("the gateway ended the conversation"),
                    Err(status) => break status.into(),
                },
            }
        };
        state.away(&error.to_string());
        Some(error)
    }

    /// Ends our half and gives the gateway a moment to end its own.
    async fn leave(self, state: &State) {
        let Self { connection, client, mut incoming, outgoing } = self;
        state.end_outgoing();
        drop((outgoing, client));
        let rest = async { while let Ok(Some(_)) = incoming.message().await {} };
        let _ = timeout(FAREWELL, rest).await;
        drop(incoming);
        state.away("the agent has left");
        connection.close().await;
    }
}

fn take(message: Option<Incoming>, state: &State, observer: &Observer) {
    match message {
        Some(Incoming::Result(result)) => {
            let id = result.request_id.clone();
            state.finish(&id, outcome::read(result));
        }
        Some(Incoming::Progress(news)) => {
            let id = news.request_id.clone();
            state.progress(&id, news.into());
        }
        Some(Incoming::ToolsChanged(change)) => state.set_tools(change.tools),
        Some(Incoming::Heartbeat(question)) => state.send_now(Message::Heartbeat(question)),
        Some(Incoming::Shutdown(_)) => observer.tell(&Event::Stopping),
        Some(Incoming::Welcome(_)) | None => {}
    }
}

/// What goes out: the registration, then calls, answers to heartbeats and cancellations as they come.
/// It ends when the queue does.
fn messages(
    first: Message,
    queue: mpsc::Receiver<Message>,
    state: Arc<State>,
) -> impl Stream<Item = AgentMessage> + Send + 'static {
    stream::unfold((Some(first), queue, state), |(first, mut queue, state)| async move {
        if let Some(first) = first {
            return Some((AgentMessage { message: Some(first) }, (None, queue, state)));
        }
        let message = tokio::select! {
            biased;
            message = queue.recv() => message?,
            message = state.next_urgent() => message,
        };
        Some((AgentMessage { message: Some(message) }, (None, queue, state)))
    })
}
