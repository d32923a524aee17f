// Registers a server and a function as tools, calls both, and prints what the audit log says about it.

import { ToolGateway } from "@drawgate/gateway";

const gateway = new ToolGateway({ capabilities: ["demo"] });

gateway.registerServer({
  serverId: "clock",
  transport: "stdio",
  command: "/bin/sh",
  args: ["-c", `cat > /dev/null; printf '{"success":true,"content":[{"type":"text","text":"%s"}]}' "$(date +%Y)"`],
  capabilities: ["demo"],
  manifest: {
    serverId: "clock",
    name: "Clock",
    version: "1.0.0",
    tools: [{ name: "year", description: "Tells the year.", inputSchema: { type: "object" } }],
  },
});

gateway.registerTools("greeter", [
  {
    name: "greet",
    description: "Greets somebody by name.",
    inputSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    annotations: { requiredScopes: ["demo"] },
    handler: ({ name }: { name: string }) => `Hello, ${name}!`,
  },
]);

await gateway.ready();
const year = await gateway.callTool({ toolId: "clock:year", requestId: "1" });
const greeting = await gateway.callTool({ toolId: "greeter:greet", requestId: "2", arguments: { name: "Ada" } });
for (const { content, error } of [year, greeting]) console.log(error?.message ?? content[0]?.text);

for (const event of gateway.drainAuditEvents()) {
  if (event.kind === "outcome") console.log(event.sequence, event.toolId, event.success, event.inputHash);
}
await gateway.close();
