// What listeners are told.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { until } from "../clients/lib/until.mjs";
import { call, events, manifest, open, spec, tool } from "./lib/gateway.mjs";

const withEcho = (t, options) => {
  const gateway = open(t, { capabilities: ["*"], ...options });
  gateway.registerTools("js", [tool("echo", () => "same")]);
  return gateway;
};

describe("listeners", { timeout: 60_000 }, () => {
  test("are told of every audit event, in order, until they stop", async (t) => {
    const gateway = withEcho(t);
    const heard = [];
    const stop = gateway.on("audit", (event) => heard.push(event));
    const already = gateway.getSnapshot().auditCursor;
    for (let n = 0; n < 20; n++) await call(gateway, "js:echo", { n });
    await until("all are told", () => heard.at(-1)?.sequence === gateway.getSnapshot().auditCursor);
    assert.deepEqual(heard, events(gateway).filter((event) => event.sequence > already));
    stop();
    stop();
    const count = heard.length;
    const others = [];
    gateway.on("audit", (event) => others.push(event));
    await call(gateway, "js:echo");
    await until("another listener is told", () => others.some((event) => event.kind === "outcome"));
    assert.equal(heard.length, count);
  });

  test("are told when the list of tools changes", async (t) => {
    const gateway = open(t);
    const revisions = [];
    gateway.on("tools", ({ revision }) => revisions.push(revision));
    gateway.registerManifest(manifest("zoo", [spec("a")]));
    await until("the first change is told", () => revisions.length > 0);
    const [first] = revisions;
    gateway.reset();
    await until("the second change is told", () => revisions.at(-1) > first);
  });

  test("that throw harm neither the gateway nor each other", async (t) => {
    const gateway = withEcho(t);
    const thrown = [];
    const heard = [];
    const keep = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    const take = (error) => thrown.push(error.message);
    process.on("uncaughtException", take);
    t.after(() => {
      process.removeListener("uncaughtException", take);
      for (const listener of keep) process.on("uncaughtException", listener);
    });
    gateway.on("audit", () => { throw new Error("a listener failed"); });
    gateway.on("audit", (event) => heard.push(event.kind));
    assert.equal((await call(gateway, "js:echo")).success, true);
    await until("the other listener is told", () => heard.includes("outcome"));
    assert.ok(thrown.every((message) => message === "a listener failed"));
    assert.ok(thrown.length > 0, "what a listener throws is not swallowed");
  });

  test("of a thread that was too busy are told where to read on", async (t) => {
    const gateway = withEcho(t);
    const lagged = [];
    const heard = [];
    gateway.on("lagged", (event) => lagged.push(event));
    gateway.on("audit", (event) => heard.push(event.sequence));
    const grants = 1500;
    // Synchronous methods, so that the event loop does not turn.
    for (let n = 0; n < grants; n++) gateway.grantCapability({ capability: `c${n}` });
    await until("it is told", () => lagged.length > 0);
    const [{ after }] = lagged;
    const missed = gateway.drainAuditEvents(after, 10_000).map((event) => event.sequence);
    await until("it goes on", () => new Set([...heard, ...missed]).size >= 2 * grants);
    const all = events(gateway).map((event) => event.sequence);
    const first = heard[0];
    const known = new Set([...heard, ...missed]);
    assert.deepEqual(all.filter((sequence) => sequence >= first && !known.has(sequence)), []);
  });

  test("of what there is not are refused", (t) => {
    const gateway = open(t);
    assert.throws(() => gateway.on("nothing", () => {}));
    assert.throws(() => gateway.on("audit", "text"));
  });
});
