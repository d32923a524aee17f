//! The parameters of requests, written straight from their parts.

use drawgate_core::model::{Client, InputGiven, OWN_META, Operation, TraceParent};
use drawgate_core::source::{CallContext, PermittedCall};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::{CLIENT, Era, META, PROGRESS_TOKEN, REQUEST_STATE, STATELESS};
use crate::mcp::requests::Allowed;
use crate::mcp::tasks;

/// Members of `_meta` that speak about one hop; the gateway writes its own.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const TRACE_PARENT: &str = "traceparent";
const HOP_ONLY: [&str; 5] =
    [META_VERSION, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, PROGRESS_TOKEN];
const INPUT_RESPONSES: &str = "inputResponses";

/// What becomes of a caller's request on its way to a server.
#[derive(Debug, Clone, Copy)]
pub(in crate::mcp) enum Form<'a> {
    /// It is sent as it is, with answers to what the server asked before.
    Plain(Option<&'a InputGiven>),
    /// The server makes a task of it, as revision 2025-11-25 has them.
    Task,
    /// The result of the task of this id, which the server made of it.
    TaskResult(&'a str),
}

/// The method by which a server is asked to do something.
#[must_use]
pub const fn method_of(operation: Operation) -> &'static str {
    match operation {
        Operation::CallTool => "tools/call",
        Operation::ReadResource => "resources/read",
        Operation::Subscribe => "resources/subscribe",
        Operation::Unsubscribe => "resources/unsubscribe",
        Operation::GetPrompt => "prompts/get",
        Operation::Complete => "completion/complete",
        Operation::SetLogLevel => "logging/setLevel",
    }
}

impl Form<'_> {
    /// The method of the request.
    pub(in crate::mcp) fn method(self, call: &PermittedCall) -> &'static str {
        match self {
            Self::Plain(_) | Self::Task => method_of(call.operation()),
            Self::TaskResult(_) => "tasks/result",
        }
    }
}

/// The parameters of what a caller asks for.
pub(in crate::mcp) struct CallParams<'a> {
    /// The tool's name, unless something else is asked for.
    pub(in crate::mcp) tool: Option<&'a str>,
    pub(in crate::mcp) arguments: &'a Map<String, Value>,
    pub(in crate::mcp) form: Form<'a>,
    pub(in crate::mcp) meta: Meta<'a>,
}

impl<'a> CallParams<'a> {
    pub(in crate::mcp) fn new(call: &'a PermittedCall, form: Form<'a>, meta: Meta<'a>) -> Self {
        let tool = (call.operation() == Operation::CallTool).then(|| call.tool());
        Self { tool, arguments: call.arguments(), form, meta }
    }
}

impl Serialize for CallParams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Form::TaskResult(id) = self.form {
            map.serialize_entry("taskId", id)?;
        } else if let Some(tool) = self.tool {
            map.serialize_entry("name", tool)?;
            map.serialize_entry("arguments", self.arguments)?;
        } else {
            let ours = [META, INPUT_RESPONSES, REQUEST_STATE];
            for (key, value) in self.arguments.iter().filter(|(key, _)| !ours.contains(&&***key)) {
                map.serialize_entry(key, value)?;
            }
        }
        if matches!(self.form, Form::Task) {
            map.serialize_entry("task", &Map::<String, Value>::new())?;
        }
        if let Form::Plain(Some(InputGiven { responses, state })) = self.form {
            if !responses.is_empty() {
                map.serialize_entry(INPUT_RESPONSES, responses)?;
            }
            if let Some(state) = state {
                map.serialize_entry(REQUEST_STATE, state)?;
            }
        }
        if !self.meta.is_empty() {
            map.serialize_entry(META, &self.meta)?;
        }
        map.end()
    }
}

/// The parameters of everything else: an object, and `_meta` where the era wants it.
#[derive(Serialize)]
pub(in crate::mcp) struct PlainParams<'a> {
    #[serde(flatten)]
    pub(in crate::mcp) members: &'a Map<String, Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub(in crate::mcp) meta: Meta<'a>,
}

/// `_meta` of a request, written straight from its parts.
#[derive(Clone, Copy)]
pub(in crate::mcp) struct Meta<'a> {
    era: Era,
    caller: Option<&'a Map<String, Value>>,
    trace: Option<&'a TraceParent>,
    progress: Option<u64>,
    allowed: Allowed,
    client: Option<&'a Client>,
    follows_tasks: bool,
}

impl<'a> Meta<'a> {
    /// For the gateway's own requests.
    pub(in crate::mcp) const fn own(era: Era, allowed: Allowed) -> Self {
        Self {
            era,
            caller: None,
            trace: None,
            progress: None,
            allowed,
            client: None,
            follows_tasks: false,
        }
    }

    /// For a caller's call, whose progress is known by `token`.
    pub(in crate::mcp) fn of_call(
        era: Era,
        allowed: Allowed,
        cx: &'a CallContext,
        token: u64,
    ) -> Self {
        Self {
            era,
            caller: Some(&cx.meta),
            trace: cx.trace.as_ref(),
            progress: cx.progress.is_some().then_some(token),
            allowed,
            client: Some(&cx.client),
            follows_tasks: false,
        }
    }

    /// The gateway follows the task of a tool that works as one only, if the caller does not.
    pub(in crate::mcp) const fn following_tasks(self, follows_tasks: bool) -> Self {
        Self { follows_tasks, ..self }
    }

    fn capabilities(&self) -> Map<String, Value> {
        let mut declared = match self.client {
            Some(client) => self.allowed.of_client(client),
            None => self.allowed.declared(),
        };
        if self.follows_tasks {
            let extensions = declared.entry("extensions").or_insert_with(|| json!({}));
            extensions[tasks::EXTENSION] = json!({});
        }
        declared
    }

    fn passed_on(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let replaced = self.trace.is_some();
        let keep = move |key: &str| {
            !HOP_ONLY.contains(&key)
                && !key.starts_with(OWN_META)
                && (!replaced || key != TRACE_PARENT)
        };
        self.caller.into_iter().flatten().filter(move |(key, _)| keep(key))
    }

    fn is_empty(&self) -> bool {
        self.era == Era::Sessions
            && self.trace.is_none()
            && self.progress.is_none()
            && self.passed_on().next().is_none()
    }
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.passed_on() {
            map.serialize_entry(key, value)?;
        }
        if let Some(trace) = self.trace {
            map.serialize_entry(TRACE_PARENT, trace.as_str())?;
        }
        if let Some(token) = self.progress {
            map.serialize_entry(PROGRESS_TOKEN, &token)?;
        }
        if self.era == Era::Stateless {
            map.serialize_entry(META_VERSION, STATELESS)?;
            map.serialize_entry(META_CAPABILITIES, &self.capabilities())?;
            map.serialize_entry(META_CLIENT, &CLIENT)?;
            if let Some(level) = self.client.and_then(|client| client.log_level.as_deref()) {
                map.serialize_entry(META_LOG_LEVEL, level)?;
            }
        }
        map.end()
    }
}
