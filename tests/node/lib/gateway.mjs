// Gateways in this process that are closed when their test ends, and what tests look at.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { npm } from "./paths.mjs";

export const { GatewayError, ToolGateway, getNativeToolGateway, getNativeToolGatewayError } = await import(
  join(npm, "index.mjs")
);

/** Opens a gateway for one test. */
export function open(t, options) {
  const gateway = new ToolGateway(options);
  t.after(() => gateway.close(0));
  return gateway;
}

/** An empty folder that is removed when the test ends. */
export function folder(t) {
  const path = mkdtempSync(join(tmpdir(), "drawgate-node-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The definition of a tool that takes anything. */
export function spec(name, annotations) {
  return { name, description: `The tool ${name}.`, inputSchema: { type: "object" }, ...(annotations && { annotations }) };
}

/** A manifest with these tools. */
export function manifest(serverId, tools) {
  return { serverId, name: serverId, version: "1.0.0", tools };
}

/** A function as a tool that everyone may call. */
export function tool(name, handler, more = {}) {
  return { ...spec(name), handler, ...more };
}

let calls = 0;

/** Calls a tool under a request id of its own, which the result carries. */
export async function call(gateway, toolId, args = {}, more = {}) {
  const requestId = `r${++calls}`;
  const result = await gateway.callTool({ toolId, requestId, arguments: args, ...more });
  return { ...result, requestId };
}

/** All events so far, from the first. */
export function events(gateway) {
  const all = [];
  for (;;) {
    const page = gateway.drainAuditEvents(all.at(-1)?.sequence ?? 0, 1000);
    if (page.length === 0) return all;
    all.push(...page);
  }
}

/** The outcome events of a call by its request id. */
export function outcomes(gateway, requestId) {
  return events(gateway).filter((event) => event.kind === "outcome" && event.requestId === requestId);
}

/** The text of a result's first block. */
export const text = (result) => result.content[0]?.text;

/**
 * Registers a manifest with a tool that needs a person's yes, and what performs it, in both orders, and checks that a
 * person is asked each time. `register` registers the server or the functions.
 */
export async function asksInBothOrders(t, serverId, name, args, register) {
  const declared = manifest(serverId, [spec(name, { requiresConfirmation: true })]);
  for (const order of ["manifest first", "manifest last"]) {
    const gateway = open(t, { capabilities: ["*"] });
    const asked = [];
    gateway.on("approval", ({ id, toolId }) => {
      asked.push(toolId);
      gateway.decideApproval(id, false);
    });
    const steps = [() => gateway.registerManifest(declared), () => register(gateway)];
    for (const step of order === "manifest first" ? steps : steps.reverse()) step();
    await gateway.ready();
    const result = await call(gateway, `${serverId}:${name}`, args);
    assert.equal(result.error?.code, "PERMISSION_DENIED", `${order}: ${JSON.stringify(result)}`);
    assert.deepEqual(asked, [`${serverId}:${name}`], order);
    assert.throws(() => gateway.registerManifest(declared), (error) => error.code === "CONFLICT", order);
  }
}
