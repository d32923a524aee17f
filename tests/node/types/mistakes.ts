// Uses that the compiler must reject. It complains about an expected error that is not there.

import { ToolGateway } from "@drawgate/gateway";

export async function mistakes(gate: ToolGateway): Promise<void> {
  // @ts-expect-error: an option that there is not
  new ToolGateway({ dataDirectory: "data" });
  // @ts-expect-error: a manifest without tools
  gate.registerManifest({ serverId: "a", name: "a", version: "1" });
  // @ts-expect-error: a tool without a schema
  gate.registerManifest({ serverId: "a", name: "a", version: "1", tools: [{ name: "t", description: "t" }] });
  // @ts-expect-error: a transport that there is not
  gate.registerServer({ serverId: "a", transport: "carrier_pigeon" });
  // @ts-expect-error: a category that there is not
  gate.registerTools("a", [{ name: "t", description: "t", inputSchema: {}, annotations: { category: "fun" }, handler: () => "" }]);
  // @ts-expect-error: a tool without a function
  gate.registerTools("a", [{ name: "t", description: "t", inputSchema: {} }]);
  // @ts-expect-error: a handler that returns a number
  gate.registerTools("a", [{ name: "t", description: "t", inputSchema: {}, handler: () => 7 }]);
  // @ts-expect-error: a call without a request id
  await gate.callTool({ toolId: "a:t" });
  // @ts-expect-error: a call with a misspelt key
  await gate.callTool({ toolId: "a:t", requestId: "1", argument: {} });
  // @ts-expect-error: the result is a promise
  gate.callTool({ toolId: "a:t", requestId: "1" }).success;
  // @ts-expect-error: a code that there is not
  if ((await gate.callTool({ toolId: "a:t", requestId: "1" })).error?.code === "DENIED") return;
  // @ts-expect-error: a grant without a capability
  gate.grantCapability({ scope: "workspace" });
  // @ts-expect-error: a cursor that is text
  gate.drainAuditEvents("1");
  // @ts-expect-error: an event that there is not
  gate.on("calls", () => {});
  // @ts-expect-error: a field that only outcomes are sure to have
  gate.drainAuditEvents().map((event) => event.outputHash.length);
  // @ts-expect-error: an approval is decided by yes or no
  gate.decideApproval("id", "yes");
}
