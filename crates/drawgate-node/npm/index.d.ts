import type {
  Approval,
  AuditEvent,
  Capability,
  ErrorCode,
  EventKind,
  GrantScope,
  McpManifest,
  SourceId,
  ToolAnnotations,
  ToolGatewaySnapshot,
  ToolInvocation,
  ToolRegistryEntry,
  ToolResult,
} from "./types.d.ts";

export type * from "./types.d.ts";
export type { ToolResult as MCPToolResult } from "./types.d.ts";

/** A tool gateway in this process. */
export declare class ToolGateway {
  /** Opens a gateway. Throws `GatewayError`, with `CONFLICT` where another gateway has the data folder. */
  constructor(options?: GatewayOptions);

  /**
   * Lists tools, which answer `UNAVAILABLE` until `registerServer` or `registerTools` is called with the same id, and holds
   * over what that server or those functions say: in whichever order the two come. Throws `GatewayError`; its `details` name
   * all faults.
   */
  registerManifest(manifest: McpManifest): void;

  /** Offers the tools of a server. Returns at once; `ready` waits until the server answers. */
  registerServer(config: McpServerConfig): void;

  /** Offers functions of this program as tools. */
  registerTools(serverId: SourceId, tools: JsTool[]): void;

  /** All tools, ordered by server, then name. */
  listTools(): ToolRegistryEntry[];

  /**
   * Calls a tool. A refusal or a failure is a result with `success: false`; the promise is rejected only where the
   * gateway is closed or the value is not an invocation.
   */
  callTool(invocation: ToolInvocation, options?: CallOptions): Promise<ToolResult>;

  /**
   * Issues a grant, and returns its id. With its `grantId` a grant that was issued before is given back, such as those of a
   * snapshot; one that is there already stays. Throws `GatewayError`; its `details` name all faults.
   */
  grantCapability(grant: CapabilityGrantInput): string;

  /** Revokes a grant: it covers no further call. */
  revokeCapability(grantId: string): void;

  /** Decides about a call that waits for a person, by the id of its approval. */
  decideApproval(id: string, approve: boolean): void;

  /**
   * Reads audit events after a sequence; without one, those after the last that this object has read. Nothing is
   * removed from the log. The limit is 1,000 if it is not given, and 10,000 at most.
   */
  drainAuditEvents(after?: number, limit?: number): ToolAuditEvent[];

  /** The bytes of an artifact, by the `uri` or the `sha256` that a result has of it. */
  readArtifact(uri: string): Buffer;

  /** Tools, live grants, and the sequence of the newest audit event. */
  getSnapshot(): ToolGatewaySnapshot;

  /**
   * Ends calls under way (`CANCELLED`), servers and tools, issued grants and open approvals. The audit log stays, and
   * says so.
   */
  reset(): void;

  /**
   * Waits until a server has told its tools, or all servers have. Rejected when one can't be used, or the time is over:
   * 30 seconds if it is not given.
   */
  ready(serverId?: SourceId, timeoutMs?: number): Promise<void>;

  /** Listens. Returns a function that ends it. A listener does not keep the process alive. */
  on<E extends keyof GatewayEvents>(event: E, listener: (event: GatewayEvents[E]) => void): () => void;

  /**
   * Refuses new calls, lets those under way end within the grace (5 seconds if it is not given), then ends everything.
   * May be called twice.
   */
  close(graceMs?: number): Promise<void>;
}

/** What a synchronous method throws. */
export declare class GatewayError extends Error {
  readonly name: "GatewayError";
  readonly code: ErrorCode | NativeErrorCode;
  /** More for programs, such as all faults of a manifest. */
  readonly details?: unknown;
}

/** There is no native library: it was switched off, or it can't be loaded. */
export type NativeErrorCode = "DRAWGATE_NATIVE_DISABLED" | "DRAWGATE_NATIVE_UNAVAILABLE";

/** The class, or `null` where there is no native library. There is no gateway in JavaScript to take its place. */
export declare function getNativeToolGateway(): { ToolGateway: typeof ToolGateway } | null;

/** Why `getNativeToolGateway` returned `null`, with every path that was tried. */
export declare function getNativeToolGatewayError(): GatewayError | null;

export interface GatewayOptions {
  /** The folder of grants, approvals, artifacts and the audit log. Absent: they are in memory. */
  dataDir?: string;
  /** The configuration, as TOML or as an object of the same shape; see `docs/configuration.md`. */
  config?: string | Record<string, unknown>;
  /** The name in whose right this object calls. Default: `embedded`. */
  principal?: string;
  /** The session in which it calls, for grants to `session:ID`. Default: none. */
  session?: string;
  /** Capabilities that it holds without grants. Default: none. */
  capabilities?: Capability[];
  /** The variables that `env:NAME` references mean, and programs inherit from. Default: a copy of `process.env`. */
  env?: Record<string, string | undefined>;
  /** The launcher of child processes. Default: `drawgate-launch` beside the native library. */
  helper?: string;
  /** Threads of the gateway, for all objects of the process: the first that is made decides. */
  threads?: number;
}

/** A server, as `[servers.NAME]` in the configuration describes it; its keys are in camel case here. */
export interface McpServerConfig {
  serverId: SourceId;
  /** What it is for. */
  name?: string;
  description?: string;
  /** Whether it is used. Default: yes. */
  enabled?: boolean;
  /** Default: `stdio` with `command`, `streamable_http` with `url`. `http` is another word for `streamable_http`. */
  transport?: "stdio" | "streamable_http" | "streamableHttp" | "http" | "sse" | "websocket";
  /** The program to start, for `stdio`. */
  command?: string;
  args?: string[];
  /** Its environment, beside a small safe set. Write secrets as `env:NAME`. */
  env?: Record<string, string>;
  /** The folder that it starts in, and may write. Default: one of its own. */
  workingDir?: string;
  /** What the program may touch. Default: `workspace`. */
  sandbox?: "strict" | "workspace" | "network" | "none";
  /** What the sandbox opens beside that. */
  permissions?: Record<string, unknown>;
  /** Its address, for all transports but `stdio`. */
  url?: string;
  /** Headers sent with each request. Write secrets as `env:NAME`. */
  headers?: Record<string, string>;
  /** How to log in at it. */
  auth?: Record<string, unknown>;
  /**
   * What it speaks: MCP, or one JSON call in and one JSON result out. Default: `call` with a manifest, unless only MCP has
   * the transport.
   */
  protocol?: "mcp" | "call";
  /** For `call` its tools; for `mcp` what holds over what it says about them. Default: that of `registerManifest`. */
  manifest?: McpManifest;
  /** What a caller needs for all of its tools. */
  capabilities?: Capability[];
  /** How models see its tools: `SERVER__TOOL`, or by their own names. */
  names?: "qualified" | "flat";
  /** What becomes of definitions that nobody has accepted. */
  trust?: "pin" | "follow" | "review";
  /** Seconds that a call may take. */
  timeoutSeconds?: number;
  /** Bytes and lines of output that are passed on whole. */
  maxOutputBytes?: number;
  maxOutputLines?: number;
  /** Most calls under way at a time. */
  concurrency?: number;
  /** Settings for single tools. */
  tools?: Record<string, Record<string, unknown>>;
}

export interface CallOptions {
  /** Told how far the tool is, where the tool says so. */
  onProgress?: (progress: Progress) => void;
  /** Ends the call with `CANCELLED`. */
  signal?: AbortSignal;
}

export interface Progress {
  progress: number;
  total?: number;
  message?: string;
}

export interface CapabilityGrantInput {
  /** The id of a grant that was issued before. Default: a new grant, with an id of its own. */
  grantId?: string;
  /** When that was, in milliseconds since the epoch. */
  issuedAt?: number;
  /** What it allows. */
  capability: Capability;
  /** Who may use it: `workspace`, `user:NAME` or `session:ID` of this gateway. Default: `workspace`. */
  scope?: GrantScope;
  /** When it ends by itself, in milliseconds since the epoch. */
  expiresAt?: number;
  /** The approval by a person that stands behind it; such a grant satisfies a confirmation. */
  approvalId?: string;
}

/** A function of this program as a tool. */
export interface JsTool<A = any> {
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  inputSchema: Record<string, unknown>;
  annotations?: ToolAnnotations;
  /** Does the work. The arguments fit the schema. */
  handler: (args: A, context: JsToolContext) => JsToolOutput | Promise<JsToolOutput>;
}

/**
 * A string becomes text, an object becomes structured output, and an object with `content` is the whole result.
 * A handler that throws fails the call with the error's message.
 */
export type JsToolOutput = string | object | void;

export interface JsToolContext {
  /** The call's id in the audit log. */
  callId: string;
  /** Aborted when the time is over or the call is cancelled. The handler itself can't be stopped. */
  signal: AbortSignal;
  /** When the call is answered with `TIMEOUT`, in milliseconds since the epoch. */
  deadline: number;
  /** Says how far the work is. */
  progress: (progress: number, total?: number, message?: string) => void;
}

/** What can be listened to. */
export interface GatewayEvents {
  /** An event was written to the audit log. */
  audit: ToolAuditEvent;
  /** The list of tools has changed. */
  tools: ToolsChanged;
  /** A call waits for a person. */
  approval: Approval;
  /** Events were lost, because this thread was too busy to take them. */
  lagged: Lagged;
}

/** An event of the audit log. */
export type ToolAuditEvent = OutcomeEvent | (AuditEvent & { kind: Exclude<EventKind, "outcome"> });

/** The end of a call: exactly one for each. `inputHash` is absent where a call was refused before it was read. */
export type OutcomeEvent = AuditEvent & { kind: "outcome" } & Required<
    Pick<
      AuditEvent,
      "toolId" | "requestId" | "callId" | "principal" | "grantIds" | "outputHash" | "success" | "durationMs"
    >
  >;

export interface ToolsChanged {
  /** Counts the changes of the list. */
  revision: number;
}

export interface Lagged {
  /** The sequence to give to `drainAuditEvents` to read what was missed. */
  after: number;
}
