// An MCP server of 2025-11-25 (handshake, sessions, resumable streams) made with the official SDK,
// with all that the suite's server scenarios call.
//
//   node server2025.mjs --http PORT     http://127.0.0.1:PORT/mcp
//   node server2025.mjs --stdio

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import * as types from "@modelcontextprotocol/sdk/types.js";
import { randomUUID } from "node:crypto";
import {
  commonPrompts, complete, definitions, promptList, readResource, resources, resourceTemplates, text,
} from "./fixtures.mjs";
import { listen, sendJson } from "./http.mjs";
import { pairPrompts, pairTools } from "./pairs.mjs";
import { LEVELS, tools as ownTools } from "./tools2025.mjs";

const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  logging: {},
  completions: {},
};

const tools = { ...ownTools, ...pairTools };
const prompts = { ...commonPrompts, ...pairPrompts };

/** The clients that are connected. */
const peers = new Set();

async function tell(wanted, method, params = {}) {
  const told = [...peers].filter(wanted).map(({ server }) => server.notification({ method, params }));
  await Promise.allSettled(told);
}

const watches = (uri) => ({ state }) => state.subscriptions.has(uri);

/** What a tool or prompt can do while it runs. */
function contextOf(params, extra, state) {
  const progressToken = params._meta?.progressToken;
  const notify = (method, params) => extra.sendNotification({ method, params });
  const request = (method, params, schema) => extra.sendRequest({ method, params }, schema);
  return {
    state,
    progressToken,
    notify,
    request,
    closeStream: extra.closeSSEStream,
    signal: extra.signal,
    lists: { tools, prompts, resources },
    ask: (_key, { method, params }) => request(method, params, types.ResultSchema),
    async log(level, data) {
      const wanted = LEVELS.indexOf(level) >= LEVELS.indexOf(state.level);
      if (wanted) await notify("notifications/message", { level, logger: "pairs", data });
    },
    async report(progress, total) {
      if (progressToken === undefined) return;
      await notify("notifications/progress", { progressToken, progress, total });
    },
    updated: (uri) => tell(watches(uri), "notifications/resources/updated", { uri }),
    changed: (kind) => tell(() => true, `notifications/${kind}/list_changed`),
    watchers: (uri) => [...peers].filter(watches(uri)).length,
  };
}

const invalid = (message) => new types.McpError(types.ErrorCode.InvalidParams, message);

async function callTool({ params }, extra, state) {
  const tool = tools[params.name];
  if (!tool) throw invalid(`Unknown tool: ${params.name}`);
  try {
    return await tool.run(params.arguments ?? {}, contextOf(params, extra, state));
  } catch (error) {
    return text(error.message, { isError: true });
  }
}

async function getPrompt({ params }, extra, state) {
  const prompt = prompts[params.name];
  if (!prompt) throw invalid(`Unknown prompt: ${params.name}`);
  return { messages: await prompt.render(params.arguments ?? {}, contextOf(params, extra, state)) };
}

function read({ params }) {
  const contents = readResource(params.uri);
  if (!contents) throw new types.McpError(-32002, "Resource not found", { uri: params.uri });
  return { contents };
}

/** A server for one client. */
function build() {
  const info = { name: "conformance-upstream-2025", version: "1.0.0" };
  const server = new Server(info, { capabilities: CAPABILITIES });
  const state = { level: "debug", subscriptions: new Set() };
  const peer = { server, state };
  peers.add(peer);
  server.onclose = () => peers.delete(peer);
  const on = (schema, handler) => server.setRequestHandler(schema, handler);
  on(types.ListToolsRequestSchema, () => ({ tools: definitions(tools) }));
  on(types.CallToolRequestSchema, (request, extra) => callTool(request, extra, state));
  on(types.ListPromptsRequestSchema, () => ({ prompts: promptList(prompts) }));
  on(types.GetPromptRequestSchema, (request, extra) => getPrompt(request, extra, state));
  on(types.ListResourcesRequestSchema, () => ({ resources }));
  on(types.ListResourceTemplatesRequestSchema, () => ({ resourceTemplates }));
  on(types.ReadResourceRequestSchema, read);
  on(types.CompleteRequestSchema, ({ params }) => complete(params));
  on(types.SubscribeRequestSchema, ({ params }) => {
    state.subscriptions.add(params.uri);
    return {};
  });
  on(types.UnsubscribeRequestSchema, ({ params }) => {
    state.subscriptions.delete(params.uri);
    return {};
  });
  on(types.SetLevelRequestSchema, ({ params }) => {
    state.level = params.level;
    return {};
  });
  return server;
}

/** Keeps what was sent, so that a client can resume a stream after the last event it saw. */
class EventStore {
  events = [];

  async storeEvent(streamId, message) {
    const id = `${streamId}_${this.events.length + 1}`;
    this.events.push({ id, streamId, message });
    return id;
  }

  async getStreamIdForEventId(id) {
    return this.events.find((event) => event.id === id)?.streamId;
  }

  async replayEventsAfter(lastId, { send }) {
    const last = this.events.findIndex((event) => event.id === lastId);
    if (last < 0) return "";
    const { streamId } = this.events[last];
    for (const { id, streamId: of, message } of this.events.slice(last + 1)) {
      const priming = Object.keys(message ?? {}).length === 0;
      if (of === streamId && !priming) await send(id, message);
    }
    return streamId;
  }
}

const sessions = new Map();

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new EventStore(),
    retryInterval: 500,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await build().connect(transport);
  return transport;
}

async function serve(request, response, body) {
  const id = request.headers["mcp-session-id"];
  const refuse = (status, code, message) =>
    sendJson(response, status, { jsonrpc: "2.0", id: null, error: { code, message } });
  if (id !== undefined && !sessions.has(id)) return refuse(404, -32001, "Session not found");
  if (id === undefined && !types.isInitializeRequest(body)) return refuse(400, -32000, "No session");
  const transport = sessions.get(id) ?? (await open());
  return transport.handleRequest(request, response, body);
}

if (process.argv.includes("--stdio")) {
  await build().connect(new StdioServerTransport());
} else {
  listen(serve);
}
