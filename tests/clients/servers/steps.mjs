// A server whose tool reports each of its steps, as fast as it can.

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "steps", version: "1.0.0" }, { capabilities: { logging: {} } });
const inputSchema = { count: z.number().int() };
server.registerTool("steps", { description: "reports its steps", inputSchema }, async ({ count }, extra) => {
  const { sendNotification, _meta } = extra;
  for (let progress = 1; progress <= count; progress += 1) {
    const params = { progressToken: _meta?.progressToken, progress, total: count };
    await sendNotification({ method: "notifications/progress", params });
    await sendNotification({ method: "notifications/message", params: { level: "info", data: progress } });
  }
  return { content: [{ type: "text", text: "done" }] };
});
await server.connect(new StdioServerTransport());
