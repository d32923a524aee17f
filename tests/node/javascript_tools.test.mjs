// Functions as tools: what becomes of a call when the function throws, hangs, lies or blocks.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { until } from "../clients/lib/until.mjs";
import { GatewayError, call, open, outcomes, text, tool } from "./lib/gateway.mjs";

const withTools = (t, tools, options) => {
  const gateway = open(t, { capabilities: ["*"], ...options });
  gateway.registerTools("js", tools);
  return gateway;
};

/** Makes the call and checks that it has exactly one outcome event, which says what the result says. */
async function once(gateway, toolId, args, more) {
  const result = await call(gateway, toolId, args, more);
  const [outcome, ...others] = outcomes(gateway, result.requestId);
  assert.deepEqual(others, [], `${toolId} has more than one outcome`);
  assert.equal(outcome.success, result.success);
  assert.equal(outcome.code, result.error?.code);
  return result;
}

describe("a function that throws", () => {
  const loop = {};
  loop.self = loop;
  const throws = {
    error: () => { throw new Error("it broke"); },
    rejection: async () => { throw new TypeError("it broke"); },
    later: () => new Promise((_, reject) => setImmediate(reject, new Error("it broke"))),
    text: () => { throw "it broke"; },
    nothing: () => { throw undefined; },
    null: () => Promise.reject(null),
    loop: () => { throw loop; },
    getter: () => { throw { get message() { throw new Error("worse"); } }; },
    symbol: () => { throw Symbol("it broke"); },
    stack: () => (function deeper() { return deeper() + 1; })(),
  };
  for (const [name, handler] of Object.entries(throws)) {
    test(`fails its own call: ${name}`, async (t) => {
      const gateway = withTools(t, [tool(name, handler), tool("good", () => "fine")]);
      const result = await once(gateway, `js:${name}`);
      assert.equal(result.success, false);
      assert.equal(result.error.code, "EXECUTION_FAILED");
      if (["error", "rejection", "later", "text"].includes(name)) assert.match(JSON.stringify(result), /it broke/);
      assert.equal(text(await once(gateway, "js:good")), "fine");
    });
  }
});

describe("a function that lies", () => {
  const loop = {};
  loop.self = loop;
  const bad = {
    loop: () => loop,
    bigint: () => ({ n: 1n }),
    symbol: () => Symbol("x"),
    function: () => () => {},
    getter: () => ({ get content() { throw new Error("no"); } }),
    toJSON: () => ({ toJSON() { throw new Error("no"); } }),
    proxy: () => new Proxy({}, { ownKeys() { throw new Error("no"); } }),
    content: () => ({ content: "not a list" }),
    blocks: () => ({ content: ["not a block"] }),
    surrogate: () => "\ud800",
    surrogate_error: () => { throw new Error("\ud800"); },
    deep: () => { let value = {}; for (let n = 0; n < 1000; n++) value = { value }; return value; },
    thenable: () => ({ then(resolve, reject) { reject(new Error("no")); resolve("yes"); } }),
    throwing_thenable: () => ({ get then() { throw new Error("no"); } }),
  };
  for (const [name, handler] of Object.entries(bad)) {
    test(`fails its own call: ${name}`, async (t) => {
      const gateway = withTools(t, [tool(name, handler), tool("good", () => "fine")]);
      const result = await once(gateway, `js:${name}`);
      assert.equal(result.success, false, JSON.stringify(result));
      assert.equal(text(await once(gateway, "js:good")), "fine");
    });
  }

  test("about its output schema is found out", async (t) => {
    const outputSchema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const gateway = withTools(t, [tool("counts", (args) => args, { outputSchema })]);
    assert.deepEqual((await once(gateway, "js:counts", { n: 1 })).structuredContent, { n: 1 });
    assert.equal((await once(gateway, "js:counts", { n: "one" })).error?.code, "VALIDATION_ERROR");
  });

  test("by answering twice is heard once", async (t) => {
    const twice = () => ({ then(resolve) { resolve("first"); resolve("second"); } });
    const gateway = withTools(t, [tool("twice", twice)]);
    assert.equal(text(await once(gateway, "js:twice")), "first");
  });

  test("by changing its arguments changes nobody else's", async (t) => {
    const gateway = withTools(t, [tool("change", (args) => { args.list.push(1); Object.prototype.hacked = 1; return "ok"; })]);
    const given = { list: [] };
    await once(gateway, "js:change", given);
    delete Object.prototype.hacked;
    assert.deepEqual(given, { list: [] });
  });
});

describe("a function that hangs", () => {
  test("is answered for when the time is over, and told by its signal", async (t) => {
    let context;
    const gateway = withTools(t, [tool("hang", (_, given) => new Promise(() => { context = given; }))]);
    const before = Date.now();
    const result = await once(gateway, "js:hang", {}, { timeoutMs: 100 });
    assert.equal(result.error?.code, "TIMEOUT");
    assert.match(result.error.message, /can't be stopped|may go on|still run/i);
    await until("it is told", () => context.signal.aborted);
    assert.equal(typeof context.callId, "string");
    assert.ok(context.deadline >= before && context.deadline <= before + 60_000);
  });

  test("and answers too late is not heard", async (t) => {
    let answer;
    const gateway = withTools(t, [tool("late", () => new Promise((resolve) => { answer = resolve; })), tool("good", () => "fine")]);
    const result = await once(gateway, "js:late", {}, { timeoutMs: 50 });
    assert.equal(result.error?.code, "TIMEOUT");
    answer("late");
    assert.equal(text(await once(gateway, "js:good")), "fine");
    assert.equal(outcomes(gateway, result.requestId).length, 1);
  });

  test("can listen to its signal and say how far it is", async (t) => {
    let reason;
    const gateway = withTools(t, [tool("polite", (_, { signal, progress }) => new Promise((resolve) => {
      progress(1, 2, "half");
      progress(2);
      signal.addEventListener("abort", () => { reason = signal.reason; resolve("gave up"); });
    }))]);
    assert.equal((await once(gateway, "js:polite", {}, { timeoutMs: 50 })).error?.code, "TIMEOUT");
    assert.ok(reason instanceof Error);
  });
});

describe("a caller", () => {
  test("hears how far the function is, and can give up", async (t) => {
    const told = [];
    let signal;
    const gateway = withTools(t, [tool("hang", (_, context) => new Promise(() => {
      ({ signal } = context);
      context.progress(1, 2, "half");
    }))]);
    const caller = new AbortController();
    const onProgress = (progress) => { told.push(progress); caller.abort(); };
    const call = { toolId: "js:hang", requestId: "given-up" };
    const result = await gateway.callTool(call, { onProgress, signal: caller.signal });
    assert.equal(result.error?.code, "CANCELLED");
    assert.deepEqual(told, [{ progress: 1, total: 2, message: "half" }]);
    await until("the function is told", () => signal.aborted);
    assert.equal(outcomes(gateway, "given-up").length, 1);
    const gone = await gateway.callTool({ ...call, requestId: "at-once" }, { signal: AbortSignal.abort() });
    assert.equal(gone.error?.code, "CANCELLED");
  });
});

describe("a function that blocks", () => {
  test("delays the answer, and its call still ends", async (t) => {
    const block = () => { const end = Date.now() + 300; while (Date.now() < end); return "blocked"; };
    const gateway = withTools(t, [tool("block", block), tool("good", () => "fine")]);
    const blocked = once(gateway, "js:block", {}, { timeoutMs: 50 });
    const good = once(gateway, "js:good");
    assert.equal((await blocked).error?.code, "TIMEOUT");
    assert.equal(text(await good), "fine");
  });

  test("fills no memory: what does not fit is refused", async (t) => {
    const waiting = [];
    const gateway = withTools(t, [tool("wait", () => new Promise((resolve) => waiting.push(resolve)))]);
    const calls = Array.from({ length: 1000 }, () => call(gateway, "js:wait"));
    // The event loop does not turn here, so that none of them reaches the function: the first outcome is a refusal.
    const end = Date.now() + 30_000;
    let outcome;
    while (!outcome && Date.now() < end) outcome = gateway.drainAuditEvents().find((event) => event.kind === "outcome");
    assert.equal(outcome?.code, "RATE_LIMITED");
    const answered = Promise.all(calls.map(async (one) => (await one).error?.code ?? "ok"));
    const release = setInterval(() => waiting.splice(0).forEach((resolve) => resolve("done")), 10);
    t.after(() => clearInterval(release));
    assert.deepEqual([...new Set(await answered)].sort(), ["RATE_LIMITED", "ok"]);
  });
});

describe("a list of functions", () => {
  test("with faults is refused whole", (t) => {
    const gateway = open(t);
    const good = tool("good", () => "fine");
    for (const wrong of [
      undefined, {}, [{}], [null], [good, good], [{ ...good, handler: "text" }], [{ ...good, name: "no spaces" }],
      [{ ...good, description: undefined }], [good, { ...good, name: "bad", inputSchema: { type: "objekt" } }],
      [{ ...good, annotations: { policyAction: "no.such.action" } }],
    ]) {
      assert.throws(() => gateway.registerTools("js", wrong), (error) => typeof error.code === "string", JSON.stringify(wrong));
    }
    assert.deepEqual(gateway.listTools(), []);
    gateway.registerTools("js", [good]);
    assert.throws(() => gateway.registerTools("js", [good]), GatewayError);
  });

  test("may end what it is called by", async (t) => {
    const gateway = withTools(t, [
      tool("reset", () => { gateway.reset(); return "reset"; }),
    ]);
    assert.equal((await call(gateway, "js:reset")).error?.code, "CANCELLED");
    assert.deepEqual(gateway.listTools(), []);
    gateway.registerTools("js", [tool("close", async () => { await gateway.close(100); return "closed"; })]);
    assert.equal((await call(gateway, "js:close")).error?.code, "CANCELLED");
    assert.throws(() => gateway.listTools(), GatewayError);
  });

  test("may call the gateway in turn", async (t) => {
    const gateway = withTools(t, [
      tool("outer", async () => `outer ${text(await call(gateway, "js:inner"))}`),
      tool("inner", () => "inner"),
    ]);
    assert.equal(text(await once(gateway, "js:outer")), "outer inner");
  });
});
