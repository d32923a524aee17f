//! Packs and agents by the SDK, as programs that people write have them.

use std::sync::Arc;
use std::time::Duration;

use drawgate_sdk::{
    Agent, AgentClient, AgentTool, Backoff, CallError, CancellationToken, Event, Gateway, Key,
    Pack, PackClient,
};
use serde_json::Value;
use ssh_key::{LineEnding, PrivateKey};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Peers;

/// A pack that serves, until it is told to leave or dropped.
pub(crate) struct Serving {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Serving {
    /// Ends in order, and waits for it.
    pub(crate) async fn leave(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

impl Peers {
    fn gateway(&self) -> Gateway {
        Gateway::at(&self.url()).unwrap()
    }

    /// Serves a pack; its tools are registered when this returns.
    pub(crate) async fn serve(&self, key: &PrivateKey, pack: Pack) -> Serving {
        let stop = CancellationToken::new();
        let (connected, mut is_connected) = watch::channel(false);
        let client = PackClient::new(self.gateway(), sdk_key(key))
            .backoff(Backoff::new(Duration::from_millis(10), Duration::from_millis(100)))
            .stop_on(stop.clone())
            .observe(move |event| {
                if matches!(event, Event::Connected { .. }) {
                    connected.send_replace(true);
                }
            });
        let task = tokio::spawn(async move { client.serve(pack).await.unwrap() });
        is_connected.wait_for(|connected| *connected).await.unwrap();
        Serving { stop, task }
    }

    /// Connects an agent that holds all that its key allows.
    pub(crate) async fn join(&self, name: &str, key: &PrivateKey) -> Agent {
        AgentClient::new(self.gateway(), sdk_key(key), name).connect().await.unwrap()
    }
}

pub(crate) fn sdk_key(key: &PrivateKey) -> Key {
    Key::parse(&key.to_openssh(LineEnding::LF).unwrap()).unwrap()
}

/// The names that an agent sees.
pub(crate) fn names(agent: &Agent) -> Vec<String> {
    listed(&agent.tools().borrow())
}

fn listed(tools: &Arc<[AgentTool]>) -> Vec<String> {
    tools.iter().map(|tool| tool.name.clone()).collect()
}

/// Waits until an agent has been told exactly these names.
pub(crate) async fn sees(agent: &Agent, names: &[&str]) {
    let mut tools = agent.tools();
    let told = tools.wait_for(|tools| listed(tools) == names);
    let told = tokio::time::timeout(Duration::from_secs(30), told).await.is_ok_and(|t| t.is_ok());
    assert!(told, "wanted {names:?}, sees {:?}", self::names(agent));
}

/// Calls a tool: its output, or the code of its error.
pub(crate) async fn call(agent: &Agent, tool: &str, arguments: Value) -> Result<Value, String> {
    match agent.call(tool, arguments).await {
        Ok(output) => Ok(output.value().clone()),
        Err(CallError { code, .. }) => Err(code),
    }
}
