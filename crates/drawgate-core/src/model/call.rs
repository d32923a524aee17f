//! A call and its answer.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CapabilityGrant, GrantId, InputGiven, InputRequired, Lineage, Operation, Principal};

/// Who calls, as a surface has established it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The authenticated name.
    pub principal: Principal,
    /// The session in which it calls, where the protocol has sessions.
    pub session: Option<Arc<str>>,
    /// The surface it came through.
    pub surface: Surface,
    /// Grants that came with the request itself, such as by the scopes of its token. They are in
    /// no book, and end with the request or earlier.
    pub carried: Arc<[Arc<CapabilityGrant>]>,
    /// The run that calls, if the gateway itself runs the agent. `None` for every other caller.
    pub lineage: Option<Arc<Lineage>>,
}

/// The surface that a call came through. Surfaces define their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Surface {
    name: Cow<'static, str>,
    /// How its callers read an artifact; `{sha256}` stands for the artifact's hash.
    read_artifact: Option<Cow<'static, str>>,
}

impl Surface {
    /// A program that embeds the gate.
    pub const EMBEDDED: Self = Self { name: Cow::Borrowed("embedded"), read_artifact: None };

    /// An agent that the gateway runs itself.
    pub const RUN: Self = Self::new("run", "call `artifact_read` with this URI");

    /// Defines a surface: its name in the audit log, and how its callers read an artifact, as the rest
    /// of a sentence (`{sha256}` stands for the artifact's hash).
    #[must_use]
    pub const fn new(name: &'static str, read_artifact: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), read_artifact: Some(Cow::Borrowed(read_artifact)) }
    }

    /// The name in the audit log.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How a caller reads this artifact.
    pub(crate) fn how_to_read(&self, artifact: &ArtifactRef) -> Option<String> {
        Some(self.read_artifact.as_ref()?.replace("{sha256}", &artifact.sha256))
    }
}

impl From<String> for Surface {
    fn from(name: String) -> Self {
        Self { name: name.into(), read_artifact: None }
    }
}

impl From<Surface> for String {
    fn from(surface: Surface) -> Self {
        surface.name.into_owned()
    }
}

/// One call, before anything is known about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInvocation {
    /// The tool: its id, its wire name, or its bare name where only one tool has it.
    pub tool_id: String,
    /// The caller's own name for this call; it need not be unique.
    pub request_id: String,
    /// The run that it belongs to, if the caller groups calls. What an agent that the gateway runs
    /// itself writes here is not heeded: its run is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The only grants that the caller wants to use. Absent: all that it holds; an empty list: none. A
    /// grant that the caller does not hold gives nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_ids: Option<Vec<GrantId>>,
    /// Keys to redact in addition to the ones that always are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact_keys: Vec<String>,
    /// A shorter limit than the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The protocol's metadata, carried to the source without being understood.
    #[serde(default, rename = "_meta", skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
    /// What is asked for. For anything but a tool, `tool_id` is the source's id.
    #[serde(skip)]
    pub operation: Operation,
    /// Answers to the questions that an earlier call of the same led to.
    #[serde(skip)]
    pub input: Option<InputGiven>,
}

/// What a source brings back. Content blocks are passed on as the tool wrote them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Content blocks.
    pub content: Vec<Value>,
    /// The structured result, if the tool gives one.
    pub structured: Option<Value>,
    /// The tool itself says that it failed; its content says why.
    pub is_error: bool,
    /// The other members of the result (`_meta` and what later revisions add), untouched.
    pub rest: Map<String, Value>,
    /// The source can't go on without these answers; then all else is empty.
    pub input_required: Option<Box<InputRequired>>,
}

impl ToolOutput {
    /// Questions instead of a result.
    #[must_use]
    pub fn question(required: InputRequired) -> Self {
        Self { input_required: Some(Box::new(required)), ..Self::default() }
    }

    /// One block of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![text_block(text.into())], ..Self::default() }
    }

    /// One block of text that says why the tool failed.
    #[must_use]
    pub fn failure(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

fn text_block(text: String) -> Value {
    let mut block = Map::new();
    block.insert("type".to_owned(), Value::String("text".to_owned()));
    block.insert("text".to_owned(), Value::String(text));
    Value::Object(block)
}

/// The answer to a call, whatever became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Whether the tool did what was asked. A question is not a success.
    pub success: bool,
    /// Content blocks: text, images, resources and whatever else a source sends.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub content: Vec<Value>,
    /// The structured result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// About the call.
    pub meta: ResultMeta,
    /// Outputs that were too large to return.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
    /// Further members of the tool's own result, for protocols that carry them.
    #[serde(skip)]
    pub rest: Map<String, Value>,
    /// Questions that must be answered before there is a result. Only callers that said they can
    /// answer get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_required: Option<Box<InputRequired>>,
}

impl ToolResult {
    /// How the call ended.
    #[must_use]
    pub fn ending(&self) -> Ending {
        match (&self.error, &self.input_required) {
            (Some(error), _) => Ending::Failed(error.code),
            (None, Some(_)) => Ending::Asked,
            (None, None) => Ending::Done,
        }
    }
}

/// How a call ended, in the audit log, metrics and traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The tool did what was asked.
    Done,
    /// The caller got a question instead of a result: the call is made again with the answer.
    Asked,
    /// It failed or was refused.
    Failed(ErrorCode),
}

impl Ending {
    /// `OK`, `ASKED`, or the code of the failure.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "OK",
            Self::Asked => "ASKED",
            Self::Failed(code) => code.as_str(),
        }
    }
}

/// About a call that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultMeta {
    /// From the arrival of the call to its end.
    pub duration_ms: u64,
    /// The tool's id, or what the caller asked for if there is no such tool.
    pub tool_name: String,
    /// Whether it ran in a sandbox.
    pub sandboxed: bool,
    /// The artifact that holds the whole output, if it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_spool: Option<ArtifactRef>,
}

/// A stored output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactRef {
    /// `drawgate://artifacts/HASH`.
    pub uri: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// The media type.
    pub mime_type: String,
}

impl ArtifactRef {
    /// What the URI of every artifact begins with; the hash follows.
    pub const URI_PREFIX: &str = "drawgate://artifacts/";

    /// A reference to an output by its hash.
    #[must_use]
    pub fn new(sha256: String, size: u64, mime_type: String) -> Self {
        Self { uri: format!("{}{sha256}", Self::URI_PREFIX), size, sha256, mime_type }
    }
}

/// Why a call failed, in a form that programs can act upon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct ToolError {
    /// The stable code.
    pub code: ErrorCode,
    /// A sentence for the caller.
    pub message: String,
    /// More for programs: candidates, places in the arguments, an approval's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// How much a surface may tell a stranger.
    #[serde(skip)]
    pub disclosure: Disclosure,
}

/// How much of an error a surface may tell somebody whom the operator does not control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Disclosure {
    /// All of it.
    #[default]
    Open,
    /// The tool exists, but the caller could not list it: to a stranger it must look unknown.
    ToolIsHidden,
}

impl ToolError {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, disclosure: Disclosure::Open }
    }

    /// That there is no tool of this name.
    #[must_use]
    pub fn unknown_tool(name: &str) -> Self {
        Self::new(ErrorCode::ResourceNotFound, format!("unknown tool `{}`", shown_name(name)))
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// A name from outside, made fit for a message: short, and without control or hidden characters.
#[must_use]
pub fn shown_name(name: &str) -> String {
    const LONGEST: usize = 80;
    let short = name.chars().take(LONGEST).collect::<String>().escape_debug().to_string();
    crate::registry::visible_text(&short).into_owned()
}

/// The stable codes. Their names are the contract.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The tool ran and failed.
    ExecutionFailed,
    /// The deadline passed.
    Timeout,
    /// The caller holds no grant for it, or policy says no.
    PermissionDenied,
    /// A person must approve first.
    PermissionEscalationRequired,
    /// The arguments break the tool's schema.
    InvalidArguments,
    /// The tool tried what its sandbox forbids.
    SandboxViolation,
    /// No such tool, artifact or resource.
    ResourceNotFound,
    /// Too many calls.
    RateLimited,
    /// The name is ambiguous, or the state has changed.
    Conflict,
    /// The tool's output breaks its own schema, or a manifest is bad.
    ValidationError,
    /// The source is gone, starting, or refuses connections; or the audit log can't be written.
    Unavailable,
    /// The caller gave up.
    Cancelled,
}

impl ErrorCode {
    /// All codes, in order.
    pub const ALL: [Self; 12] = [
        Self::ExecutionFailed,
        Self::Timeout,
        Self::PermissionDenied,
        Self::PermissionEscalationRequired,
        Self::InvalidArguments,
        Self::SandboxViolation,
        Self::ResourceNotFound,
        Self::RateLimited,
        Self::Conflict,
        Self::ValidationError,
        Self::Unavailable,
        Self::Cancelled,
    ];

    /// The code's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExecutionFailed => "EXECUTION_FAILED",
            Self::Timeout => "TIMEOUT",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::PermissionEscalationRequired => "PERMISSION_ESCALATION_REQUIRED",
            Self::InvalidArguments => "INVALID_ARGUMENTS",
            Self::SandboxViolation => "SANDBOX_VIOLATION",
            Self::ResourceNotFound => "RESOURCE_NOT_FOUND",
            Self::RateLimited => "RATE_LIMITED",
            Self::Conflict => "CONFLICT",
            Self::ValidationError => "VALIDATION_ERROR",
            Self::Unavailable => "UNAVAILABLE",
            Self::Cancelled => "CANCELLED",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A W3C trace context, `traceparent`, as it came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent(Arc<str>);

impl TryFrom<String> for TraceParent {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a `traceparent`")
    }
}

impl From<TraceParent> for String {
    fn from(trace: TraceParent) -> Self {
        trace.as_str().to_owned()
    }
}

impl TraceParent {
    /// Parses `00-<32 hex>-<16 hex>-<2 hex>`; anything else is dropped, as the standard asks.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, span, flags] = parts.as_slice() else { return None };
        let hex = |part: &str, len: usize| {
            part.len() == len
                && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let nonzero = |part: &str| part.bytes().any(|b| b != b'0');
        let good = *version == "00"
            && hex(trace, 32)
            && hex(span, 16)
            && hex(flags, 2)
            && nonzero(trace)
            && nonzero(span);
        good.then(|| Self(text.into()))
    }

    /// The header's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The trace's id, 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.0.get(3..35).unwrap_or_default()
    }

    /// The calling span's id, 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> &str {
        self.0.get(36..52).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
