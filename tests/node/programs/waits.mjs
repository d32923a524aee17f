// Waits for nothing but a call of its gateway, whose tool takes a moment without a timer that keeps the process alive.

import { ToolGateway, say } from "./lib.mjs";

const gateway = new ToolGateway({ capabilities: ["*"] });
gateway.on("audit", () => {});
gateway.registerServer({
  serverId: "shell",
  transport: "stdio",
  command: "/usr/bin/python3",
  args: ["-c", "import json, sys, time\njson.load(sys.stdin)\ntime.sleep(0.5)\nprint(json.dumps({'success': True, 'content': [{'type': 'text', 'text': 'after a while'}]}))"],
  manifest: {
    serverId: "shell",
    name: "shell",
    version: "1.0.0",
    tools: [{ name: "slow", description: "Takes a moment.", inputSchema: { type: "object" } }],
  },
});
gateway.callTool({ toolId: "shell:slow", requestId: "r" }).then((result) => say({ text: result.content[0]?.text ?? result.error }));
