// The MCP Inspector's command line through the gateway.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { STEADY_CALLS, direct, steady, withoutTasks } from "./lib/compare.mjs";
import { call, listTools } from "./lib/connect.mjs";
import { startGateway } from "./lib/gateway.mjs";
import { inspector, node } from "./lib/paths.mjs";

const run = promisify(execFile);
const SERVERS = ["everything", "time"];

describe("the MCP Inspector", { timeout: 180_000 }, () => {
  let gateway;
  const control = {};
  before(async () => {
    gateway = await startGateway(SERVERS);
    for (const server of SERVERS) control[server] = await direct(server);
  });
  after(async () => {
    await Promise.all(Object.values(control).map((client) => client.close()));
    await gateway?.stop();
  });

  /** One method, in one protocol era; its result. */
  async function inspect(era, token, ...rest) {
    const where = ["--cli", gateway.url, "--transport", "http", "--protocol-era", era];
    const how = ["--header", `Authorization: Bearer ${token}`, "--stored-auth-only", "--quiet", "--format", "json"];
    // Its settings belong into the test's own folder.
    const env = { ...process.env, HOME: gateway.home };
    const options = { env, timeout: 60_000, maxBuffer: 64 << 20 };
    const { stdout } = await run(node, [inspector, ...where, ...how, ...rest], options);
    const answer = JSON.parse(stdout);
    return answer.result ?? answer;
  }

  for (const era of ["legacy", "auto"]) {
    test(`lists the servers' own definitions (${era})`, async () => {
      const { tools } = await inspect(era, gateway.adminToken, "--method", "tools/list");
      assert.ok(tools.some(({ name }) => name === "vfs_read"));
      for (const server of SERVERS) {
        for (const tool of await listTools(control[server])) {
          const wanted = { ...withoutTasks(tool), name: `${server}__${tool.name}` };
          // The newest revision has no `execution`, and its client drops the field from what it shows.
          if (era === "auto") delete wanted.execution;
          assert.deepEqual(tools.find((one) => one.name === wanted.name), wanted);
        }
      }
    });

    test(`calls as the servers themselves answer (${era})`, async () => {
      for (const server of SERVERS) {
        const [tool, args] = STEADY_CALLS[server][0];
        const wanted = await call(control[server], tool, args);
        const what = ["--method", "tools/call", "--tool-name", `${server}__${tool}`];
        const got = await inspect(era, gateway.adminToken, ...what, "--tool-args-json", JSON.stringify(args));
        assert.deepEqual(steady(got.content), steady(wanted.content));
        assert.deepEqual(steady(got.structuredContent ?? null), steady(wanted.structuredContent ?? null));
      }
    });
  }

  test("is refused with a foreign token", async () => {
    await assert.rejects(inspect("legacy", "not-a-token", "--method", "tools/list"));
  });
});
