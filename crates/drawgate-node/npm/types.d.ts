// The data types of the gateway. Generated from the Rust model, which a test compares; see CONTRIBUTING.md.

/** One question to a person, and the answer. */
export interface Approval {
  /** Its name. */
  id: string;
  /** The tool. */
  toolId: string;
  /** Who wants to call it. */
  principal: Principal;
  /** The keyed hash of tool, definition, arguments and caller. */
  binding: string;
  /** The arguments, redacted, in full. */
  arguments: Record<string, unknown>;
  /** Why a person is asked. */
  reason: string;
  /** What makes it risky. */
  riskTags: RiskTag[];
  /** When it was asked, in milliseconds since the epoch. */
  createdAt: number;
  /** When it ends. */
  expiresAt: number;
  /** Where it stands. */
  state: ApprovalState;
  /** When it was decided. */
  decidedAt?: number;
}

/** Where an approval stands. */
export type ApprovalState =
  /** Nobody has decided. */
  | "pending"
  /** Yes, and not used yet. */
  | "approved"
  /** No. */
  | "denied"
  /** Yes, and the call was made. */
  | "used"
  /** Time ran out. */
  | "expired";

/** A stored output. */
export interface ArtifactRef {
  /** `drawgate://artifacts/HASH`. */
  uri: string;
  /** Bytes. */
  size: number;
  /** SHA-256, in hexadecimal. */
  sha256: string;
  /** The media type. */
  mimeType: string;
}

/** A flat string that a tool requires and a caller holds, such as `file.read` or `demo`. */
export type Capability = string;

/** One capability, held by a scope of callers, perhaps until a time. Times are milliseconds since the epoch. */
export interface CapabilityGrant {
  /** Its name, for revocation and audit. */
  grantId: string;
  /** What it allows. */
  capability: Capability;
  /** When it was issued. */
  issuedAt: number;
  /** When it ends by itself. */
  expiresAt?: number;
  /** Who may use it; absent means every caller of this gateway. */
  scope?: GrantScope;
  /** The approval by a person that stands behind it; such a grant satisfies a confirmation. */
  approvalId?: string;
}

/** The kind of a tool. */
export type Category =
  /** Part of the runtime. */
  | "core"
  /** Looks things up. */
  | "knowledge"
  /** Acts outside. */
  | "external"
  /** Talks to somebody. */
  | "communication"
  /** Steers agents. */
  | "control";

/** Whether calls of a tool may run side by side. */
export type Concurrency =
  /** They may. */
  | "parallel"
  /** One at a time. */
  | "exclusive";

/** The stable codes. Their names are the contract. */
export type ErrorCode =
  /** The tool ran and failed. */
  | "EXECUTION_FAILED"
  /** The deadline passed. */
  | "TIMEOUT"
  /** The caller holds no grant for it, or policy says no. */
  | "PERMISSION_DENIED"
  /** A person must approve first. */
  | "PERMISSION_ESCALATION_REQUIRED"
  /** The arguments break the tool's schema. */
  | "INVALID_ARGUMENTS"
  /** The tool tried what its sandbox forbids. */
  | "SANDBOX_VIOLATION"
  /** No such tool, artifact or resource. */
  | "RESOURCE_NOT_FOUND"
  /** Too many calls. */
  | "RATE_LIMITED"
  /** The name is ambiguous, or the state has changed. */
  | "CONFLICT"
  /** The tool's output breaks its own schema, or a manifest is bad. */
  | "VALIDATION_ERROR"
  /** The source is gone, starting, or refuses connections; or the audit log can't be written. */
  | "UNAVAILABLE"
  /** The caller gave up. */
  | "CANCELLED";

/** How long a tool takes, roughly. */
export type EstimatedDuration =
  /** No time at all. */
  | "instant"
  /** Under a second. */
  | "fast"
  /** Seconds. */
  | "medium"
  /** Longer. */
  | "slow";

/** What happened. */
export type EventKind =
  /** A process began to write. */
  | "log_opened"
  /** It stopped in order. */
  | "log_closed"
  /** Policy let a call pass, which now begins. */
  | "decision"
  /** A call ended. */
  | "outcome"
  /** A person must approve a call. */
  | "approval_required"
  /** A person has. */
  | "approval_decided"
  /** A grant was issued. */
  | "grant_issued"
  /** A grant was revoked. */
  | "grant_revoked"
  /** An agent was added. */
  | "agent_added"
  /** An agent got a new token. */
  | "agent_rotated"
  /** An agent was removed. */
  | "agent_removed"
  /** An artifact was removed by hand. */
  | "artifact_removed"
  /** An edited configuration is about to be put in force. */
  | "config_applying"
  /** A configuration is in force. */
  | "config_loaded"
  /** An edited configuration is not in force, and why. */
  | "config_rejected"
  /** A definition that nobody has accepted was kept from callers. */
  | "tool_quarantined"
  /** A person accepted a definition. */
  | "tool_accepted"
  /** An operator has a server started again. */
  | "server_restarting"
  /** Somebody logged the gateway in at a server. */
  | "server_login"
  /** Somebody ended such a login. */
  | "server_logout"
  /** A toolpack was installed. */
  | "toolpack_installed"
  /** An installed toolpack was replaced by another version. */
  | "toolpack_updated"
  /** A toolpack's tools were opened to callers. */
  | "toolpack_enabled"
  /** They were closed again. */
  | "toolpack_disabled"
  /** A toolpack was removed. */
  | "toolpack_removed"
  /** Files of an installed toolpack are not those that were installed; it is out of use. */
  | "toolpack_changed"
  /** Files that a program had planted were moved away by its sandbox. */
  | "files_set_aside"
  /** Somebody without a valid token called. */
  | "caller_refused"
  /** A pack or an agent proved its key, and its connection is in use. */
  | "peer_connected"
  /** Such a connection ended. */
  | "peer_disconnected"
  /** Somebody could not prove a key, or a pack's manifest was refused. */
  | "peer_refused"
  /** A key was authorised. */
  | "key_added"
  /** A key was withdrawn. */
  | "key_removed"
  /** An agent that the gateway runs itself began to work. */
  | "run_started"
  /** It ended, and how. */
  | "run_ended"
  /** A run was refused something that its budget does not cover. */
  | "budget_refused"
  /** Work was delegated to a run of its own. */
  | "task_created"
  /** Delegated work is over, and how. */
  | "task_ended"
  /** A person accepted an agent's profile. */
  | "profile_accepted"
  /** A profile is gone or no longer accepted. */
  | "profile_removed"
  /** A hook changed a call's arguments or its result, or would have if it were enforced. */
  | "hook_changed"
  /** A hook withheld a result, or objected to a call without being enforced. */
  | "hook_objected"
  /** A hook did not answer, or not sensibly. */
  | "hook_failed"
  /** A plugin was added. */
  | "plugin_added"
  /** A plugin was put to work. */
  | "plugin_enabled"
  /** A plugin was taken out of work. */
  | "plugin_disabled"
  /** The settings of a plugin, or its position among the others, were changed. */
  | "plugin_configured"
  /** A plugin was removed. */
  | "plugin_removed"
  /** A plugin can't be used or failed too often, and why. */
  | "plugin_failed"
  /** A program reset the gateway that is a part of it: issued grants and open approvals ended. */
  | "gateway_reset"
  /** An operator's act begins: nothing has changed yet. The event of the act's own kind, with the same `actId`, says that it was done; without one it was not. */
  | "act_started"
  /** An operator's act changed nothing. */
  | "act_failed"
  /** An operator has the data folder copied. */
  | "backup_started"
  /** The system's clock was set back, or has caught up: how far it is behind. */
  | "clock_stepped"
  /** Events were kept in memory while the log could not be written. */
  | "audit_gap"
  /** Calls that were under way when the process died got their outcome. */
  | "recovered"
  /** Old events were removed. */
  | "pruned"
  /** Arguments that are kept beside the events were removed, the oldest first, to make room. */
  | "payloads_removed";

/** Who may use a grant. In JSON: `workspace`, `user:NAME` or `session:ID`. */
export type GrantScope = string;

/** What a source needs to know before it can go on. The caller answers, and makes the same call again. */
export interface InputRequired {
  /** The questions, each a request with `method` and `params`, by the source's keys. */
  requests: Record<string, unknown>;
  /** To be sent back with the answers, untouched. */
  state?: string;
}

/** A source's description of itself and its tools. */
export interface McpManifest {
  /** The source. */
  serverId: SourceId;
  /** Its name for people. */
  name: string;
  /** Its version. */
  version: string;
  /** What it is for. */
  description?: string;
  /** Its tools. */
  tools: McpToolSpec[];
}

/** One tool, as its author describes it. What protocols put on a tool beyond these fields (`title`, `outputSchema`, `icons`, `_meta` …) is kept as it is. */
export interface McpToolSpec {
  /** The author's name for it. */
  name: string;
  /** What it does, for the model. */
  description?: string;
  /** JSON Schema of the arguments. */
  inputSchema: Record<string, unknown>;
  /** Hints and demands. Those that a server sent are not checked. */
  annotations?: ToolAnnotations;
  /** Free data of the author. */
  metadata?: unknown;
  [key: string]: unknown;
}

/** The decision about one call, as it stands in the audit log. */
export interface PolicyDecision {
  /** The answer. */
  decision: Verdict;
  /** Whether a person was or must be asked. */
  requiresConfirmation: boolean;
  /** Why, in words. */
  reason: string;
  /** What makes it risky. */
  riskTags: RiskTag[];
  /** The rule that decided, if one did. */
  ruleId?: string;
}

/** Who calls: an agent's name, or `local` for the owner of the data folder. */
export type Principal = string;

/** About a call that has ended. */
export interface ResultMeta {
  /** From the arrival of the call to its end. */
  durationMs: number;
  /** The tool's id, or what the caller asked for if there is no such tool. */
  toolName: string;
  /** Whether it ran in a sandbox. */
  sandboxed: boolean;
  /** The artifact that holds the whole output, if it was cut. */
  outputSpool?: ArtifactRef;
}

/** What makes a call risky, for the person who is asked. */
export type RiskTag =
  /** Something is removed. */
  | "delete"
  /** Something is replaced. */
  | "overwrite"
  /** Something leaves the machine. */
  | "network"
  /** A third party's service acts. */
  | "connector"
  /** Many things at once. */
  | "batch";

/** Who offers a tool: a configured server, a pack, `builtin`. */
export type SourceId = string;

/** What an author says about a tool. */
export interface ToolAnnotations {
  /** The kind of tool. */
  category?: Category;
  /** A person must confirm each call. */
  requiresConfirmation?: boolean;
  /** It changes nothing. */
  readOnly?: boolean;
  /** Whether calls may run side by side. */
  concurrency?: Concurrency;
  /** How long it takes. */
  estimatedDuration?: EstimatedDuration;
  /** Capabilities that a caller needs. */
  requiredScopes?: Capability[];
  /** The policy action that it performs; a caller needs it as a capability too. */
  policyAction?: string;
  [key: string]: unknown;
}

/** An event as programs read it. Which fields are present depends on its kind. */
export interface AuditEvent {
  /** Its place in the log, from 1. */
  sequence: number;
  /** What happened. */
  kind: EventKind;
  /** When, in milliseconds since the epoch. */
  createdAt: number;
  /** The hash of the event before it. */
  prev: string;
  /** Its own hash. */
  hash: string;
  /** The tool. */
  toolId?: string;
  /** The caller's name for the call. */
  requestId?: string;
  /** The gate's name for the call, which its decision and its outcome share. */
  callId?: string;
  /** Who called or acted. */
  principal?: string;
  /** The grants that covered the call. */
  grantIds?: string[];
  /** SHA-256 of the redacted arguments. */
  inputHash?: string;
  /** SHA-256 of the redacted result. */
  outputHash?: string;
  /** Whether the tool did what was asked. */
  success?: boolean;
  /** How long it took. */
  durationMs?: number;
  /** How it ended, unless the tool did what was asked: the code of the failure, or `ASKED` where the caller got a question instead of a result. */
  code?: string;
  /** What policy said. */
  decision?: PolicyDecision;
  [key: string]: unknown;
}

/** Why a call failed, in a form that programs can act upon. */
export interface ToolError {
  /** The stable code. */
  code: ErrorCode;
  /** A sentence for the caller. */
  message: string;
  /** More for programs: candidates, places in the arguments, an approval's id. */
  details?: unknown;
}

/** The state of the gate at a moment. */
export interface ToolGatewaySnapshot {
  /** Every tool, ordered by source, then name. */
  tools: ToolRegistryEntry[];
  /** Every live grant. */
  grants: CapabilityGrant[];
  /** The sequence of the newest audit event. */
  auditCursor: number;
}

/** A tool's one identity, `source:tool`, used in audit, policy and grants. */
export type ToolId = string;

/** One call, before anything is known about it. */
export interface ToolInvocation {
  /** The tool: its id, its wire name, or its bare name where only one tool has it. */
  toolId: string;
  /** The caller's own name for this call; it need not be unique. */
  requestId: string;
  /** The run that it belongs to, if the caller groups calls. What an agent that the gateway runs itself writes here is not heeded: its run is known. */
  runId?: string;
  /** The arguments. */
  arguments?: Record<string, unknown>;
  /** The only grants that the caller wants to use. Absent: all that it holds; an empty list: none. A grant that the caller does not hold gives nothing. */
  grantIds?: string[];
  /** Keys to redact in addition to the ones that always are. */
  redactKeys?: string[];
  /** A shorter limit than the tool's own. */
  timeoutMs?: number;
  /** The protocol's metadata, carried to the source without being understood. */
  _meta?: Record<string, unknown>;
}

/** A registered tool, as a list shows it. */
export interface ToolRegistryEntry {
  /** `source:tool`. */
  toolId: ToolId;
  /** The source. */
  serverId: SourceId;
  /** The name that models see. */
  wireName: WireName;
  /** What a caller needs. */
  requires: Capability[];
  /** The definition. */
  tool: McpToolSpec;
}

/** The answer to a call, whatever became of it. */
export interface ToolResult {
  /** Whether the tool did what was asked. A question is not a success. */
  success: boolean;
  /** Content blocks: text, images, resources and whatever else a source sends. */
  content: Array<Record<string, unknown>>;
  /** The structured result. */
  structuredContent?: unknown;
  /** What went wrong. */
  error?: ToolError;
  /** About the call. */
  meta: ResultMeta;
  /** Outputs that were too large to return. */
  artifacts?: ArtifactRef[];
  /** Questions that must be answered before there is a result. Only callers that said they can answer get them. */
  inputRequired?: InputRequired;
}

/** The three answers of policy, mildest first: verdicts combine to the strictest. */
export type Verdict =
  /** The call goes on. */
  | "allow"
  /** A person must say yes first. */
  | "allow_with_confirm"
  /** The call is refused. */
  | "deny";

/** What a model sees: unique in the gateway, and legal for every model API. */
export type WireName = string;
