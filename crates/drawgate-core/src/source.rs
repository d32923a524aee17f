//! What a source of tools owes to the gate.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::deadline::Deadline;
use crate::model::{
    CapabilityGrant, Client, InputGiven, Lineage, McpManifest, SourceId, ToolOutput, TraceParent,
};
pub use crate::pipeline::PermittedCall;

/// Something that offers tools.
///
/// A source translates. It does not decide who may call, does not log arguments and does not retry
/// on its own account. It honours `cx.deadline` and `cx.cancel`; the gate enforces them anyway, by
/// dropping the future of [`call`](ToolSource::call), so a source must release what it holds on drop.
#[async_trait]
pub trait ToolSource: Send + Sync + 'static {
    /// The source's id, the first half of its tools' ids.
    fn id(&self) -> &SourceId;

    /// Connects if necessary and describes the tools.
    async fn manifest(&self) -> Result<McpManifest, SourceError>;

    /// Performs a call.
    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError>;

    /// Tools that the last manifest should have had and has not, each with the reason.
    fn missing(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// A channel whose value changes when the manifest may have: tools changed, the connection was
    /// lost or came back. The supervisor then asks for the manifest again.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// What happens outside of any call, for those who listen now.
    fn events(&self) -> Option<broadcast::Receiver<SourceEvent>> {
        None
    }

    /// Whether calls can be taken up again by their handles after a restart.
    fn can_resume(&self) -> bool {
        false
    }

    /// Whether calls of a tool spend their time waiting for other runs, whose calls pass through this
    /// same gate. Such a call holds neither a slot of the gate's load nor one of its source or tool
    /// while it executes, so that calls that wait for each other can't use up the slots that would
    /// let them end. The gate does not bound how many there are: whoever starts runs bounds them, and
    /// with them the calls that wait.
    fn waits(&self, _tool: &str) -> bool {
        false
    }

    /// Changes the definition of a tool to what one run is shown. It is validated by the definition in the
    /// manifest all the same.
    fn show_to_run(&self, _tool: &str, _run: &Lineage, _listing: &mut Value) {}

    /// Forgets a call that waits for answers which will not come, by the state that came with the
    /// questions.
    fn abandon(&self, _state: &str) {}

    /// Whether the source works now: a person asks, so it is tried at once. The default asks for the
    /// manifest.
    async fn check(&self) -> Result<(), SourceError> {
        self.manifest().await.map(drop)
    }

    /// The sandbox profile that this tool's program is held to: `none` where it runs on this machine
    /// without one, nothing where no program of ours runs. Each event about a call records it.
    fn confinement(&self, _tool: &str) -> Option<&'static str> {
        None
    }

    /// What a caller is told where the time of a call is over and its work can't be stopped.
    fn after_timeout(&self) -> Option<&'static str> {
        None
    }

    /// What a person needs to find out why it does not work: process, restarts, last words. Holds no
    /// secrets.
    fn diagnostics(&self) -> Value {
        Value::Null
    }

    /// Ends connections and children.
    async fn close(&self) {}
}

/// What accompanies a call on its way to a source.
#[derive(Clone)]
pub struct CallContext {
    /// When the answer must be there. Each report to `progress` extends it.
    pub deadline: Deadline,
    /// Cancelled when the caller gives up or the gateway stops.
    pub cancel: CancellationToken,
    /// Where progress goes, if the caller wants to hear it.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// The trace that the call belongs to.
    pub trace: Option<TraceParent>,
    /// The caller's protocol metadata, without its progress token.
    pub meta: Map<String, Value>,
    /// What the program on the caller's side can do.
    pub client: Arc<Client>,
    /// Answers to what the source asked before.
    pub input: Option<InputGiven>,
    /// Takes up a call that a source had begun before the gateway was restarted, by the handle that it
    /// gave out then.
    pub resume: Option<Arc<str>>,
    /// Equal for calls of one client, different for any two: for sources that keep state for each.
    pub affinity: Arc<str>,
    /// The run that calls, if the gateway itself runs the agent.
    pub lineage: Option<Arc<Lineage>>,
    /// Grants that came with the caller's request, for calls that are made in its name.
    pub carried: Arc<[Arc<CapabilityGrant>]>,
}

impl CallContext {
    /// Who calls, whatever its session: callers take turns by this name where calls wait.
    #[must_use]
    pub fn caller(&self) -> &str {
        self.affinity.split('/').next().unwrap_or_default()
    }
}

/// Something that happened outside of any call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEvent {
    /// A resource that somebody subscribed to has changed.
    ResourceUpdated {
        /// The source's own name for it.
        uri: String,
    },
}

/// Receives progress of a running call. Must not block; may drop what comes too fast.
pub trait ProgressSink: Send + Sync {
    /// One report, with the members `progress`, `total`, `message`.
    fn report(&self, progress: Map<String, Value>);

    /// One message for the caller's log, with the members `level`, `logger`, `data`.
    fn log(&self, _message: Map<String, Value>) {}

    /// By this handle the call can be taken up again after a restart of the gateway. Not shown to the
    /// caller.
    fn handle(&self, _handle: &str) {}
}

/// Why a source could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SourceError {
    /// Not reachable, not started, or lost during the call.
    #[error("{message}")]
    Unavailable {
        /// A sentence for the caller.
        message: String,
        /// Whether the tool may have begun to work.
        sent: Sent,
    },
    /// It answered, and the answer is a failure: the tool's own message.
    #[error("{message}")]
    Failed {
        /// The tool's message.
        message: String,
        /// The tool's own data on it.
        details: Option<Value>,
    },
    /// The arguments fit the schema and still can't be sent; nothing was. Says what to change.
    #[error("{message}")]
    Arguments {
        /// A sentence for the caller.
        message: String,
        /// The same for programs.
        details: Option<Value>,
    },
    /// It answered with something that is not an answer.
    #[error("{0}")]
    Protocol(String),
    /// It did its work, and the result does not have the form that was promised.
    #[error("{0}")]
    Invalid(String),
    /// The deadline passed inside the source.
    #[error("{0}")]
    Timeout(String),
    /// The sandbox stopped it.
    #[error("{0}")]
    Sandbox(String),
}

impl SourceError {
    /// The source could not be reached, and nothing was sent.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into(), sent: Sent::Nothing }
    }

    /// The source was lost with the call under way.
    pub fn lost(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into(), sent: Sent::Perhaps }
    }
}

/// Whether a failed call may have reached the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Certainly not: it may be tried again.
    Nothing,
    /// It may have.
    Perhaps,
}
