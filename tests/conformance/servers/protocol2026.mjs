// The rules of 2026-07-28 that hold for every request: what `_meta` must say, which headers must
// repeat the body, and state that a client carries for the server and must not change.

import { createHmac, randomBytes } from "node:crypto";

export const VERSION = "2026-07-28";
export const PREFIX = "io.modelcontextprotocol/";
export const TASKS = `${PREFIX}tasks`;

/** An error that becomes a JSON-RPC error with this code, under this HTTP status. */
export function failure(code, message, { data, status = 400 } = {}) {
  return Object.assign(new Error(message), { code, data, status });
}

export const invalid = (message) => failure(-32602, message);

/** The error for a client that lacks what a tool needs of it. */
export const lacking = (requiredCapabilities) =>
  failure(-32021, "Missing required client capability", { data: { requiredCapabilities } });

// --- state that the client carries ---

const KEY = randomBytes(32);
const mac = (body) => createHmac("sha256", KEY).update(body).digest("base64url");

/** A text that holds `value` and can't be changed unnoticed. */
export function seal(value) {
  const body = Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${body}.${mac(body)}`;
}

/** What `seal` was given; throws when the text was changed. */
export function unseal(state) {
  const [body, tag] = String(state).split(".");
  if (tag !== mac(body)) throw invalid("requestState failed its integrity check");
  return JSON.parse(Buffer.from(body, "base64url").toString());
}

// --- what every request must carry ---

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A header's value; `=?base64?…?=` stands for text that a header can't hold. */
function decoded(value) {
  const wrapped = /^=\?base64\?(.*)\?=$/.exec(value ?? "")?.[1];
  if (wrapped === undefined) return value;
  if (!BASE64.test(wrapped)) throw failure(-32020, "HeaderMismatch: not Base64");
  return Buffer.from(wrapped, "base64").toString();
}

/** The field of the body that `Mcp-Name` repeats. */
const NAMED_BY = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

function* expectedHeaders({ method, params }, version, tools) {
  yield ["MCP-Protocol-Version", version];
  yield ["Mcp-Method", method];
  if (method in NAMED_BY) yield ["Mcp-Name", params[NAMED_BY[method]]];
  if (method !== "tools/call") return;
  for (const [key, schema] of Object.entries(tools[params.name]?.inputSchema.properties ?? {})) {
    const value = params.arguments?.[key] ?? undefined;
    const header = schema["x-mcp-header"];
    if (header) yield [`Mcp-Param-${header}`, value === undefined ? undefined : String(value)];
  }
}

function checkHeaders(message, headers, version, tools) {
  for (const [header, expected] of expectedHeaders(message, version, tools)) {
    const actual = decoded(headers[header.toLowerCase()]?.trim());
    if (actual !== expected) throw failure(-32020, `HeaderMismatch: ${header}`);
  }
}

/** Checks a request and returns what its handler needs to know. No headers over stdio. */
export function check(message, headers, tools) {
  const { params } = message;
  const meta = params?._meta;
  const version = meta?.[`${PREFIX}protocolVersion`];
  const capabilities = meta?.[`${PREFIX}clientCapabilities`];
  if (typeof version !== "string") throw invalid(`missing ${PREFIX}protocolVersion in _meta`);
  if (typeof capabilities !== "object" || capabilities === null) {
    throw invalid(`missing ${PREFIX}clientCapabilities in _meta`);
  }
  if (headers) checkHeaders(message, headers, version, tools);
  if (version !== VERSION) {
    const data = { supported: [VERSION], requested: version };
    throw failure(-32022, "Unsupported protocol version", { data });
  }
  return {
    capabilities,
    logLevel: meta[`${PREFIX}logLevel`],
    progressToken: meta.progressToken,
    inputs: params.inputResponses,
    state: params.requestState,
  };
}
