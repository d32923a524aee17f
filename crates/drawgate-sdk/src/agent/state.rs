//! What the program's calls and the connection share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::{CallError, Progress, ToolOutput};
use crate::gateway::Line;
use crate::proto;
use crate::proto::CancelCall;
use crate::proto::agent_message::Message;
use crate::proto::fold_service_client::FoldServiceClient;

/// Only a gateway that asks without end could make it more.
const MAX_URGENT: usize = 4096;

const NOT_CONNECTED: &str = "not connected to the gateway";

/// A tool that an agent may call.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentTool {
    /// What it is called by.
    pub name: String,
    /// A title for people; may be empty.
    pub title: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the structured output; null if there is none.
    pub output_schema: Value,
    /// MCP's annotations and Drawgate's; null if there are none.
    pub annotations: Value,
    /// What a caller must hold.
    pub required_capabilities: Vec<String>,
}

impl From<proto::ToolDefinition> for AgentTool {
    fn from(tool: proto::ToolDefinition) -> Self {
        let json = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        Self {
            input_schema: json(&tool.input_schema_json),
            output_schema: json(&tool.output_schema_json),
            annotations: json(&tool.annotations_json),
            name: tool.name,
            title: tool.title,
            description: tool.description,
            required_capabilities: tool.required_capabilities,
        }
    }
}

/// How programs of an agent reach the same tools over MCP, as long as the agent is connected.
#[derive(Clone, PartialEq, Eq)]
pub struct McpAccess {
    /// The address.
    pub endpoint: String,
    /// The bearer token. It stands for the agent: keep it secret.
    pub token: String,
}

impl std::fmt::Debug for McpAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpAccess").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

pub(super) type Outcome = Result<ToolOutput, CallError>;
pub(super) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// A call that waits for its answer.
pub(super) struct Pending {
    pub(super) answer: oneshot::Sender<Outcome>,
    pub(super) progress: Option<OnProgress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connected,
    Away,
    Closed,
}

pub(super) struct State {
    table: Mutex<Table>,
    /// There is something in `Table::urgent`.
    urgent: Notify,
    phase: watch::Sender<Phase>,
    tools: watch::Sender<Arc<[AgentTool]>>,
}

#[derive(Default)]
struct Table {
    outgoing: Option<mpsc::Sender<Message>>,
    /// For requests beside the conversation, on the same connection.
    client: Option<FoldServiceClient<Line>>,
    pending: BTreeMap<String, Pending>,
    /// What can't wait for room in the queue: cancellations and answers to heartbeats.
    urgent: VecDeque<Message>,
    capabilities: Vec<String>,
    mcp: Option<McpAccess>,
    last_id: u64,
}

impl State {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            urgent: Notify::new(),
            phase: watch::Sender::new(Phase::Away),
            tools: watch::Sender::new(Arc::new([])),
        })
    }

    /// A connection is there; calls go out by `outgoing`, other requests by `client`.
    pub(super) fn connected(
        &self,
        welcome: proto::Welcome,
        outgoing: mpsc::Sender<Message>,
        client: FoldServiceClient<Line>,
    ) {
        {
            let mut table = self.table();
            table.outgoing = Some(outgoing);
            table.client = Some(client);
            table.capabilities = welcome.capabilities;
            let (endpoint, token) = (welcome.mcp_endpoint, welcome.mcp_token);
            table.mcp = (!token.is_empty()).then_some(McpAccess { endpoint, token });
        }
        self.set_tools(welcome.tools);
        self.phase.send_replace(Phase::Connected);
    }

    /// No call can go out any more. Those under way still wait.
    pub(super) fn end_outgoing(&self) {
        let mut table = self.table();
        table.outgoing = None;
        table.client = None;
    }

    /// The connection is gone: all calls under way fail.
    pub(super) fn away(&self, reason: &str) {
        let pending = {
            let mut table = self.table();
            table.outgoing = None;
            table.client = None;
            table.mcp = None;
            table.urgent.clear();
            std::mem::take(&mut table.pending)
        };
        self.phase.send_replace(Phase::Away);
        for call in pending.into_values() {
            // Whoever dropped the call does not want to know.
            let _ = call.answer.send(Err(CallError::unavailable(reason)));
        }
    }

    /// The connection is gone for good.
    pub(super) fn close(&self) {
        self.set_tools(Vec::new());
        self.phase.send_replace(Phase::Closed);
    }

    pub(super) async fn closed(&self) {
        // It can't fail as long as the sender is there, and it is here.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Closed).await;
    }

    pub(super) fn is_connected(&self) -> bool {
        *self.phase.borrow() == Phase::Connected
    }

    pub(super) fn set_tools(&self, tools: Vec<proto::ToolDefinition>) {
        let tools: Arc<[AgentTool]> = tools.into_iter().map(AgentTool::from).collect();
        self.tools.send_if_modified(|old| {
            let changed = **old != *tools;
            *old = tools;
            changed
        });
    }

    pub(super) fn tools(&self) -> watch::Receiver<Arc<[AgentTool]>> {
        self.tools.subscribe()
    }

    pub(super) fn capabilities(&self) -> Vec<String> {
        self.table().capabilities.clone()
    }

    pub(super) fn mcp(&self) -> Option<McpAccess> {
        self.table().mcp.clone()
    }

    /// What requests beside the conversation are made with.
    pub(super) fn client(&self) -> Result<FoldServiceClient<Line>, CallError> {
        let client = self.table().client.clone();
        client.ok_or_else(|| CallError::unavailable(NOT_CONNECTED))
    }

    /// Notes a call; gives its id and where to send it.
    pub(super) fn begin(
        &self,
        pending: Pending,
    ) -> Result<(String, mpsc::Sender<Message>), CallError> {
        let mut table = self.table();
        let outgoing =
            table.outgoing.clone().ok_or_else(|| CallError::unavailable(NOT_CONNECTED))?;
        table.last_id += 1;
        let id = table.last_id.to_string();
        table.pending.insert(id.clone(), pending);
        Ok((id, outgoing))
    }

    /// The answer has come.
    pub(super) fn finish(&self, id: &str, outcome: Outcome) {
        let pending = self.table().pending.remove(id);
        if let Some(pending) = pending {
            let _ = pending.answer.send(outcome);
        }
    }

    pub(super) fn progress(&self, id: &str, news: Progress) {
        let progress = self.table().pending.get(id).and_then(|call| call.progress.clone());
        if let Some(progress) = progress {
            progress(news);
        }
    }

    /// Nobody waits for this call any more. If it is still under way, the gateway is told.
    pub(super) fn abandon(&self, id: &str) {
        let known = self.table().pending.remove(id).is_some();
        if known {
            self.send_now(Message::Cancel(CancelCall { request_id: id.to_owned() }));
        }
    }

    /// Sends without waiting. It goes into the queue if there is room, for a cancellation must not
    /// overtake its call.
    pub(super) fn send_now(&self, message: Message) {
        let mut table = self.table();
        let Some(outgoing) = &table.outgoing else { return };
        if let Err(TrySendError::Full(message)) = outgoing.try_send(message)
            && table.urgent.len() < MAX_URGENT
        {
            table.urgent.push_back(message);
            self.urgent.notify_one();
        }
    }

    /// The next message that found no room in the queue.
    pub(super) async fn next_urgent(&self) -> Message {
        loop {
            let next = self.table().urgent.pop_front();
            if let Some(message) = next {
                return message;
            }
            self.urgent.notified().await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
