// Uses that the compiler must accept.

import gateway, { GatewayError, ToolGateway, getNativeToolGateway, getNativeToolGatewayError } from "@drawgate/gateway";
import { getNativeToolGateway as sameFunction } from "@drawgate/gateway/node";
import type {
  CapabilityGrant, GatewayOptions, JsTool, MCPToolResult, McpManifest, McpServerConfig, OutcomeEvent, ToolAuditEvent,
  ToolGatewaySnapshot, ToolInvocation, ToolRegistryEntry, ToolResult,
} from "@drawgate/gateway";

export const sameClass: typeof ToolGateway = gateway.ToolGateway;
export const options: GatewayOptions = { dataDir: "data", session: "s1", config: { limits: { timeout_seconds: 5 } }, env: process.env };
export const manifest: McpManifest = {
  serverId: "notes",
  name: "Notes",
  version: "1.0.0",
  tools: [
    {
      name: "read",
      description: "Reads.",
      inputSchema: { type: "object" },
      outputSchema: { type: "object" },
      annotations: { policyAction: "file.read", requiredScopes: ["notes"], category: "knowledge", readOnlyHint: true },
    },
  ],
};
export const servers: McpServerConfig[] = [
  { serverId: "a", transport: "stdio", command: "node", args: ["server.js"], env: { KEY: "env:KEY" }, sandbox: "strict" },
  { serverId: "b", transport: "http", url: "http://127.0.0.1:1", manifest },
  { serverId: "c", transport: "websocket", url: "ws://127.0.0.1:1", enabled: false },
];
const tool: JsTool<{ name: string }> = {
  name: "greet",
  description: "Greets.",
  inputSchema: {},
  async handler({ name }, { signal, progress, callId, deadline }) {
    progress(1, 2, name);
    await fetch("http://127.0.0.1:1", { signal });
    return { content: [{ type: "text", text: `${callId} ${deadline - 1}` }] };
  },
};

export async function use(gate: ToolGateway): Promise<MCPToolResult> {
  gate.registerManifest(manifest);
  for (const server of servers) gate.registerServer(server);
  gate.registerTools("js", [tool, { name: "n", description: "n", inputSchema: {}, handler: () => {} }]);
  await gate.ready("a", 1000);
  const grantId: string = gate.grantCapability({ capability: "notes", scope: "user:embedded", expiresAt: Date.now() });
  const stop: () => void = gate.on("approval", ({ id, arguments: shown }) => gate.decideApproval(id, "path" in shown));
  gate.on("lagged", ({ after }) => gate.drainAuditEvents(after, 10_000).map((event) => event.sequence.toFixed()));
  stop();
  const invocation: ToolInvocation = { toolId: "js:greet", requestId: "1", arguments: { name: "x" }, grantIds: [grantId], redactKeys: ["name"], timeoutMs: 5 };
  const result: ToolResult = await gate.callTool(invocation, { signal: AbortSignal.timeout(5), onProgress: ({ progress }) => progress + 1 });
  if (result.error?.code === "PERMISSION_DENIED") throw new Error(result.error.message);
  const entries: ToolRegistryEntry[] = gate.listTools();
  const snapshot: ToolGatewaySnapshot = gate.getSnapshot();
  const grants: CapabilityGrant[] = snapshot.grants;
  for (const grant of grants) gate.grantCapability(grant);
  const whole: Buffer[] = (result.artifacts ?? []).map(({ uri }) => gate.readArtifact(uri));
  console.log(whole.length, entries[0]?.tool.inputSchema, grants[0]?.expiresAt?.toFixed(), snapshot.auditCursor + 1);
  for (const event of gate.drainAuditEvents()) report(event);
  gate.revokeCapability(grantId);
  gate.reset();
  await gate.close(500);
  return result;
}

function report(event: ToolAuditEvent): void {
  if (event.kind !== "outcome") return;
  const outcome: OutcomeEvent = event;
  const fields: [string, string, boolean, number] = [outcome.toolId, outcome.outputHash, outcome.success, outcome.durationMs];
  console.log(...fields, outcome.grantIds.length);
}

export function why(): string | undefined {
  const native = getNativeToolGateway() ?? sameFunction();
  if (native) new native.ToolGateway(options).reset();
  const error: GatewayError | null = getNativeToolGatewayError();
  return error?.code;
}
