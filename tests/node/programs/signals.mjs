// Has a handler for SIGTERM, and none for SIGINT.

import { ToolGateway, say } from "./lib.mjs";

process.on("SIGTERM", (signal) => say({ signal }));
const gateway = new ToolGateway({ capabilities: ["*"] });
gateway.registerTools("js", [{ name: "a", description: "a", inputSchema: { type: "object" }, handler: () => "a" }]);
await gateway.callTool({ toolId: "js:a", requestId: "r" });
setInterval(() => {}, 1000);
say({ ready: true });
