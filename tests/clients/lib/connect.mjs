// The official TypeScript client, over each transport, with answers taken as they came: the loose
// result schema keeps fields that the client's own types do not know.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResultSchema } from "@modelcontextprotocol/sdk/types.js";

async function connect(transport, capabilities = {}) {
  const info = { name: "drawgate-client-tests", version: "1.0.0" };
  const client = new Client(info, { capabilities });
  await client.connect(transport);
  return client;
}

/** A client of an HTTP endpoint. */
export function overHttp(url, token) {
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  return connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
}

/** A client of a child process, perhaps with capabilities. */
export function overStdio(command, args, capabilities) {
  return connect(new StdioClientTransport({ command, args, stderr: "ignore" }), capabilities);
}

/** All tool definitions, page by page. */
export async function listTools(client) {
  const tools = [];
  let cursor;
  do {
    const page = await client.request({ method: "tools/list", params: { cursor } }, ResultSchema);
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return tools;
}

/** The names in a list of tools, in order of the alphabet. */
export const names = (tools) => tools.map((tool) => tool.name).sort();

/** One call, its result as it came. */
export function call(client, name, args = {}, options = undefined) {
  const params = { name, arguments: args };
  return client.request({ method: "tools/call", params }, ResultSchema, options);
}
