//! The small sections: built-ins, the local user, limits, approvals, policy, audit, artifacts and
//! telemetry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drawgate_core::model::{Capability, Verdict};
use drawgate_sources::setting::Setting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::formats::{CapabilityText, PolicyAction, ProtectedName};

/// The built-in tools: `vfs_read`, `vfs_write`, `vfs_list`, `vfs_delete` and `web_fetch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Builtin {
    /// Whether they are offered.
    pub enabled: bool,
    /// The one folder that they read and write. Relative to this file's folder. Absent: the folder
    /// `workspace` in the data folder.
    #[schemars(extend("format" = "writable-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Protected names, such as `AGENTS.md`, that they may write all the same. `docs/sandbox.md` lists
    /// them.
    #[schemars(with = "Vec<ProtectedName>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unprotected: Vec<String>,
}

impl Default for Builtin {
    fn default() -> Self {
        Self { enabled: true, workspace: None, unprotected: Vec::new() }
    }
}

/// The local user, who holds the admin token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Local {
    /// What the local user may call: capabilities, `file.*` for all below `file.`, `*` for
    /// everything.
    #[schemars(with = "Vec<CapabilityText>")]
    pub capabilities: Vec<Capability>,
    /// How tools are shown to the local user.
    pub expose: Expose,
}

impl Default for Local {
    fn default() -> Self {
        Self { capabilities: Capability::new("*").into_iter().collect(), expose: Expose::All }
    }
}

/// How tools are shown to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expose {
    /// Every tool is listed.
    All,
    /// Two tools are listed, `search_tools` and `call_tool`, by which the others are found and
    /// called.
    Search,
}

impl From<Expose> for drawgate_core::policy::Expose {
    fn from(expose: Expose) -> Self {
        match expose {
            Expose::All => Self::All,
            Expose::Search => Self::Search,
        }
    }
}

/// Limits on calls and their output. A server or a tool may set its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Seconds that a call may take, unless its server or tool says otherwise. Each report of progress
    /// begins them anew.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: u64,
    /// Seconds that no call may exceed, whatever a tool or a caller asks for.
    #[schemars(range(min = 1, max = 86_400))]
    pub max_timeout_seconds: u64,
    /// Seconds that a call may take which has become a task, so that nobody waits for it.
    #[schemars(range(min = 1, max = 604_800))]
    pub max_task_seconds: u64,
    /// Seconds that a call is waited for before it becomes a task, for clients that have shown that they follow
    /// tasks.
    #[schemars(range(min = 0, max = 3600))]
    pub task_after_seconds: u64,
    /// Bytes of output beyond which the whole is kept as an artifact and the caller gets the
    /// beginning and the end with a link.
    #[schemars(range(min = 256, max = 1_073_741_824))]
    pub max_output_bytes: usize,
    /// Lines of output beyond which the whole is kept as an artifact. Absent: no limit.
    #[schemars(range(min = 1, max = 100_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_lines: Option<usize>,
    /// Most calls under way at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_concurrent_calls: usize,
    /// Most calls under way at a time for one agent.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_concurrent_calls_per_agent: usize,
    /// Largest arguments of a call, in bytes of JSON.
    #[schemars(range(min = 256, max = 1_073_741_824))]
    pub max_argument_bytes: usize,
    /// Memory that all sandboxed programs may use together, in MiB; half of the machine's unless set.
    /// When they use more, the one that uses most is stopped.
    #[schemars(range(min = 16, max = 1_073_741_824))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_memory_mb: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout_seconds: 60,
            max_timeout_seconds: 600,
            max_task_seconds: 3600,
            task_after_seconds: 5,
            max_output_bytes: 1024 * 1024,
            max_output_lines: None,
            max_concurrent_calls: 1024,
            max_concurrent_calls_per_agent: 256,
            max_argument_bytes: 1024 * 1024,
            sandbox_memory_mb: None,
        }
    }
}

/// How calls that need a person's consent are treated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// Whether a person is asked at all.
    pub mode: ApprovalsMode,
    /// Seconds that a call waits for the decision before it is answered with the approval's id.
    #[schemars(range(min = 0, max = 3600))]
    pub hold_seconds: u64,
    /// Seconds after which an approval can no longer be given or used.
    #[schemars(range(min = 1, max = 604_800))]
    pub expire_seconds: u64,
    /// Where people are told of calls that wait for them. Absent: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

/// An address that is told of each new approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Where each approval is sent by HTTP `POST`, as JSON. `env:NAME` where the address is a secret.
    #[schemars(with = "String")]
    pub url: Setting,
    /// What the bodies are signed with, as `env:NAME`: HMAC-SHA256 in the header
    /// `drawgate-signature`. Absent: they are not signed.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Setting>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { mode: ApprovalsMode::Ask, hold_seconds: 30, expire_seconds: 300, webhook: None }
    }
}

/// Whether a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsMode {
    /// A person decides with `drawgate approvals`.
    Ask,
    /// Calls that would need consent run without it.
    Off,
}

/// Rules about which calls are allowed: in a file of their own, or here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// A JSON file with `version`, `defaults` and `rules`. Relative to this file's folder.
    #[schemars(extend("format" = "trusted-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The version of the rules below: `1.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What holds when no rule matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<PolicyDefaults>,
    /// The rules: each with `id`, `action`, `decision` and perhaps `when`, `riskTags`, `reason`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Map<String, Value>>,
    /// Policy actions of your own, beside the known ones such as `file.read`.
    #[schemars(with = "Vec<PolicyAction>")]
    pub actions: Vec<String>,
    /// Whether a tool without a policy action is refused.
    pub require_policy_action: bool,
}

/// What holds when no rule matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDefaults {
    /// The decision.
    pub fallback: Verdict,
}

impl Policy {
    /// The rules that stand in `drawgate.toml` itself, in the shape of a policy file; `None` when
    /// there are none.
    #[must_use]
    pub fn inline(&self) -> Option<Value> {
        if self.rules.is_empty() && self.defaults.is_none() {
            return None;
        }
        let mut document = serde_json::json!({
            "version": self.version.as_deref().unwrap_or("1.0"),
            "rules": self.rules,
        });
        if let (Some(defaults), Some(map)) = (&self.defaults, document.as_object_mut()) {
            map.insert("defaults".into(), serde_json::json!({ "fallback": defaults.fallback }));
        }
        Some(document)
    }
}

/// The audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// What an event survives once its call is answered.
    pub durability: Durability,
    /// What happens to calls while events can't be stored.
    pub on_audit_failure: AuditFailure,
    /// What an event keeps of arguments. Of results it keeps the hash.
    pub payloads: Payloads,
    /// Whether callers may name keys whose values are masked in what is kept of a call (`redactKeys`).
    pub caller_redaction: bool,
    /// Bytes of redacted arguments that an event itself holds; larger ones are kept beside it.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub payload_bytes: usize,
    /// Bytes of redacted arguments that may be kept beside events; the oldest go first. 0 keeps none.
    #[schemars(range(min = 0, max = 1_125_899_906_842_624u64))]
    pub payload_quota_bytes: u64,
    /// Events between two signed checkpoints.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub checkpoint_every: u64,
    /// The socket of the system log that the log's signed head is sent to, such as `/dev/log`.
    /// Absent: none.
    #[schemars(extend("format" = "trusted-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor_syslog: Option<PathBuf>,
    /// Where the log's signed head is sent by HTTP `POST`, as JSON. Absent: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor_url: Option<String>,
    /// Seconds between two heads that are sent, besides those at start and stop.
    #[schemars(range(min = 1, max = 86_400))]
    pub anchor_every_seconds: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            on_audit_failure: AuditFailure::Memory,
            payloads: Payloads::Redacted,
            caller_redaction: true,
            payload_bytes: 16 * 1024,
            payload_quota_bytes: 256 * 1024 * 1024,
            checkpoint_every: 1000,
            anchor_syslog: None,
            anchor_url: None,
            anchor_every_seconds: 300,
        }
    }
}

/// What an audit event survives once its call is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The end of the process, also by `kill -9`.
    Process,
    /// A power failure: data is flushed to the disk before the answer.
    Power,
}

/// What happens to calls while audit events can't be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditFailure {
    /// They run; events wait in a bounded memory log, and `/healthz` says so.
    Memory,
    /// They are refused.
    Refuse,
}

/// What an audit event keeps of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Payloads {
    /// The redacted arguments and their hash.
    Redacted,
    /// The hash alone.
    Hash,
}

/// Large outputs that are kept as files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Artifacts {
    /// Bytes that all artifacts together may take; the oldest go first.
    #[schemars(range(min = 1_048_576, max = 1_125_899_906_842_624u64))]
    pub quota_bytes: u64,
    /// Days after which an artifact is removed.
    #[schemars(range(min = 1, max = 36_500))]
    pub max_age_days: u64,
}

impl Default for Artifacts {
    fn default() -> Self {
        Self { quota_bytes: 1024 * 1024 * 1024, max_age_days: 30 }
    }
}

/// Logs and traces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// Where OpenTelemetry traces go, such as `http://127.0.0.1:4318`. Absent: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// The name under which traces appear.
    pub service_name: String,
    /// The least severe log lines that are written to standard error.
    pub log: LogLevel,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// Headers sent with traces. Values may be `env:NAME`.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, Setting>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            service_name: "drawgate".to_owned(),
            log: LogLevel::Info,
            log_format: LogFormat::Text,
            headers: BTreeMap::new(),
        }
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What went wrong.
    Error,
    /// And what may become wrong.
    Warn,
    /// And what happens.
    Info,
    /// And how.
    Debug,
    /// And every detail.
    Trace,
}

impl LogLevel {
    /// The level as a word, as log filters spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
