// A client of Drawgate in the era of the scenario, with the same few methods for both eras.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, ResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { StatelessClient } from "./stateless.mjs";

/** Accepts every form as it is, so that its defaults hold. */
const CAPABILITIES = { elicitation: { form: { applyDefaults: true } } };

async function stateful(url, token) {
  const info = { name: "drawgate-conformance", version: "1.0.0" };
  const client = new Client(info, { capabilities: CAPABILITIES });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: {} }));
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const request = (method, params = {}) => client.request({ method, params }, ResultSchema);
  return {
    request,
    listTools: async () => (await request("tools/list")).tools,
    callTool: (name, args = {}) => request("tools/call", { name, arguments: args }),
  };
}

/** Connects to a gateway with a revision of the protocol. */
export function connect(revision, { url, token }) {
  return revision === "2025-11-25" ? stateful(url, token) : new StatelessClient(url, token);
}
