//! One audit event: on its way in, as stored, and as read back.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical;
use crate::json;
use crate::model::PolicyDecision;
use crate::store::StoreError;

/// What happened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A process began to write.
    LogOpened,
    /// It stopped in order.
    LogClosed,
    /// Policy let a call pass, which now begins.
    Decision,
    /// A call ended.
    Outcome,
    /// A person must approve a call.
    ApprovalRequired,
    /// A person has.
    ApprovalDecided,
    /// A grant was issued.
    GrantIssued,
    /// A grant was revoked.
    GrantRevoked,
    /// An agent was added.
    AgentAdded,
    /// An agent got a new token.
    AgentRotated,
    /// An agent was removed.
    AgentRemoved,
    /// An artifact was removed by hand.
    ArtifactRemoved,
    /// An edited configuration is about to be put in force.
    ConfigApplying,
    /// A configuration is in force.
    ConfigLoaded,
    /// An edited configuration is not in force, and why.
    ConfigRejected,
    /// A definition that nobody has accepted was kept from callers.
    ToolQuarantined,
    /// A person accepted a definition.
    ToolAccepted,
    /// An operator has a server started again.
    ServerRestarting,
    /// Somebody logged the gateway in at a server.
    ServerLogin,
    /// Somebody ended such a login.
    ServerLogout,
    /// A toolpack was installed.
    ToolpackInstalled,
    /// An installed toolpack was replaced by another version.
    ToolpackUpdated,
    /// A toolpack's tools were opened to callers.
    ToolpackEnabled,
    /// They were closed again.
    ToolpackDisabled,
    /// A toolpack was removed.
    ToolpackRemoved,
    /// Files of an installed toolpack are not those that were installed; it is out of use.
    ToolpackChanged,
    /// Files that a program had planted were moved away by its sandbox.
    FilesSetAside,
    /// Somebody without a valid token called.
    CallerRefused,
    /// A pack or an agent proved its key, and its connection is in use.
    PeerConnected,
    /// Such a connection ended.
    PeerDisconnected,
    /// Somebody could not prove a key, or a pack's manifest was refused.
    PeerRefused,
    /// A key was authorised.
    KeyAdded,
    /// A key was withdrawn.
    KeyRemoved,
    /// An agent that the gateway runs itself began to work.
    RunStarted,
    /// It ended, and how.
    RunEnded,
    /// A run was refused something that its budget does not cover.
    BudgetRefused,
    /// Work was delegated to a run of its own.
    TaskCreated,
    /// Delegated work is over, and how.
    TaskEnded,
    /// A person accepted an agent's profile.
    ProfileAccepted,
    /// A profile is gone or no longer accepted.
    ProfileRemoved,
    /// A hook changed a call's arguments or its result, or would have if it were enforced.
    HookChanged,
    /// A hook withheld a result, or objected to a call without being enforced.
    HookObjected,
    /// A hook did not answer, or not sensibly.
    HookFailed,
    /// A plugin was added.
    PluginAdded,
    /// A plugin was put to work.
    PluginEnabled,
    /// A plugin was taken out of work.
    PluginDisabled,
    /// The settings of a plugin, or its position among the others, were changed.
    PluginConfigured,
    /// A plugin was removed.
    PluginRemoved,
    /// A plugin can't be used or failed too often, and why.
    PluginFailed,
    /// A program reset the gateway that is a part of it: issued grants and open approvals ended.
    GatewayReset,
    /// An operator's act begins: nothing has changed yet. The event of the act's own kind, with the
    /// same `actId`, says that it was done; without one it was not.
    ActStarted,
    /// An operator's act changed nothing.
    ActFailed,
    /// An operator has the data folder copied.
    BackupStarted,
    /// The system's clock was set back, or has caught up: how far it is behind.
    ClockStepped,
    /// Events were kept in memory while the log could not be written.
    AuditGap,
    /// Calls that were under way when the process died got their outcome.
    Recovered,
    /// Old events were removed.
    Pruned,
    /// Arguments that are kept beside the events were removed, the oldest first, to make room.
    PayloadsRemoved,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 58] = [
        Self::LogOpened,
        Self::LogClosed,
        Self::Decision,
        Self::Outcome,
        Self::ApprovalRequired,
        Self::ApprovalDecided,
        Self::GrantIssued,
        Self::GrantRevoked,
        Self::AgentAdded,
        Self::AgentRotated,
        Self::AgentRemoved,
        Self::ArtifactRemoved,
        Self::ConfigApplying,
        Self::ConfigLoaded,
        Self::ConfigRejected,
        Self::ToolQuarantined,
        Self::ToolAccepted,
        Self::ServerRestarting,
        Self::ServerLogin,
        Self::ServerLogout,
        Self::ToolpackInstalled,
        Self::ToolpackUpdated,
        Self::ToolpackEnabled,
        Self::ToolpackDisabled,
        Self::ToolpackRemoved,
        Self::ToolpackChanged,
        Self::FilesSetAside,
        Self::CallerRefused,
        Self::PeerConnected,
        Self::PeerDisconnected,
        Self::PeerRefused,
        Self::KeyAdded,
        Self::KeyRemoved,
        Self::RunStarted,
        Self::RunEnded,
        Self::BudgetRefused,
        Self::TaskCreated,
        Self::TaskEnded,
        Self::ProfileAccepted,
        Self::ProfileRemoved,
        Self::HookChanged,
        Self::HookObjected,
        Self::HookFailed,
        Self::PluginAdded,
        Self::PluginEnabled,
        Self::PluginDisabled,
        Self::PluginConfigured,
        Self::PluginRemoved,
        Self::PluginFailed,
        Self::GatewayReset,
        Self::ActStarted,
        Self::ActFailed,
        Self::BackupStarted,
        Self::ClockStepped,
        Self::AuditGap,
        Self::Recovered,
        Self::Pruned,
        Self::PayloadsRemoved,
    ];

    /// As in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LogOpened => "log_opened",
            Self::LogClosed => "log_closed",
            Self::Decision => "decision",
            Self::Outcome => "outcome",
            Self::ApprovalRequired => "approval_required",
            Self::ApprovalDecided => "approval_decided",
            Self::GrantIssued => "grant_issued",
            Self::GrantRevoked => "grant_revoked",
            Self::AgentAdded => "agent_added",
            Self::AgentRotated => "agent_rotated",
            Self::AgentRemoved => "agent_removed",
            Self::ArtifactRemoved => "artifact_removed",
            Self::ConfigApplying => "config_applying",
            Self::ConfigLoaded => "config_loaded",
            Self::ConfigRejected => "config_rejected",
            Self::ToolQuarantined => "tool_quarantined",
            Self::ToolAccepted => "tool_accepted",
            Self::ServerRestarting => "server_restarting",
            Self::ServerLogin => "server_login",
            Self::ServerLogout => "server_logout",
            Self::ToolpackInstalled => "toolpack_installed",
            Self::ToolpackUpdated => "toolpack_updated",
            Self::ToolpackEnabled => "toolpack_enabled",
            Self::ToolpackDisabled => "toolpack_disabled",
            Self::ToolpackRemoved => "toolpack_removed",
            Self::ToolpackChanged => "toolpack_changed",
            Self::FilesSetAside => "files_set_aside",
            Self::CallerRefused => "caller_refused",
            Self::PeerConnected => "peer_connected",
            Self::PeerDisconnected => "peer_disconnected",
            Self::PeerRefused => "peer_refused",
            Self::KeyAdded => "key_added",
            Self::KeyRemoved => "key_removed",
            Self::RunStarted => "run_started",
            Self::RunEnded => "run_ended",
            Self::BudgetRefused => "budget_refused",
            Self::TaskCreated => "task_created",
            Self::TaskEnded => "task_ended",
            Self::ProfileAccepted => "profile_accepted",
            Self::ProfileRemoved => "profile_removed",
            Self::HookChanged => "hook_changed",
            Self::HookObjected => "hook_objected",
            Self::HookFailed => "hook_failed",
            Self::PluginAdded => "plugin_added",
            Self::PluginEnabled => "plugin_enabled",
            Self::PluginDisabled => "plugin_disabled",
            Self::PluginConfigured => "plugin_configured",
            Self::PluginRemoved => "plugin_removed",
            Self::PluginFailed => "plugin_failed",
            Self::GatewayReset => "gateway_reset",
            Self::ActStarted => "act_started",
            Self::ActFailed => "act_failed",
            Self::BackupStarted => "backup_started",
            Self::ClockStepped => "clock_stepped",
            Self::AuditGap => "audit_gap",
            Self::Recovered => "recovered",
            Self::Pruned => "pruned",
            Self::PayloadsRemoved => "payloads_removed",
        }
    }

    /// Whether it says that an act was done: an operator's, or one of the program around the gateway.
    #[must_use]
    pub const fn is_act(self) -> bool {
        match self {
            Self::ApprovalDecided
            | Self::GrantIssued
            | Self::GrantRevoked
            | Self::AgentAdded
            | Self::AgentRotated
            | Self::AgentRemoved
            | Self::ArtifactRemoved
            | Self::ToolAccepted
            | Self::ServerLogin
            | Self::ServerLogout
            | Self::ToolpackInstalled
            | Self::ToolpackUpdated
            | Self::ToolpackEnabled
            | Self::ToolpackDisabled
            | Self::ToolpackRemoved
            | Self::KeyAdded
            | Self::KeyRemoved
            | Self::ProfileAccepted
            | Self::ProfileRemoved
            | Self::PluginAdded
            | Self::PluginEnabled
            | Self::PluginDisabled
            | Self::PluginConfigured
            | Self::PluginRemoved
            | Self::GatewayReset => true,
            Self::LogOpened
            | Self::LogClosed
            | Self::Decision
            | Self::Outcome
            | Self::ApprovalRequired
            | Self::ConfigApplying
            | Self::ConfigLoaded
            | Self::ConfigRejected
            | Self::ToolQuarantined
            | Self::ServerRestarting
            | Self::ToolpackChanged
            | Self::FilesSetAside
            | Self::CallerRefused
            | Self::PeerConnected
            | Self::PeerDisconnected
            | Self::PeerRefused
            | Self::RunStarted
            | Self::RunEnded
            | Self::BudgetRefused
            | Self::TaskCreated
            | Self::TaskEnded
            | Self::HookChanged
            | Self::HookObjected
            | Self::HookFailed
            | Self::PluginFailed
            | Self::ActStarted
            | Self::ActFailed
            | Self::BackupStarted
            | Self::ClockStepped
            | Self::AuditGap
            | Self::Recovered
            | Self::Pruned
            | Self::PayloadsRemoved => false,
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Keys that the chain itself writes.
pub(super) const RESERVED: [&str; 5] = ["createdAt", "hash", "kind", "prev", "sequence"];

/// An event before it has a place in the log. Keys are camelCase; one that is given twice keeps its
/// last value, and the chain's own (`sequence`, `kind`, `createdAt`, `prev`, `hash`) are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "KeptDraft", from = "KeptDraft")]
pub struct EventDraft {
    kind: EventKind,
    at_ms: u64,
    /// The fields' JSON, one after the other: one buffer for all keeps drafts cheap.
    rendered: Vec<u8>,
    /// Keys, and where in `rendered` their JSON ends.
    fields: Vec<(Cow<'static, str>, usize)>,
    /// Redacted arguments that are too large for the event itself.
    payload: Option<Payload>,
}

/// Redacted arguments that are kept beside their event, by their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// SHA-256 of the text, as the event has it in `inputHash`.
    pub hash: String,
    /// Canonical JSON.
    pub text: Arc<str>,
}

/// Whether an event's arguments are kept beside it.
const INPUT_KEPT: &str = "inputKept";

impl EventDraft {
    /// An event of a kind at a time, in milliseconds since the epoch.
    #[must_use]
    pub fn new(kind: EventKind, at_ms: u64) -> Self {
        Self {
            kind,
            at_ms,
            rendered: Vec::with_capacity(512),
            fields: Vec::with_capacity(16),
            payload: None,
        }
    }

    /// Has the log keep arguments beside the event.
    #[must_use]
    pub fn with_payload(self, payload: Payload) -> Self {
        let draft = self.flag(INPUT_KEPT, true);
        Self { payload: Some(payload), ..draft }
    }

    /// The same event, which says that its arguments are not kept.
    #[must_use]
    pub fn without_payload(self) -> Self {
        match self.payload {
            Some(_) => Self { payload: None, ..self }.flag(INPUT_KEPT, false),
            None => self,
        }
    }

    /// What is kept beside the event.
    #[must_use]
    pub const fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref()
    }

    /// Adds a string.
    #[must_use]
    pub fn text(mut self, key: &'static str, value: impl AsRef<str>) -> Self {
        canonical::write_text(value.as_ref(), &mut self.rendered);
        self.end(key)
    }

    /// Adds a string, if there is one.
    #[must_use]
    pub fn maybe_text(self, key: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, key: &'static str, value: u64) -> Self {
        // Writing to a vector can't fail.
        drop(write!(self.rendered, "{value}"));
        self.end(key)
    }

    /// Adds a truth value.
    #[must_use]
    pub fn flag(mut self, key: &'static str, value: bool) -> Self {
        self.rendered.extend_from_slice(if value { b"true" } else { b"false" });
        self.end(key)
    }

    /// Adds a list of strings.
    #[must_use]
    pub fn texts<'a>(
        mut self,
        key: &'static str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.rendered.push(b'[');
        for (at, value) in values.into_iter().enumerate() {
            if at > 0 {
                self.rendered.push(b',');
            }
            canonical::write_text(value, &mut self.rendered);
        }
        self.rendered.push(b']');
        self.end(key)
    }

    /// Adds JSON that is canonical already, as [`canonical::to_string`] writes it.
    #[must_use]
    pub fn canonical(mut self, key: &'static str, value: impl AsRef<str>) -> Self {
        self.rendered.extend_from_slice(value.as_ref().as_bytes());
        self.end(key)
    }

    /// The same fields as an event of another kind and time.
    #[must_use]
    pub fn become_kind(self, kind: EventKind, at_ms: u64) -> Self {
        Self { kind, at_ms, ..self }
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        self.kind
    }

    /// Its time, in milliseconds since the epoch.
    #[must_use]
    pub const fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// The JSON of a field.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&[u8]> {
        self.fields().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }

    /// A field that is a string.
    #[must_use]
    pub fn text_of(&self, key: &str) -> Option<String> {
        serde_json::from_slice(self.field(key)?).ok()
    }

    /// The fields in the order in which they were added.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut start = 0;
        self.fields.iter().map(move |(key, end)| {
            let value = self.rendered.get(start..*end).unwrap_or_default();
            start = *end;
            (&**key, value)
        })
    }

    fn end(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.fields.push((key.into(), self.rendered.len()));
        self
    }
}

/// A draft as the store keeps it.
#[derive(Serialize, Deserialize)]
struct KeptDraft {
    kind: EventKind,
    at: u64,
    fields: Map<String, Value>,
}

impl From<EventDraft> for KeptDraft {
    fn from(draft: EventDraft) -> Self {
        let fields = draft.fields().map(|(key, value)| {
            // What a draft has rendered is JSON.
            (key.to_owned(), serde_json::from_slice(value).unwrap_or_default())
        });
        Self { kind: draft.kind, at: draft.at_ms, fields: fields.collect() }
    }
}

impl From<KeptDraft> for EventDraft {
    fn from(kept: KeptDraft) -> Self {
        let mut draft = Self::new(kept.kind, kept.at);
        for (key, value) in kept.fields {
            draft.rendered.extend_from_slice(canonical::to_string(&value).as_bytes());
            draft = draft.end(key);
        }
        draft
    }
}

/// An event as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place, from 1.
    pub sequence: u64,
    /// Its canonical JSON.
    pub body: String,
}

impl StoredEvent {
    /// Reads the body.
    pub fn event(&self) -> Result<ToolAuditEvent, StoreError> {
        let corrupt =
            |reason: String| StoreError::Corrupt { operation: "read an audit event", reason };
        let value = json::parse(self.body.as_bytes())
            .map_err(|error| corrupt(format!("event {}: {error}", self.sequence)))?;
        serde_json::from_value(value)
            .map_err(|error| corrupt(format!("event {}: {error}", self.sequence)))
    }
}

/// An event as programs read it. Which fields are present depends on its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolAuditEvent {
    /// Its place in the log, from 1.
    pub sequence: u64,
    /// What happened.
    pub kind: EventKind,
    /// When, in milliseconds since the epoch.
    pub created_at: u64,
    /// The hash of the event before it.
    pub prev: String,
    /// Its own hash.
    pub hash: String,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// The caller's name for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The gate's name for the call, which its decision and its outcome share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Who called or acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The grants that covered the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_ids: Option<Vec<String>>,
    /// SHA-256 of the redacted arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// SHA-256 of the redacted result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<String>,
    /// Whether the tool did what was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How it ended, unless the tool did what was asked: the code of the failure, or `ASKED` where the
    /// caller got a question instead of a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What policy said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PolicyDecision>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
