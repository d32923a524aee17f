// Serves recorded lists of tools over HTTP, each under the name of its file. A call is answered with what
// was called.

import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { clients } from "./paths.mjs";
import { sample } from "./sample.mjs";

const folder = join(clients, "recorded");

/** All recordings: which server it was, and what it listed. */
export const recordings = readdirSync(folder).sort().map((file) => {
  return { file, ...JSON.parse(readFileSync(join(folder, file), "utf8")) };
});

function serverOf({ tools }) {
  const server = new Server({ name: "replay", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const { name, arguments: args } = params;
    const schema = tools.find((tool) => tool.name === name)?.outputSchema;
    return {
      content: [{ type: "text", text: JSON.stringify({ name, args }) }],
      ...(schema && { structuredContent: sample(schema) }),
    };
  });
  return server;
}

/** Starts it; `address` is where a recording is served. */
export async function startReplay() {
  const http = createServer(async (request, response) => {
    const recording = recordings.find(({ file }) => request.url === `/${file}`);
    if (!recording || request.method !== "POST") return response.writeHead(405).end();
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on("close", () => transport.close());
    await serverOf(recording).connect(transport);
    await transport.handleRequest(request, response);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const address = ({ file }) => `http://127.0.0.1:${http.address().port}/${file}`;
  const stop = () => {
    http.closeAllConnections();
    return new Promise((resolve) => http.close(resolve));
  };
  return { address, stop };
}
