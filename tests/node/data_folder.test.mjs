// A data folder: what outlives the process, who may open it, and what the command line says about it.

import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { ToolGateway, call, events, folder, open, text, tool } from "./lib/gateway.mjs";
import { drawgate } from "./lib/paths.mjs";
import { run, start } from "./lib/program.mjs";

/** Runs a command of the command line on a data folder. */
const cli = (dataDir, ...args) => run(drawgate, [...args, "--data", dataDir, "--config", "none"]);

function intact(dataDir) {
  const verified = cli(dataDir, "audit", "verify");
  assert.equal(verified.status, 0, verified.stdout + verified.stderr);
  assert.match(verified.stdout, /intact/);
}

describe("a data folder", { timeout: 180_000 }, () => {
  test("keeps grants and the log over the end of the process", async (t) => {
    const dataDir = join(folder(t), "data");
    const first = new ToolGateway({ dataDir });
    first.registerTools("js", [tool("echo", () => "same", { annotations: { requiredScopes: ["notes"] } })]);
    const grantId = first.grantCapability({ capability: "notes" });
    assert.equal(text(await call(first, "js:echo")), "same");
    const before = events(first);
    await first.close();
    intact(dataDir);
    const second = open(t, { dataDir });
    assert.ok(second.getSnapshot().grants.some((grant) => grant.grantId === grantId));
    const after = events(second);
    assert.deepEqual(after.slice(0, before.length), before);
    second.registerTools("js", [tool("echo", () => "same", { annotations: { requiredScopes: ["notes"] } })]);
    assert.equal(text(await call(second, "js:echo")), "same");
    second.revokeCapability(grantId);
  });

  test("is whole after kill -9, again and again", async (t) => {
    const dataDir = join(folder(t), "data");
    let known = 0;
    for (let round = 0; round < 5; round++) {
      const { child, exited, next } = start(t, "busy.mjs", { dataDir });
      let told;
      do told = await next(); while (told.answered < 50);
      child.kill("SIGKILL");
      assert.equal((await exited).signal, "SIGKILL");
      intact(dataDir);
      const gateway = new ToolGateway({ dataDir });
      const all = events(gateway);
      const of = (kind) => all.filter((event) => event.kind === kind);
      assert.ok(of("outcome").length >= known + 50, "what was answered is in the log");
      known = of("outcome").length;
      const ids = of("outcome").map((event) => event.callId);
      assert.equal(new Set(ids).size, ids.length, "one outcome for each call");
      for (const { callId } of of("decision")) assert.ok(ids.includes(callId), "every call that began has an outcome");
      await gateway.close();
    }
    intact(dataDir);
  });

  test("has one owner: in this process, in another, and on the command line", async (t) => {
    const dataDir = join(folder(t), "data");
    const gateway = open(t, { dataDir });
    const conflict = (error) => error.code === "CONFLICT" && error.message.includes(dataDir);
    assert.throws(() => new ToolGateway({ dataDir }), conflict);
    const { next } = start(t, "opens.mjs", { dataDir });
    const { code } = await next();
    assert.equal(code, "CONFLICT");
    const beside = cli(dataDir, "tools", "list");
    assert.notEqual(beside.status, 0, beside.stdout);
    await gateway.close();
    assert.equal(cli(dataDir, "tools", "list").status, 0);
    open(t, { dataDir });
  });

  test("is shared with the command line, one after the other", async (t) => {
    const dataDir = join(folder(t), "data");
    const first = new ToolGateway({ dataDir });
    first.grantCapability({ capability: "notes", scope: "workspace" });
    await first.close();
    const listed = cli(dataDir, "grants", "list", "--json");
    assert.match(listed.stdout, /"notes"/, listed.stderr);
    const added = cli(dataDir, "grants", "add", "from-the-cli", "--scope", "workspace");
    assert.equal(added.status, 0, added.stderr);
    const second = open(t, { dataDir });
    assert.ok(second.getSnapshot().grants.some((grant) => grant.capability === "from-the-cli"));
  });

  test("that can't be used is refused", () => {
    assert.throws(() => new ToolGateway({ dataDir: "/proc/no/such/folder" }), (error) => typeof error.code === "string");
  });
});
