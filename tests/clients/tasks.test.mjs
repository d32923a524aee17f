// FastMCP's client declares tasks and follows them, without the header that repeats a task's name. A call that takes longer than
// the limit is answered as long as nothing shows that it follows tasks, and is a task from then on; no answer is lost.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { startProgram } from "./lib/gateway.mjs";
import { clients, drawgate, fastmcp, node, servers } from "./lib/paths.mjs";

const run = promisify(execFile);
const SERVER = resolve(clients, "../conformance/servers/server2026.mjs");
const table = (name, { command, args }) =>
  `[servers.${name}]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`;
// No call is so fast that it does not take longer than this.
const CONFIGURATION = [
  "[limits]\ntask_after_seconds = 0\n",
  table("everything", servers.everything),
  table("far", { command: node, args: [SERVER, "--stdio"] }),
].join("\n");

describe("FastMCP and tasks", { timeout: 120_000 }, () => {
  let gateway;
  before(async () => {
    gateway = await startProgram(drawgate, CONFIGURATION, ["everything__echo", "far__slow_compute"]);
  });
  after(() => gateway?.stop());

  test("gets every answer, with and without a task", async () => {
    const script = join(clients, "fastmcp_client.py");
    const args = [script, gateway.url, gateway.adminToken, "everything__echo", "far__slow_compute"];
    const { stdout } = await run(fastmcp, args, { timeout: 90_000 });
    const { polls, made, ...got } = JSON.parse(stdout);
    assert.deepEqual(got, {
      answered: "Echo: hello", early: null, late: "Echo: hello", followed: "Echo: hello",
    });
    assert.ok(made.length > 0);
    assert.ok(polls.length >= 3, "each task was followed");
    assert.deepEqual([...new Set(polls)], [null], "without the header");
  });
});
