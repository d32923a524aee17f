// Clients of the revisions with sessions, before and after a restart of the gateway: the session is gone, and the answer says so
// (404). None of the official clients begins a new session by itself. The TypeScript ones reject the call with that
// status, the first Python one with "Session terminated" and the second with the gateway's own words; the program connects anew
// and goes on.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { restartGateway, startGatewayWith } from "./lib/gateway.mjs";
import { isOlder, TYPESCRIPT } from "./lib/official.mjs";
import { clients, python, python1, servers } from "./lib/paths.mjs";

const { command, args } = servers.everything;
const TABLE = `[servers.everything]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`;
const TOOL = "everything__echo";
const SAID = "Echo: hello";
const PYTHON = { "Python v1": [python1, "v1"], "Python v2 (2025-11-25)": [python, "v2"] };

async function typescript(make, gateway) {
  const call = { name: TOOL, arguments: { message: "hello" } };
  const [client, transport] = make(gateway.url, gateway.adminToken);
  await client.connect(transport);
  assert.equal((await client.callTool(call)).content[0].text, SAID);
  return async () => {
    const error = await client.callTool(call).then(() => assert.fail("no session is left"), (error) => error);
    assert.equal(error.status ?? error.data?.status ?? error.code, 404, error.stack);
    await client.close().catch(() => {});
    const [anew, another] = make(gateway.url, gateway.adminToken);
    await anew.connect(another);
    assert.equal((await anew.callTool(call)).content[0].text, SAID);
    await anew.close();
  };
}

async function inPython([interpreter, version], gateway) {
  const script = join(clients, "python_restart.py");
  const child = spawn(interpreter, [script, version, gateway.url, gateway.adminToken, TOOL]);
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (chunk) => { complaints += chunk; });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  assert.equal((await lines.next()).value, "called", complaints);
  return async () => {
    child.stdin.end("\n");
    const { value, done } = await lines.next();
    assert.ok(!done, complaints);
    const said = JSON.parse(value);
    assert.deepEqual([said.before, said.anew], [SAID, SAID], value);
    assert.match(said.error, /Session (terminated|not found)/, value);
  };
}

describe("a restart of the gateway", { timeout: 240_000 }, () => {
  let gateway;
  before(async () => {
    gateway = await startGatewayWith(TABLE, [TOOL]);
  });
  after(() => gateway?.stop());

  test("ends sessions in a way that every official client understands", async () => {
    const older = Object.entries(TYPESCRIPT).filter(([name]) => isOlder(name));
    const rest = [];
    for (const [, make] of older) rest.push(await typescript(make, gateway));
    for (const how of Object.values(PYTHON)) rest.push(await inPython(how, gateway));
    gateway = await restartGateway(gateway, [TOOL]);
    for (const goOn of rest) await goOn();
  });
});
