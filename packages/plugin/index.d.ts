/** A value that JSON can write. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A plugin. Export it as `plugin`, or as the default export. */
export type PluginDefinition = {
  /** The name in its manifest. */
  name: string;
  /** The version in its manifest. */
  version: string;
  /** Returns the hooks. Called once, before the tools are offered. */
  register: RegisterFn;
  /** Called when tools and hooks have been accepted. */
  start?: StartFn;
  /** Called before the process ends. It has five seconds. */
  stop?: StopFn;
  /** The tools. They do not change while the plugin runs. */
  tools?: PluginTool[];
};

export type RegisterFn = (ctx: PluginContext) => Promise<PluginHooks> | PluginHooks;
export type StartFn = (ctx: PluginContext) => Promise<void> | void;
export type StopFn = (ctx: PluginContext) => Promise<void> | void;

/** A tool. Models see it as `PLUGIN__NAME`. */
export type PluginTool = {
  /** 1 to 64 of `A-Z a-z 0-9 _ -`. */
  name: string;
  /** What it does, for the model. */
  description: string;
  /** JSON Schema of its input, with `type: 'object'`. */
  schema: Record<string, unknown>;
  handler: PluginToolHandler;
};

/** Does the work of a tool. The input fits the schema. What it returns is the result that the model reads. */
export type PluginToolHandler = (
  ctx: PluginContext,
  input: Record<string, unknown>,
  meta: PluginToolMeta,
) => Promise<string> | string;

/** Where a call comes from, as the gateway knows it. */
export type PluginToolMeta = {
  /** The conversation in which the call is made. */
  threadId: string;
  /** The task that the caller works on. */
  taskId?: string;
  /** Aborted when the caller gives up. */
  signal: Signal;
};

/** `AbortSignal`, where the types of the DOM or of Node are known. */
type Signal = typeof globalThis extends { AbortSignal: { prototype: infer T } } ? T : { readonly aborted: boolean };

/** The hooks of a plugin. Its manifest must list them under `permissions.hooks`. */
export type PluginHooks = {
  /** A message came into a conversation. */
  onMessage?: (threadId: string, role: string, content: string) => Promise<void> | void;
  /** A model is about to be asked. What it returns replaces the prompt. */
  onBeforeInvoke?: (threadId: string, prompt: string) => MaybeAsync<string | void>;
  /** A model was asked. */
  onAfterInvoke?: (threadId: string, result: InvokeResult) => Promise<void> | void;
  /** A task was created. */
  onTaskCreate?: (threadId: string, taskId: string) => Promise<void> | void;
  /** The work on a task is done. A verdict that does not accept it has it tried again with the feedback. */
  onTaskComplete?: (threadId: string, taskId: string, result: string) => MaybeAsync<Verdict | void>;
  /** A task failed. */
  onTaskFailed?: (threadId: string, taskId: string, error: Error) => Promise<void> | void;
  /** A plugin announced something. */
  onBroadcast?: (event: string, data: unknown) => Promise<void> | void;
  /** A tool is about to be called. Its arguments may be changed; needs the permission `rewrite`. */
  rewriteCall?: (call: HookCall) => MaybeAsync<{ patch: Patch } | void>;
  /** A tool is about to be called, and the rules allow it. It may be refused, or need a person's yes. */
  beforeCall?: (call: HookCall) => MaybeAsync<{ refuse: string } | { confirm: string } | void>;
  /** A tool was called. The result may be withheld or, with the permission `rewrite`, changed. */
  afterCall?: (
    call: HookCall,
    result: CallResult,
  ) => MaybeAsync<{ patch: Patch } | { withhold: string } | void>;
};

type MaybeAsync<T> = Promise<T> | T;

/** What a reviewer says about the result of a task. */
export type Verdict = { accepted: boolean; feedback?: string };

/** A call, as hooks see it: exactly what the tool gets, secrets included. */
export type HookCall = {
  /** Its id in the audit log. */
  callId: string;
  /** The tool's id, `SOURCE:TOOL`. */
  tool: string;
  /** The tool's name, as models see it. */
  name: string;
  /** What is asked for: `call_tool`, or another operation of MCP such as `read_resource`. */
  operation: string;
  /** Who calls. */
  principal: string;
  /** The run, if the gateway runs the agent that calls. */
  runId?: string;
  /** The profile of that agent. */
  agent?: string;
  /** The conversation of that run. */
  threadId?: string;
  /** The task that the caller works on. */
  taskId?: string;
  arguments: Record<string, unknown>;
};

/** The result of a call, as hooks see it. */
export type CallResult = {
  content: Array<Record<string, unknown>>;
  structuredContent?: unknown;
  isError: boolean;
};

/** A JSON Patch of `add`, `replace` and `remove`: of the arguments in `rewriteCall`, of the result in `afterCall`. */
export type Patch = Array<
  | { op: 'add' | 'replace'; path: string; value: unknown }
  | { op: 'remove'; path: string }
>;

/** What a plugin may ask of the gateway. */
export type PluginContext = {
  invoker: Invoker;
  /** Puts a message into a conversation that the plugin was told of. */
  sendToThread: (threadId: string, message: string) => Promise<void>;
  /** Announces something to all plugins. */
  broadcast: (event: string, data?: unknown) => Promise<void>;
  logger: Logger;
  /** The operator's settings for the plugin. */
  config: Record<string, unknown>;
  tasks: Tasks;
  store: Store;
};

/** Has models work. Needs the permission `invoke`. */
export type Invoker = {
  invoke: (prompt: string, options?: InvokeOptions) => Promise<InvokeResult>;
};

export type InvokeOptions = {
  /** The model; the operator's default without. */
  model?: string;
  /** Milliseconds that it may take. */
  timeout?: number;
  /** The tools that it may use; none without. */
  allowedTools?: string[];
  /** JSON Schema of the answer: the output is JSON then. */
  schema?: Record<string, unknown>;
};

export type InvokeResult = {
  output: string;
  error?: string;
  durationMs: number;
  exitCode: number;
  inputTokens: number;
  outputTokens: number;
};

/** Writes to the gateway's log. */
export type Logger = Record<'debug' | 'info' | 'warn' | 'error', (message: unknown, ...more: unknown[]) => void>;

/** Work that is delegated. */
export type Tasks = {
  /** Creates a task, and returns at once. Needs the permission `invoke`. */
  delegate: (task: NewTask) => Promise<TaskView>;
  /** A task that this plugin, or a caller of its tools, created. */
  get: (taskId: string) => Promise<TaskView>;
  /** Tells the conversation from which a task was delegated how it gets on. `threadId` is the task's own. */
  checkIn: (threadId: string, message: string) => Promise<void>;
};

export type NewTask = {
  prompt: string;
  /** The conversation from which it is delegated, and which hears of its end. */
  parentThreadId: string;
  model?: string;
  /** How often it may be tried. */
  maxIterations?: number;
};

export type TaskView = {
  id: string;
  threadId: string;
  parentThreadId: string;
  prompt: string;
  state: 'working' | 'reviewing' | 'complete' | 'unreviewed' | 'rejected' | 'failed';
  iteration: number;
  maxIterations: number;
  result?: string;
  feedback?: string;
  /** What was said to the conversation that delegated it, where no agent of the gateway is there to hear it. */
  messages?: string[];
};

/** Values that outlive the process. */
export type Store = {
  get: (key: string) => Promise<Json | undefined>;
  set: (key: string, value: Json) => Promise<void>;
  delete: (key: string) => Promise<void>;
};

/**
 * Delegates a task. The gateway runs it, has it reviewed, tries it again with what the reviewers say, and tells
 * the conversation from which it was delegated how it ended. Returns as soon as the task exists. The hooks that
 * review it are those of all plugins; what is given here is not used.
 */
export declare function runDelegationLoop(
  ctx: PluginContext,
  hooks: unknown,
  options: NewTask,
): Promise<TaskView>;

/** Tells the conversation from which a task was delegated how it gets on. */
export declare function handleCheckin(
  ctx: PluginContext,
  threadId: string,
  message: string,
): Promise<void>;
