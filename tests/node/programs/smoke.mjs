// The package as a program has installed it: a function and a sandboxed program as tools.

import { ToolGateway } from "@drawgate/gateway";

const gateway = new ToolGateway({ capabilities: ["*"] });
const spec = (name) => ({ name, description: name, inputSchema: { type: "object" } });
gateway.registerTools("js", [{ ...spec("say"), handler: () => "from JavaScript" }]);
gateway.registerServer({
  serverId: "shell",
  transport: "stdio",
  command: "/bin/sh",
  args: ["-c", `cat > /dev/null; echo '{"success":true,"content":[{"type":"text","text":"from a program"}]}'`],
  manifest: { serverId: "shell", name: "shell", version: "1.0.0", tools: [spec("say")] },
});
await gateway.ready();
const [js, shell] = await Promise.all(
  ["js:say", "shell:say"].map((toolId) => gateway.callTool({ toolId, requestId: toolId })),
);
console.log(JSON.stringify({ js: js.content[0]?.text, shell: shell.content[0]?.text, sandboxed: shell.meta.sandboxed }));
await gateway.close();
