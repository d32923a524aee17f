// An MCP server of 2026-07-28 (stateless: `server/discover`, `_meta` and headers on every request,
// `input_required`, `subscriptions/listen`, tasks), without an SDK, with all that the suite's server
// scenarios call.
//
//   node server2026.mjs --http PORT     http://127.0.0.1:PORT/mcp
//   node server2026.mjs --stdio

import { createInterface } from "node:readline";
import {
  commonPrompts, commonTools, complete, definitions, NO_ARGUMENTS, promptList, readResource,
  resources, resourceTemplates, text,
} from "./fixtures.mjs";
import { listen, sendJson } from "./http.mjs";
import { asking, inputPrompts, inputTools } from "./input2026.mjs";
import { pairPrompts, pairTools } from "./pairs.mjs";
import { check, failure, invalid, PREFIX, TASKS, VERSION } from "./protocol2026.mjs";
import { taskMethods, taskTools } from "./tasks2026.mjs";

const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
  extensions: { [TASKS]: {} },
};
const SERVER_INFO = { name: "conformance-upstream-2026", version: "1.0.0" };
const CACHE = { ttlMs: 60_000, cacheScope: "public" };

const LEVELS = [
  "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
];

const listeners = new Set();

function changed(kind) {
  for (const listener of listeners) listener.changed(kind);
}

/** What a tool or prompt can do while it runs. */
function contextOf(known, send, signal) {
  const { logLevel, progressToken } = known;
  const notify = (method, params) => send({ jsonrpc: "2.0", method, params });
  return {
    ...known,
    notify,
    signal,
    lists: { tools, prompts, resources },
    ask: asking(known),
    log(level, data) {
      const wanted = logLevel && LEVELS.indexOf(level) >= LEVELS.indexOf(logLevel);
      if (wanted) notify("notifications/message", { level, logger: "pairs", data });
    },
    report(progress, total) {
      if (progressToken === undefined) return;
      notify("notifications/progress", { progressToken, progress, total });
    },
    updated(uri) {
      for (const listener of listeners) listener.updated(uri);
    },
    changed,
    watchers: (uri) => [...listeners].filter((listener) => listener.watches(uri)).length,
  };
}

/** A tool that adds an entry to a list, or takes it away again, and tells all listeners. */
const trigger = (kind, list, name, entry) => ({
  inputSchema: NO_ARGUMENTS,
  run() {
    if (name in list()) delete list()[name];
    else list()[name] = entry;
    changed(kind);
    return text(`${kind} changed`);
  },
});

const tools = {
  ...commonTools,
  ...inputTools,
  ...taskTools,
  ...pairTools,
  test_logging_tool: {
    inputSchema: NO_ARGUMENTS,
    run(_args, { logLevel, notify }) {
      const params = { level: "info", logger: "conformance", data: "hello" };
      if (logLevel) notify("notifications/message", params);
      return text("logged");
    },
  },
  test_custom_header: {
    inputSchema: {
      type: "object",
      properties: { value: { type: "string", "x-mcp-header": "Value" } },
    },
    run: ({ value = "" }) => text(`value=${value}`),
  },
  test_trigger_tool_change: trigger(
    "tools", () => tools, "test_added_tool", commonTools.test_simple_text,
  ),
  test_trigger_prompt_change: trigger(
    "prompts", () => prompts, "test_added_prompt", commonPrompts.test_simple_prompt,
  ),
};
const prompts = { ...commonPrompts, ...inputPrompts, ...pairPrompts };

const METHODS = {
  "server/discover": () => ({
    supportedVersions: [VERSION],
    capabilities: CAPABILITIES,
    instructions: "conformance upstream",
    ...CACHE,
  }),
  "tools/list": () => ({ tools: definitions(tools), ...CACHE }),
  "tools/call"(params, context) {
    const tool = tools[params.name];
    if (!tool) throw invalid(`Unknown tool: ${params.name}`);
    return tool.run(params.arguments ?? {}, context);
  },
  "prompts/list": () => ({ prompts: promptList(prompts), ...CACHE }),
  async "prompts/get"(params, context) {
    const prompt = prompts[params.name];
    if (!prompt) throw invalid(`Unknown prompt: ${params.name}`);
    const rendered = await prompt.render(params.arguments ?? {}, context);
    return Array.isArray(rendered) ? { messages: rendered } : rendered;
  },
  "resources/list": () => ({ resources, ...CACHE }),
  "resources/templates/list": () => ({ resourceTemplates, ...CACHE }),
  "resources/read"({ uri }) {
    const contents = readResource(uri);
    if (!contents) throw failure(-32602, "Resource not found", { data: { uri }, status: 200 });
    return { contents, ...CACHE };
  },
  "completion/complete": complete,
  ...taskMethods,
};

const errorAnswer = (id, { code = -32603, message, data }) => ({
  jsonrpc: "2.0",
  id: id ?? null,
  error: { code, message, ...(data !== undefined && { data }) },
});

/** Reports changes to a client until `onClose` says that it has gone. */
function subscribe({ id, params }, send, onClose) {
  const wanted = params.notifications ?? {};
  const _meta = { [`${PREFIX}subscriptionId`]: id };
  const notify = (method, more = {}) => send({ jsonrpc: "2.0", method, params: { _meta, ...more } });
  const watches = (uri) => wanted.resourceSubscriptions?.includes(uri) ?? false;
  const listener = {
    watches,
    changed(kind) {
      if (wanted[`${kind}ListChanged`]) notify(`notifications/${kind}/list_changed`);
    },
    updated(uri) {
      if (watches(uri)) notify("notifications/resources/updated", { uri });
    },
  };
  notify("notifications/subscriptions/acknowledged", { notifications: wanted });
  listeners.add(listener);
  onClose(() => listeners.delete(listener));
}

/** A result, also where the work can't go on without input. */
async function answerOf(work) {
  try {
    return await work();
  } catch (error) {
    if (error.question) return error.question;
    throw error;
  }
}

/** The answer to a request, after its notifications went to `send`; none for a subscription. */
async function handle(message, headers, send, onClose) {
  const { id, method, params } = message;
  const known = check(message, headers, tools);
  if (method === "subscriptions/listen") return subscribe(message, send, onClose);
  if (!Object.hasOwn(METHODS, method)) {
    throw failure(-32601, `Method not found: ${method}`, { status: 404 });
  }
  const gone = new AbortController();
  onClose(() => gone.abort());
  const result = await answerOf(() => METHODS[method](params, contextOf(known, send, gone.signal)));
  const _meta = { ...result._meta, [`${PREFIX}serverInfo`]: SERVER_INFO };
  return { jsonrpc: "2.0", id, result: { resultType: "complete", ...result, _meta } };
}

async function serveHttp(request, response, message) {
  if (request.method !== "POST") return response.writeHead(405, { allow: "POST" }).end();
  if (message.id === undefined) return response.writeHead(202).end();
  const send = (event) => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify(event)}\n\n`);
  };
  const finish = (status, answer) => {
    if (!response.headersSent) return sendJson(response, status, answer);
    send(answer);
    return response.end();
  };
  try {
    const onClose = (gone) => response.on("close", gone);
    const answer = await handle(message, request.headers, send, onClose);
    return answer && finish(200, answer);
  } catch (error) {
    return finish(error.status ?? 500, errorAnswer(message.id, error));
  }
}

async function serveLine(line) {
  const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  try {
    const answer = await handle(message, undefined, send, () => {});
    if (answer) send(answer);
  } catch (error) {
    send(errorAnswer(message.id, error));
  }
}

if (process.argv.includes("--stdio")) {
  const lines = createInterface({ input: process.stdin });
  lines.on("line", serveLine).on("close", () => process.exit(0));
} else {
  listen(serveHttp);
}
