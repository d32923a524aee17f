// A small MCP server for what the public ones cannot show: that a cancellation arrives, that the
// tool list changes on request, and that an output is as large as asked for.

import { appendFileSync } from "node:fs";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const object = (properties) => ({ type: "object", properties, required: Object.keys(properties) });
const tools = [
  { name: "wait", description: "Waits until cancelled and notes it in a file.", inputSchema: object({ log: { type: "string" } }) },
  { name: "grow", description: "Adds a tool to the list.", inputSchema: object({ name: { type: "string" } }) },
  { name: "flood", description: "Returns text of a given length.", inputSchema: object({ bytes: { type: "integer" } }) },
];

const text = (value) => ({ content: [{ type: "text", text: value }] });
const line = "The quick brown fox jumps over the lazy dog.\n";

const handlers = {
  flood: ({ bytes }) => text(line.repeat(Math.ceil(bytes / line.length)).slice(0, bytes)),
  async grow({ name }) {
    tools.push({ name, description: "Added while running.", inputSchema: object({}) });
    await server.sendToolListChanged();
    return text(`added ${name}`);
  },
  async wait({ log }, extra) {
    appendFileSync(log, "started\n");
    const progressToken = extra._meta?.progressToken;
    if (progressToken !== undefined) {
      await extra.sendNotification({
        method: "notifications/progress",
        params: { progressToken, progress: 1, message: "waiting" },
      });
    }
    await new Promise((resolve) => extra.signal.addEventListener("abort", resolve));
    appendFileSync(log, "cancelled\n");
    return text("cancelled");
  },
};

const server = new Server(
  { name: "probe", version: "1.0.0" },
  { capabilities: { tools: { listChanged: true } } },
);
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) => {
  const handler = handlers[params.name] ?? (() => text(`called ${params.name}`));
  return handler(params.arguments ?? {}, extra);
});
await server.connect(new StdioServerTransport());
