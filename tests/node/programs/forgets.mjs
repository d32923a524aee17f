// Calls a server, and ends in one of several ways without closing the gateway.

import { text as read } from "node:stream/consumers";
import { ToolGateway, say } from "./lib.mjs";

const { server, ending } = JSON.parse(await read(process.stdin));
const gateway = new ToolGateway({ capabilities: ["*"] });
gateway.registerServer(server);
await gateway.ready(server.serverId);
const call = { toolId: `${server.serverId}:echo`, requestId: "r", arguments: { message: "hello" } };
const result = await gateway.callTool(call);
say({ text: result.content[0]?.text ?? result.error });
switch (ending) {
  case "stay":
    setInterval(() => {}, 1000);
    break;
  case "exit":
    process.exit(7);
    break;
  case "throw":
    throw new Error("the program failed");
  case "hang": {
    // It exits while the call is under way.
    const handler = () => new Promise(() => setImmediate(process.exit, 0));
    gateway.registerTools("js", [{ name: "hang", description: "Hangs.", inputSchema: { type: "object" }, handler }]);
    gateway.callTool({ toolId: "js:hang", requestId: "r" });
    break;
  }
}
