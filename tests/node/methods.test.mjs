// The nine methods, with their shapes, and what they refuse.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { describe, test } from "node:test";
import { until } from "../clients/lib/until.mjs";
import {
  GatewayError, ToolGateway, asksInBothOrders, call, events, manifest, open, outcomes, spec, text, tool,
} from "./lib/gateway.mjs";

const NEEDS_BOTH = { requiredScopes: ["notes"], policyAction: "file.read" };

/** A gateway with the tool `notes:read`, which needs two capabilities. */
function withNotes(t, options) {
  const gateway = open(t, options);
  gateway.registerTools("notes", [tool("read", () => "a note", { annotations: NEEDS_BOTH })]);
  return gateway;
}

/** Checks that a call throws a `GatewayError` with this code, and returns it. */
function refused(code, act) {
  let thrown;
  try {
    act();
  } catch (error) {
    thrown = error;
  }
  assert.ok(thrown instanceof GatewayError, `${thrown?.stack ?? "nothing was thrown"}`);
  assert.equal(thrown.code, code, thrown.message);
  return thrown;
}

/** SHA-256 of JSON whose keys are in order. */
const hash = (value) => createHash("sha256").update(JSON.stringify(value)).digest("hex");

describe("manifests", () => {
  test("are listed by server and name, whatever the order in which they came", (t) => {
    const gateway = open(t);
    gateway.registerManifest(manifest("zoo", [spec("b"), spec("a")]));
    gateway.registerManifest(manifest("bar", [spec("c", NEEDS_BOTH)]));
    const listed = gateway.listTools();
    assert.deepEqual(listed.map((entry) => entry.toolId), ["bar:c", "zoo:a", "zoo:b"]);
    const [entry] = listed;
    assert.equal(entry.serverId, "bar");
    assert.equal(entry.wireName, "bar__c");
    assert.deepEqual([...entry.requires].sort(), ["file.read", "notes"]);
    assert.deepEqual(entry.tool, spec("c", NEEDS_BOTH));
  });

  test("answer UNAVAILABLE until there is a server", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerManifest(manifest("zoo", [spec("a")]));
    const result = await call(gateway, "zoo:a");
    assert.equal(result.success, false);
    assert.equal(result.error.code, "UNAVAILABLE");
    gateway.registerTools("zoo", [tool("a", () => "now")]);
    assert.equal(text(await call(gateway, "zoo:a")), "now");
  });

  test("hold over functions, in whichever order the two come", async (t) => {
    await asksInBothOrders(t, "zoo", "a", {}, (gateway) => gateway.registerTools("zoo", [tool("a", () => "ran")]));
    const gateway = open(t, { capabilities: ["own", "notes"] });
    gateway.registerTools("zoo", [tool("a", () => "ran", { annotations: { requiredScopes: ["own"] } }), tool("b", () => "")]);
    gateway.registerManifest(manifest("zoo", [spec("a", { requiredScopes: ["notes"] })]));
    const [a, b] = gateway.listTools();
    assert.deepEqual([a.requires, b.requires], [["notes", "own"], ["source.zoo"]]);
    assert.equal(text(await call(gateway, "zoo:a")), "ran");
  });

  test("with an id that is taken are refused", (t) => {
    const gateway = open(t);
    gateway.registerManifest(manifest("zoo", [spec("a")]));
    const error = refused("CONFLICT", () => gateway.registerManifest(manifest("zoo", [spec("b")])));
    assert.match(error.message, /zoo/);
    assert.deepEqual(gateway.listTools().map((entry) => entry.toolId), ["zoo:a"]);
  });

  test("with faults are refused with all of them, and nothing is listed", (t) => {
    const gateway = open(t);
    const twice = [spec("a"), spec("a")];
    assert.match(refused("VALIDATION_ERROR", () => gateway.registerManifest(manifest("zoo", twice))).message, /`?a`?/);
    const { description, ...silent } = spec("silent");
    const faulty = [
      silent,
      { ...spec("bad"), inputSchema: { type: "objekt" } },
      spec("unknown", { policyAction: "no.such.action" }),
    ];
    const { details } = refused("VALIDATION_ERROR", () => gateway.registerManifest(manifest("zoo", faulty)));
    const said = JSON.stringify(details);
    for (const name of ["silent", "bad", "unknown"]) assert.match(said, new RegExp(name));
    const { inputSchema, ...bare } = spec("bare");
    const worse = { serverId: "zoo", version: 1, colour: "red", tools: [bare, ...faulty] };
    const all = refused("VALIDATION_ERROR", () => gateway.registerManifest(worse)).details.faults;
    const reasons = all.map(({ reason }) => reason).join("\n");
    for (const word of ["`name`", "`version`", "`colour`", "bare", "silent", "bad", "unknown"]) {
      assert.ok(reasons.includes(word), `${word} in ${reasons}`);
    }
    assert.deepEqual(gateway.listTools(), []);
  });

  test("that are no manifests are refused", (t) => {
    const gateway = open(t);
    const loop = {};
    loop.self = loop;
    for (const wrong of [undefined, null, 7, "zoo", [], {}, { serverId: "zoo" }, loop, manifest("z z", []), { n: 1n }]) {
      assert.throws(() => gateway.registerManifest(wrong), (error) => typeof error.code === "string", String(wrong));
    }
    assert.deepEqual(gateway.listTools(), []);
  });
});

describe("capabilities", () => {
  test("a call needs live grants for all that the tool requires", async (t) => {
    const gateway = withNotes(t);
    const denied = async (more) => {
      const result = await call(gateway, "notes:read", {}, more);
      assert.equal(result.success, false);
      assert.equal(result.error.code, "PERMISSION_DENIED", result.error.message);
      const [outcome, ...others] = outcomes(gateway, result.requestId);
      assert.deepEqual(others, []);
      assert.equal(outcome.success, false);
    };
    await denied();
    const one = gateway.grantCapability({ capability: "notes" });
    await denied();
    await denied({ grantIds: [one] });
    const other = gateway.grantCapability({ capability: "file.read" });
    const result = await call(gateway, "notes:read");
    assert.equal(result.success, true, result.error?.message);
    assert.equal(text(result), "a note");
    assert.deepEqual([...outcomes(gateway, result.requestId)[0].grantIds].sort(), [one, other].sort());
    assert.equal((await call(gateway, "notes:read", {}, { grantIds: [one, other] })).success, true);
    gateway.revokeCapability(one);
    await denied();
  });

  test("a call that names grants uses those alone", async (t) => {
    const gateway = withNotes(t);
    const ids = ["notes", "file.read"].map((capability) => gateway.grantCapability({ capability }));
    for (const grantIds of [[], [ids[0]], [ids[1]], ["g_unknown"]]) {
      const result = await call(gateway, "notes:read", {}, { grantIds });
      assert.equal(result.error?.code, "PERMISSION_DENIED", JSON.stringify(grantIds));
    }
    assert.equal((await call(gateway, "notes:read", {}, { grantIds: ids })).success, true);
  });

  test("a grant that has ended, or is for another, covers nothing", async (t) => {
    const gateway = withNotes(t);
    gateway.grantCapability({ capability: "notes" });
    const soon = gateway.grantCapability({ capability: "file.read", expiresAt: Date.now() + 300 });
    assert.equal((await call(gateway, "notes:read", {}, { grantIds: [soon] })).error?.code, "PERMISSION_DENIED");
    await until("the grant has ended", () => !gateway.getSnapshot().grants.some((grant) => grant.grantId === soon));
    gateway.grantCapability({ capability: "file.read", scope: "user:local" });
    refused("VALIDATION_ERROR", () => gateway.grantCapability({ capability: "file.read", scope: "session:another" }));
    assert.equal((await call(gateway, "notes:read")).error?.code, "PERMISSION_DENIED");
    gateway.grantCapability({ capability: "file.read", scope: "user:embedded", expiresAt: Date.now() + 600_000 });
    assert.equal((await call(gateway, "notes:read")).success, true);
  });

  test("what can't be granted or revoked is refused", (t) => {
    const gateway = open(t);
    for (const wrong of [{}, { capability: "" }, { capability: "no spaces" }, { capability: "x", scope: "everyone" }, { capability: "x", expiresAt: 1 }]) {
      assert.throws(() => gateway.grantCapability(wrong), GatewayError, JSON.stringify(wrong));
    }
    refused("RESOURCE_NOT_FOUND", () => gateway.revokeCapability("g_unknown"));
  });

  test("those of the options are held without grants", async (t) => {
    const gateway = withNotes(t, { capabilities: ["notes", "file.*"], principal: "bot" });
    const result = await call(gateway, "notes:read");
    assert.equal(result.success, true, result.error?.message);
    assert.equal(outcomes(gateway, result.requestId)[0].principal, "bot");
  });
});

describe("calls", () => {
  test("answer with content, and say how long it took and where it ran", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    const seen = [];
    const whole = { content: [{ type: "text", text: "one" }, { type: "text", text: "two" }] };
    gateway.registerTools("js", [
      tool("echo", (args) => { seen.push(args); return "plain"; }),
      tool("object", () => ({ answer: 42 })),
      tool("whole", () => whole),
      tool("nothing", () => {}),
    ]);
    const args = { a: [1, "zwei", { drei: null }], "__proto__x": "\u{1f980}\n" };
    const plain = await call(gateway, "js:echo", args);
    assert.deepEqual(plain.content, [{ type: "text", text: "plain" }]);
    assert.deepEqual(seen, [args]);
    assert.equal(plain.meta.toolName, "js:echo");
    assert.equal(plain.meta.sandboxed, false);
    assert.equal(typeof plain.meta.durationMs, "number");
    assert.deepEqual((await call(gateway, "js:object")).structuredContent, { answer: 42 });
    assert.deepEqual((await call(gateway, "js:whole")).content, whole.content);
    assert.equal((await call(gateway, "js:nothing")).success, true);
    assert.equal(text(await call(gateway, "echo")), "plain", "a bare name that only one tool has");
    assert.equal(text(await call(gateway, "js__echo")), "plain", "the wire name");
  });

  test("are refused where the tool is unknown, ambiguous or does not take the arguments", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    const inputSchema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    gateway.registerTools("one", [tool("same", () => "", { inputSchema })]);
    gateway.registerTools("two", [tool("same", () => "")]);
    const code = async (toolId, args) => (await call(gateway, toolId, args)).error?.code;
    assert.equal(await code("none:at-all"), "RESOURCE_NOT_FOUND");
    assert.equal(await code("same"), "CONFLICT");
    assert.equal(await code("one:same", {}), "INVALID_ARGUMENTS");
    assert.equal(await code("one:same", { n: "1" }), "INVALID_ARGUMENTS");
    assert.equal(await code("one:same", { n: 1 }), undefined);
  });

  test("that are no calls are rejected", async (t) => {
    const gateway = open(t);
    let deep = {};
    for (let n = 0; n < 1000; n++) deep = { deep };
    for (const wrong of [
      undefined, null, 7, [], {}, { toolId: 7, requestId: "r" },
      ...[[], "text", deep, { half: "\ud800" }].map((args) => ({ toolId: "a", requestId: "r", arguments: args })),
      { toolId: "a", requestId: "r", timeoutMs: -1 }, { toolId: "a", requestId: "r", grantIds: "all" },
    ]) {
      await assert.rejects(gateway.callTool(wrong), (error) => typeof error.code === "string", JSON.stringify(wrong));
    }
  });

  test("of a server over HTTP follow the one-call protocol", async (t) => {
    const asked = [];
    let answer = () => {};
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => { body += chunk; });
      request.on("end", () => { asked.push(JSON.parse(body)); answer(response); });
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => { server.closeAllConnections(); server.close(); });
    const gateway = open(t, { capabilities: ["*"] });
    const url = `http://127.0.0.1:${server.address().port}/call`;
    gateway.registerServer({ serverId: "web", transport: "http", url, manifest: manifest("web", [spec("greet")]) });
    await gateway.ready("web");
    answer = (response) => response.setHeader("content-type", "application/json")
      .end(JSON.stringify({ success: true, content: [{ type: "text", text: "hello" }] }));
    const good = await call(gateway, "web:greet", { name: "Ann" });
    assert.equal(good.success, true, good.error?.message);
    assert.equal(text(good), "hello");
    assert.equal(asked[0].name, "greet");
    assert.deepEqual(asked[0].arguments, { name: "Ann" });
    answer = (response) => response.setHeader("content-type", "application/json")
      .end(JSON.stringify({ success: false, content: [{ type: "text", text: "no such name" }] }));
    assert.equal((await call(gateway, "web:greet")).error?.code, "EXECUTION_FAILED");
    answer = () => {};
    assert.equal((await call(gateway, "web:greet", {}, { timeoutMs: 200 })).error?.code, "TIMEOUT");
  });

  test("with more output than is passed on point to an artifact", async (t) => {
    const gateway = open(t, { capabilities: ["*"], config: { limits: { max_output_bytes: 1024 } } });
    const long = "line\n".repeat(1000);
    gateway.registerTools("js", [tool("long", () => long)]);
    const result = await call(gateway, "js:long");
    assert.equal(result.success, true, result.error?.message);
    assert.ok(text(result).length < long.length);
    const [artifact] = result.artifacts;
    assert.equal(artifact.uri, `drawgate://artifacts/${artifact.sha256}`);
    assert.deepEqual(result.meta.outputSpool, artifact);
    for (const name of [artifact.uri, artifact.sha256]) assert.equal(gateway.readArtifact(name).toString(), long);
    for (const wrong of ["drawgate://artifacts/0", "", undefined]) {
      refused("RESOURCE_NOT_FOUND", () => gateway.readArtifact(wrong));
    }
  });
});

describe("the audit log", () => {
  test("has equal hashes for equal calls, over what is left after redaction", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerTools("js", [tool("echo", () => "same")]);
    const outcome = async (args, more) => {
      const { requestId } = await call(gateway, "js:echo", args, more);
      const [event, ...others] = outcomes(gateway, requestId);
      assert.deepEqual(others, []);
      return event;
    };
    const [one, two] = [await outcome({ b: 1, a: "x" }), await outcome({ a: "x", b: 1 })];
    assert.equal(one.inputHash, hash({ a: "x", b: 1 }));
    assert.equal(one.inputHash, two.inputHash);
    assert.equal(one.outputHash, two.outputHash);
    assert.notEqual((await outcome({ a: "y", b: 1 })).inputHash, one.inputHash);
    for (const key of ["apiKey", "token", "secret", "password"]) {
      assert.equal((await outcome({ [key]: "one" })).inputHash, (await outcome({ [key]: "two" })).inputHash, key);
    }
    const redactKeys = ["color"];
    assert.notEqual((await outcome({ color: "red" })).inputHash, (await outcome({ color: "blue" })).inputHash);
    const hidden = await outcome({ color: "red" }, { redactKeys });
    assert.equal(hidden.inputHash, (await outcome({ color: "blue" }, { redactKeys })).inputHash);
  });

  test("has every field of an outcome, and the run that a call belongs to", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerTools("js", [tool("echo", () => "same")]);
    const { requestId } = await call(gateway, "js:echo", {}, { runId: "run-7" });
    const [event] = outcomes(gateway, requestId);
    const { sequence, toolId, grantIds, inputHash, outputHash, success, durationMs, createdAt, runId } = event;
    assert.deepEqual({ toolId, success, runId }, { toolId: "js:echo", success: true, runId: "run-7" });
    assert.ok(Array.isArray(grantIds));
    assert.match(`${inputHash} ${outputHash}`, /^[0-9a-f]{64} [0-9a-f]{64}$/);
    for (const number of [sequence, durationMs, createdAt]) assert.ok(Number.isSafeInteger(number));
  });

  test("is read on where this object stopped, and loses nothing", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerTools("js", [tool("echo", () => "same")]);
    await call(gateway, "js:echo");
    const first = gateway.drainAuditEvents();
    assert.ok(first.length > 0);
    assert.deepEqual(gateway.drainAuditEvents(), []);
    await call(gateway, "js:echo");
    const second = gateway.drainAuditEvents(undefined, 1);
    assert.equal(second.length, 1);
    assert.equal(second[0].sequence, first.at(-1).sequence + 1);
    const rest = gateway.drainAuditEvents();
    assert.equal(rest.at(-1).kind, "outcome");
    assert.deepEqual(events(gateway), [...first, ...second, ...rest]);
    assert.deepEqual(gateway.drainAuditEvents(0, 2), first.slice(0, 2));
    assert.equal(gateway.getSnapshot().auditCursor, rest.at(-1).sequence);
    for (const wrong of [-1, 1.5, Number.NaN, "1"]) assert.throws(() => gateway.drainAuditEvents(wrong), String(wrong));
    for (const wrong of [-1, 0.5, "1"]) assert.throws(() => gateway.drainAuditEvents(0, wrong), String(wrong));
  });

  test("is chained", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerTools("js", [tool("echo", () => "same")]);
    for (let i = 0; i < 5; i++) await call(gateway, "js:echo");
    const all = events(gateway);
    for (const [at, event] of all.entries()) {
      assert.equal(event.sequence, at + 1);
      if (at > 0) assert.equal(event.prev, all[at - 1].hash);
    }
  });
});

describe("the snapshot and the reset", () => {
  test("a snapshot has tools, live grants and the newest event", (t) => {
    const gateway = withNotes(t);
    const grantId = gateway.grantCapability({ capability: "notes", scope: "user:embedded", expiresAt: 9_999_999_999_999 });
    const snapshot = gateway.getSnapshot();
    assert.deepEqual(snapshot.tools, gateway.listTools());
    const grant = snapshot.grants.find((one) => one.grantId === grantId);
    assert.equal(grant.capability, "notes");
    assert.equal(grant.scope, "user:embedded");
    assert.equal(grant.expiresAt, 9_999_999_999_999);
    assert.equal(typeof grant.issuedAt, "number");
    assert.equal(snapshot.auditCursor, events(gateway).at(-1).sequence);
    gateway.revokeCapability(grantId);
    assert.ok(!gateway.getSnapshot().grants.some((one) => one.grantId === grantId));
  });

  test("a snapshot's grants are given back to another gateway, whole", async (t) => {
    const first = withNotes(t, { session: "s1" });
    const end = Date.now() + 60_000;
    first.grantCapability({ capability: "notes", scope: "session:s1", expiresAt: end });
    first.grantCapability({ capability: "file.read", scope: "user:embedded", approvalId: "ticket-7" });
    const { grants } = first.getSnapshot();
    const second = withNotes(t, { session: "s1" });
    for (const grant of grants) assert.equal(second.grantCapability(grant), grant.grantId);
    assert.deepEqual(second.getSnapshot().grants, grants);
    assert.equal(text(await call(second, "notes:read")), "a note");
    const [own] = grants.filter((grant) => grant.capability === "notes");
    second.grantCapability(own);
    refused("CONFLICT", () => second.grantCapability({ ...own, capability: "other" }));
    second.revokeCapability(own.grantId);
    assert.equal((await call(second, "notes:read")).error?.code, "PERMISSION_DENIED");
  });

  test("a grant that can't be issued is refused with all that is wrong with it", (t) => {
    const gateway = open(t, { session: "s1" });
    const wrong = { capability: "no spaces", scope: "session:other", expiresAt: 1, issuedAt: 9_999_999_999_999, grantId: "g" };
    const { details } = refused("VALIDATION_ERROR", () => gateway.grantCapability(wrong));
    assert.deepEqual(details.faults.map(({ field }) => field), ["capability", "scope", "expiresAt", "issuedAt"]);
    refused("VALIDATION_ERROR", () => gateway.grantCapability({ capability: "a", issuedAt: 1 }));
    refused("VALIDATION_ERROR", () => gateway.grantCapability({ capability: "a", grantId: "standing:eve:*" }));
    refused("RESOURCE_NOT_FOUND", () => gateway.grantCapability({ capability: "a", scope: "user:nobody" }));
    assert.throws(() => new ToolGateway({ session: "" }), (error) => error.code === "VALIDATION_ERROR");
  });

  test("a reset ends calls, tools and grants, and is in the log, which stays", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    const begun = deferred();
    let signal;
    gateway.registerTools("js", [tool("hang", (_, context) => new Promise(() => {
      ({ signal } = context);
      begun.resolve();
    }))]);
    gateway.grantCapability({ capability: "notes" });
    const held = call(gateway, "js:hang");
    await begun.promise;
    const before = events(gateway);
    gateway.reset();
    const result = await held;
    assert.equal(result.error?.code, "CANCELLED", JSON.stringify(result));
    assert.equal(signal.aborted, true);
    assert.deepEqual(gateway.listTools(), []);
    assert.ok(!gateway.getSnapshot().grants.some((grant) => grant.capability === "notes"));
    const after = events(gateway);
    assert.deepEqual(after.slice(0, before.length), before);
    assert.ok(after.some((event) => event.kind === "gateway_reset"));
    assert.equal(outcomes(gateway, result.requestId).length, 1);
    gateway.registerTools("js", [tool("again", () => "works")]);
    assert.equal(text(await call(gateway, "js:again")), "works");
  });
});

describe("the end", () => {
  test("a closed gateway rejects calls and throws otherwise, and may be closed again", async () => {
    const gateway = new ToolGateway({ capabilities: ["*"] });
    gateway.registerTools("js", [tool("echo", () => "same")]);
    await gateway.close();
    await gateway.close();
    await assert.rejects(call(gateway, "js:echo"), GatewayError);
    assert.throws(() => gateway.listTools(), GatewayError);
    assert.throws(() => gateway.registerManifest(manifest("zoo", [])), GatewayError);
  });

  test("calls that end within the grace are answered, the others are cancelled", async () => {
    const gateway = new ToolGateway({ capabilities: ["*"] });
    // Either may begin first.
    const slowBegun = deferred();
    const hangBegun = deferred();
    gateway.registerTools("js", [
      tool("slow", () => new Promise((resolve) => slowBegun.resolve(() => resolve("done")))),
      tool("hang", () => new Promise(() => hangBegun.resolve())),
    ]);
    const slow = call(gateway, "js:slow");
    const hung = call(gateway, "js:hang");
    const finish = await slowBegun.promise;
    await hangBegun.promise;
    const closed = gateway.close(1000);
    finish();
    assert.equal(text(await slow), "done");
    assert.equal((await hung).error?.code, "CANCELLED");
    await closed;
  });
});

function deferred() {
  let resolve;
  const promise = new Promise((done) => { resolve = done; });
  return { promise, resolve };
}
