// The official clients of both eras over HTTP, used as programs use them: their own `listTools` and
// `callTool`, which parse the list and validate results against output schemas.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import {
  StreamableHTTPClientTransport as TransportV1,
} from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { pythonOverHttp } from "./python.mjs";

const INFO = { name: "drawgate-client-tests", version: "1.0.0" };

async function converse(client, transport, calls) {
  await client.connect(transport);
  try {
    const { tools } = await client.listTools();
    const results = [];
    for (const [name, args] of calls) {
      results.push(await client.callTool({ name, arguments: args }));
    }
    return { tools, results };
  } finally {
    await client.close();
  }
}

const headersOf = (token) => ({ requestInit: { headers: { authorization: `Bearer ${token}` } } });

const typescript2 = (mode) => (url, token) => [
  new Client(INFO, { versionNegotiation: { mode } }),
  new StreamableHTTPClientTransport(new URL(url), headersOf(token)),
];

/** Each gives a client and its transport, which are not connected yet. */
export const TYPESCRIPT = {
  "TypeScript v1": (url, token) =>
    [new ClientV1(INFO), new TransportV1(new URL(url), headersOf(token))],
  "TypeScript v2 (2025-11-25)": typescript2("legacy"),
  "TypeScript v2 (2026-07-28)": typescript2({ pin: "2026-07-28" }),
};

/** Each lists the tools, makes the calls and returns `{ tools, results }`; it rejects where its client does. */
export const OFFICIAL = {
  ...Object.fromEntries(Object.entries(TYPESCRIPT).map(([name, make]) =>
    [name, (url, token, calls) => converse(...make(url, token), calls)])),
  "Python (2025-11-25)": (...where) => pythonOverHttp("legacy", ...where),
  "Python (2026-07-28)": (...where) => pythonOverHttp("auto", ...where),
};

/** The clients of the revisions with sessions. */
export const isOlder = (client) => !client.includes("2026");
