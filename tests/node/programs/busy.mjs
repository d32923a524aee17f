// Calls a tool without end, eight at a time, and says how many calls were answered.

import { ToolGateway, args, say } from "./lib.mjs";

const gateway = new ToolGateway({ dataDir: args.dataDir, capabilities: ["*"] });
gateway.registerTools("js", [
  { name: "echo", description: "Echoes.", inputSchema: { type: "object" }, handler: async (given) => given },
]);
let answered = 0;
async function work(worker) {
  for (let n = 0; ; n++) {
    await gateway.callTool({ toolId: "js:echo", requestId: `${worker}-${n}`, arguments: { n } });
    say({ answered: ++answered });
  }
}
await Promise.all(Array.from({ length: 8 }, (_, worker) => work(worker)));
