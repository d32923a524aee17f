// Who sees and calls what: agents with different capabilities, and what happens to them when a
// grant or the agent itself is taken away by a command while the gateway is running.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { call, listTools, names } from "./lib/connect.mjs";
import { startGateway } from "./lib/gateway.mjs";

describe("agents", { timeout: 120_000 }, () => {
  let gateway;
  before(async () => { gateway = await startGateway(["everything", "time"]); });
  after(() => gateway?.stop());

  async function agent(name, capability) {
    const printed = await gateway.cli("agents", "add", name, "--capability", capability, "--quiet");
    const token = printed.trim();
    assert.match(token, /^\S+$/, "`agents add --quiet` prints the token alone");
    return gateway.connect(token);
  }

  /** Why a call was refused: the protocol's error or a result with `isError`. */
  async function refusal(client, tool, args) {
    try {
      const result = await call(client, tool, args);
      assert.equal(result.isError, true, `\`${tool}\` answered ${JSON.stringify(result)}`);
      return { result: JSON.stringify(result) };
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      return { code: error.code, message: error.message, data: JSON.stringify(error.data ?? null) };
    }
  }

  const from = (server, listed) => listed.filter((name) => name.startsWith(`${server}__`));

  test("with different capabilities see different lists", async () => {
    const demo = await agent("list-demo", "demo");
    const clock = await agent("list-clock", "clock");
    const [seenByDemo, seenByClock] = [names(await listTools(demo)), names(await listTools(clock))];
    assert.ok(from("everything", seenByDemo).length > 5);
    assert.deepEqual(from("time", seenByDemo), []);
    assert.deepEqual(from("time", seenByClock), ["time__convert_time", "time__get_current_time"]);
    assert.deepEqual(from("everything", seenByClock), []);
    await Promise.all([demo.close(), clock.close()]);
  });

  test("cannot tell a hidden tool from one that does not exist", async () => {
    const demo = await agent("hidden-demo", "demo");
    const args = { timezone: "Europe/Paris" };
    const secret = "time__get_current_time";
    const hidden = await refusal(demo, secret, args);
    for (const unknown of ["time__get_current_tome", "tame__get_current_time"]) {
      const answer = JSON.stringify(await refusal(demo, unknown, args));
      assert.deepEqual(hidden, JSON.parse(answer.replaceAll(unknown, secret)));
    }
    await demo.close();
  });

  test("lose a tool with the very next call after a grant is revoked", async () => {
    const demo = await agent("revoked-demo", "demo");
    const args = { message: "still here" };
    assert.equal((await call(demo, "everything__echo", args)).content[0].text, "Echo: still here");
    for (const id of await grantsOf("revoked-demo")) await gateway.cli("grants", "revoke", id);
    await refusal(demo, "everything__echo", args);
    assert.deepEqual(from("everything", names(await listTools(demo))), []);
    await demo.close();
  });

  test("are refused with the very next call once removed", async () => {
    const demo = await agent("removed-demo", "demo");
    const other = await agent("kept-demo", "demo");
    await call(demo, "everything__echo", { message: "one" });
    await gateway.cli("agents", "remove", "removed-demo");
    await assert.rejects(call(demo, "everything__echo", { message: "two" }), /401|nauthori[sz]ed/);
    await call(other, "everything__echo", { message: "three" });
    await Promise.all([demo.close().catch(() => {}), other.close()]);
  });

  test("without a token get nowhere", async () => {
    await assert.rejects(gateway.connect("not-a-token"), /401|nauthori[sz]ed/);
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const answer = await fetch(gateway.url, { method: "POST", headers, body });
    assert.equal(answer.status, 401);
  });

  /** The ids of the grants in the scope of one agent. */
  async function grantsOf(name) {
    const printed = JSON.parse(await gateway.cli("grants", "list", "--json"));
    const grants = Array.isArray(printed) ? printed : printed.grants;
    const ids = grants.filter(({ scope }) => scope === `user:${name}`).map(({ grantId }) => grantId);
    assert.ok(ids.length > 0, `no grant of ${name} in ${JSON.stringify(grants)}`);
    return ids;
  }
});
