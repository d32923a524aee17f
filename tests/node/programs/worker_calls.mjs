// A worker with a gateway of its own. It tells when half of its calls are answered, and goes on.

import { parentPort, workerData } from "node:worker_threads";
import { ToolGateway } from "./lib.mjs";

const gateway = new ToolGateway({ capabilities: ["*"] });
gateway.on("audit", () => {});
gateway.registerTools("js", [
  { name: "echo", description: "Echoes.", inputSchema: { type: "object" }, handler: async (given) => given },
]);
let answered = 0;
async function work(lane) {
  for (let n = lane; n < workerData.calls; n += 4) {
    const result = await gateway.callTool({ toolId: "js:echo", requestId: `${n}`, arguments: { n } });
    if (result.structuredContent?.n !== n) throw new Error(JSON.stringify(result));
    if (++answered === workerData.half) parentPort.postMessage(answered);
  }
}
await Promise.all([0, 1, 2, 3].map(work));
