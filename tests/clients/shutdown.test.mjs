// SIGTERM ends the gateway in good order: calls under way finish, and nothing of it stays behind.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { call } from "./lib/connect.mjs";
import { startGateway } from "./lib/gateway.mjs";
import { until } from "./lib/until.mjs";

/** The running processes of this machine. One that has ended but was not collected is not running. */
function processes() {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (fields[0] === "Z") return [];
      return [{ pid: Number(pid), parent: Number(fields[1]), started: fields[19] }];
    } catch {
      return [];
    }
  });
}

function descendants(root) {
  const all = processes();
  const found = [];
  let level = [root];
  while (level.length > 0) {
    const next = all.filter(({ parent }) => level.includes(parent));
    found.push(...next);
    level = next.map(({ pid }) => pid);
  }
  return found;
}

const alive = ({ pid, started }) =>
  processes().some((one) => one.pid === pid && one.started === started);

describe("SIGTERM", { timeout: 120_000 }, () => {
  test("lets a call finish, exits 0 and leaves no process behind", async () => {
    const gateway = await startGateway(["everything", "time"]);
    const children = descendants(gateway.child.pid);
    assert.ok(children.length >= 2, "both servers run below the gateway");
    const client = await gateway.connect();
    let answer;
    await new Promise((onprogress, failed) => {
      const args = { duration: 1, steps: 4 };
      const tool = "everything__trigger-long-running-operation";
      answer = call(client, tool, args, { onprogress });
      answer.catch(failed);
    });
    const exit = gateway.stop();
    assert.match((await answer).content[0].text, /completed/);
    await client.close().catch(() => {});
    assert.deepEqual(await exit, { code: 0, signal: null });
    await until("nothing of it runs any more", () => !children.some(alive));
  });

  test("an idle gateway ends although a client stays connected", async () => {
    const gateway = await startGateway(["everything", "time"]);
    const client = await gateway.connect();
    assert.deepEqual(await gateway.stop(), { code: 0, signal: null });
    await until("it is closed", () => fetch(gateway.base).then(() => false, () => true));
    await client.close().catch(() => {});
  });
});
