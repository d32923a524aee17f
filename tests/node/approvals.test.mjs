// Calls that wait for a person: the event, the decision, and what happens without one.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { until } from "../clients/lib/until.mjs";
import { GatewayError, call, events, open, outcomes, text, tool } from "./lib/gateway.mjs";

const ASKS = { annotations: { requiresConfirmation: true, requiredScopes: ["danger"] } };

/** A gateway with a tool that needs a person's yes, and the number of times that it ran. */
function asking(t, approvals) {
  const gateway = open(t, { capabilities: ["danger"], config: { approvals } });
  const ran = { times: 0 };
  gateway.registerTools("js", [tool("delete", () => `deleted ${++ran.times}`, ASKS)]);
  return { gateway, ran };
}

/** The next request for an approval. */
function asked(gateway) {
  return new Promise((resolve) => {
    const stop = gateway.on("approval", (request) => {
      stop();
      resolve(request);
    });
  });
}

describe("a call that needs a person", { timeout: 60_000 }, () => {
  test("goes on when it is approved", async (t) => {
    const { gateway, ran } = asking(t, { hold_seconds: 50 });
    const request = asked(gateway);
    const held = call(gateway, "js:delete", { path: "/tmp/x", password: "hunter2" });
    const { id, toolId, principal, arguments: shown, expiresAt, reason } = await request;
    assert.deepEqual({ toolId, principal, path: shown.path }, { toolId: "js:delete", principal: "embedded", path: "/tmp/x" });
    assert.ok(!JSON.stringify(shown).includes("hunter2"));
    assert.ok(expiresAt > Date.now() && reason.length > 0);
    assert.equal(ran.times, 0);
    gateway.decideApproval(id, true);
    const result = await held;
    assert.equal(result.success, true, result.error?.message);
    assert.equal(text(result), "deleted 1");
    const kinds = events(gateway).map((event) => event.kind);
    const ours = ["approval_required", "approval_decided", "decision", "outcome"];
    assert.deepEqual(kinds.filter((kind) => ours.includes(kind)), ours);
    assert.throws(() => gateway.decideApproval(id, false), GatewayError, "it is decided already");
  });

  test("is refused when it is denied", async (t) => {
    const { gateway, ran } = asking(t, { hold_seconds: 50 });
    const request = asked(gateway);
    const held = call(gateway, "js:delete");
    gateway.decideApproval((await request).id, false);
    const result = await held;
    assert.equal(result.error?.code, "PERMISSION_DENIED");
    assert.equal(ran.times, 0);
    assert.equal(outcomes(gateway, result.requestId).length, 1);
  });

  test("ends with the approval's id when nobody decides in time, and can be made again", async (t) => {
    const { gateway, ran } = asking(t, { hold_seconds: 1 });
    const first = await call(gateway, "js:delete", { n: 1 });
    assert.equal(first.error?.code, "PERMISSION_ESCALATION_REQUIRED");
    assert.equal(ran.times, 0);
    assert.equal(outcomes(gateway, first.requestId).length, 1);
    const required = events(gateway).find((event) => event.kind === "approval_required");
    assert.ok(JSON.stringify(first.error).includes(required.approvalId));
    gateway.decideApproval(required.approvalId, true);
    assert.equal(text(await call(gateway, "js:delete", { n: 1 })), "deleted 1");
    const other = await call(gateway, "js:delete", { n: 2 });
    assert.equal(other.error?.code, "PERMISSION_ESCALATION_REQUIRED", "it was approved for these arguments alone");
  });

  test("needs none where a grant has an approval behind it", async (t) => {
    const { gateway } = asking(t, { hold_seconds: 1 });
    const grantIds = [gateway.grantCapability({ capability: "danger", approvalId: "ticket-7" })];
    const result = await call(gateway, "js:delete", {}, { grantIds });
    assert.equal(result.success, true, result.error?.message);
    assert.ok(!events(gateway).some((event) => event.kind === "approval_required"));
  });

  test("runs where approvals are off, and is not decided late", async (t) => {
    assert.equal(text(await call(asking(t, { mode: "off" }).gateway, "js:delete")), "deleted 1");
    const { gateway, ran } = asking(t, { hold_seconds: 1, expire_seconds: 1 });
    const request = asked(gateway);
    assert.equal((await call(gateway, "js:delete")).success, false);
    const { id, expiresAt } = await request;
    await until("it has expired", () => Date.now() > expiresAt);
    assert.throws(() => gateway.decideApproval(id, true), GatewayError);
    assert.equal(ran.times, 0);
  });

  test("an approval that is not there can't be decided", (t) => {
    const { gateway } = asking(t, {});
    assert.throws(() => gateway.decideApproval("a_unknown", true), (error) => error.code === "RESOURCE_NOT_FOUND");
    assert.throws(() => gateway.decideApproval(7, true));
    assert.throws(() => gateway.decideApproval("a_unknown", "yes"));
  });
});
