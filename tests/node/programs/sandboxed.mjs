// Registers the server that it is given, calls its tool `run` once and says what came back.

import { ToolGateway, args, say } from "./lib.mjs";

const gateway = new ToolGateway({ capabilities: ["*"] });
gateway.registerServer(args.server);
await gateway.ready(args.server.serverId).catch(() => {});
const toolId = `${args.server.serverId}:run`;
say({ result: await gateway.callTool({ toolId, requestId: "r", arguments: { command: "echo fine" } }) });
await gateway.close();
