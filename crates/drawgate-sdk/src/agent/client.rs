//! Brings an agent to the gateway, and back to it if that is wanted.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Agent;
use super::connection::Conversation;
use super::state::State;
use crate::gateway::{
    ANSWER_LIMIT, Attempts, Backoff, ConnectionError, Event, Gateway, Observer, log_in,
};
use crate::key::Key;
use crate::proto::{AgentRegistration, Welcome};
use crate::statement::Purpose;

/// Connects an agent to a gateway.
///
/// ```no_run
/// use drawgate_sdk::{AgentClient, Gateway, Key};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let gateway = Gateway::at("http://127.0.0.1:7700")?;
/// let key = Key::from_file("/etc/research-bot/id_ed25519")?;
/// let agent = AgentClient::new(gateway, key, "research-bot").connect().await?;
/// for tool in agent.tools().borrow().iter() {
///     println!("{}: {}", tool.name, tool.description);
/// }
/// let output = agent.call("read_file", serde_json::json!({ "path": "/etc/hostname" })).await?;
/// println!("{}", output.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AgentClient {
    gateway: Gateway,
    key: Key,
    registration: AgentRegistration,
    reconnect: Option<Backoff>,
    observer: Observer,
}

impl AgentClient {
    /// The agent `name` at this gateway, with this key.
    #[must_use]
    pub fn new(gateway: Gateway, key: Key, name: impl Into<String>) -> Self {
        let registration = AgentRegistration {
            name: name.into(),
            capabilities: Vec::new(),
            version: String::new(),
        };
        Self { gateway, key, registration, reconnect: None, observer: Observer::default() }
    }

    /// Wants to hold these capabilities only, and not all that the key allows.
    #[must_use]
    pub fn capabilities(mut self, wanted: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.registration.capabilities = wanted.into_iter().map(Into::into).collect();
        self
    }

    /// The agent's version, for the gateway's records.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.registration.version = version.into();
        self
    }

    /// Comes back after a loss. Calls under way fail as unavailable all the same: whether they ran
    /// is not known, so they are never repeated.
    #[must_use]
    pub const fn reconnect(mut self, backoff: Backoff) -> Self {
        self.reconnect = Some(backoff);
        self
    }

    /// Is told what becomes of the connection. It must not block.
    #[must_use]
    pub fn observe(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(observer);
        self
    }

    /// Connects, logs in and registers.
    pub async fn connect(self) -> Result<Agent, ConnectionError> {
        let state = State::new();
        let stop = CancellationToken::new();
        let (conversation, welcome) = self.begin(&state).await?;
        let agent = Agent::new(Arc::clone(&state), stop.clone());
        // A call must find the connection, although its task has perhaps not run yet.
        conversation.open(&state, welcome);
        tokio::spawn(async move {
            self.hold(conversation, &state, &stop).await;
            state.close();
        });
        Ok(agent)
    }

    async fn begin(&self, state: &Arc<State>) -> Result<(Conversation, Welcome), ConnectionError> {
        let name = &self.registration.name;
        let connection = log_in(&self.gateway, &self.key, Purpose::Agent, name).await?;
        let (origin, registration) = (self.gateway.origin(), self.registration.clone());
        let begun =
            timeout(ANSWER_LIMIT, Conversation::begin(connection, origin, registration, state));
        let (conversation, welcome) = begun.await.map_err(|_| ConnectionError::Timeout {
            authority: self.gateway.authority().to_owned(),
        })??;
        self.observer.tell(&Event::Connected { server: conversation.server() });
        Ok((conversation, welcome))
    }

    /// Holds the conversation, and the next one, until the agent leaves or is refused.
    async fn hold(
        &self,
        mut conversation: Conversation,
        state: &Arc<State>,
        stop: &CancellationToken,
    ) {
        let mut attempts = Attempts::new(self.reconnect.unwrap_or_default());
        loop {
            let since = Instant::now();
            let Some(error) = conversation.hold(state, &self.observer, stop).await else { return };
            attempts.lasted(since.elapsed());
            let Some(next) = self.come_back(error, &mut attempts, state, stop).await else {
                return;
            };
            conversation = next;
        }
    }

    /// Tries until there is a conversation again; `None` if there is to be none.
    async fn come_back(
        &self,
        mut error: ConnectionError,
        attempts: &mut Attempts,
        state: &Arc<State>,
        stop: &CancellationToken,
    ) -> Option<Conversation> {
        loop {
            if error.is_final() {
                self.observer.tell(&Event::Refused { error: &error });
                return None;
            }
            let retry_in = self.reconnect.map(|_| attempts.next_delay());
            self.observer.tell(&Event::Lost { error: &error, retry_in });
            let retry_in = retry_in?;
            let attempt = async {
                sleep(retry_in).await;
                self.begin(state).await
            };
            let begun = tokio::select! {
                () = stop.cancelled() => return None,
                begun = attempt => begun,
            };
            match begun {
                Ok((conversation, welcome)) => {
                    conversation.open(state, welcome);
                    return Some(conversation);
                }
                Err(next) => error = next,
            }
        }
    }
}

impl std::fmt::Debug for AgentClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentClient")
            .field("gateway", &self.gateway)
            .field("key", &self.key)
            .field("name", &self.registration.name)
            .finish_non_exhaustive()
    }
}
