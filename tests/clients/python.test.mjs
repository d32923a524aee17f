// The official Python client through the gateway: both transports, and both ways of opening a
// conversation (the initialize handshake, and `server/discover`).

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { STEADY_CALLS, steady, withoutTasks } from "./lib/compare.mjs";
import { startGateway, workplace } from "./lib/gateway.mjs";
import { drawgate } from "./lib/paths.mjs";
import { pythonDirect, pythonOverHttp, pythonOverStdio } from "./lib/python.mjs";

const SERVERS = ["everything", "time"];
const CALLS = SERVERS.flatMap((server) => STEADY_CALLS[server].map((call) => [server, call]));
const NOW = ["time__get_current_time", { timezone: "Europe/Lisbon" }];
const THROUGH = [...CALLS.map(([server, [tool, args]]) => [`${server}__${tool}`, args]), NOW];

/** The parts of a result that a server decides; the rest depends on the protocol's revision. */
const answer = ({ content, structuredContent, isError }) =>
  steady({ content, structuredContent, isError });

describe("the Python client", { timeout: 240_000 }, () => {
  let control;
  before(async () => {
    control = { tools: [], results: [] };
    for (const server of SERVERS) {
      const seen = await pythonDirect("legacy", server, STEADY_CALLS[server]);
      control.tools.push(...seen.tools.map((tool) => ({ ...withoutTasks(tool), name: `${server}__${tool.name}` })));
      control.results.push(...seen.results);
    }
  });

  function check(seen) {
    for (const tool of control.tools) {
      assert.deepEqual(seen.tools.find(({ name }) => name === tool.name), tool);
    }
    assert.ok(seen.tools.some(({ name }) => name === "vfs_read"));
    const now = seen.results.at(-1);
    assert.equal(now.structuredContent.timezone, "Europe/Lisbon");
    assert.ok(Math.abs(Date.parse(now.structuredContent.datetime) - Date.now()) < 600_000);
    assert.deepEqual(seen.results.slice(0, -1).map(answer), control.results.map(answer));
  }

  describe("over streamable HTTP", () => {
    let gateway;
    before(async () => { gateway = await startGateway(SERVERS); });
    after(() => gateway?.stop());

    for (const mode of ["legacy", "auto"]) {
      test(`lists and calls as the servers themselves do (${mode})`, async () => {
        check(await pythonOverHttp(mode, gateway.url, gateway.adminToken, THROUGH));
      });
    }

    test("is refused with a foreign token", async () => {
      await assert.rejects(pythonOverHttp("legacy", gateway.url, "not-a-token", []), /MCPError/);
    });
  });

  for (const mode of ["legacy", "auto"]) {
    test(`over stdio lists and calls as the servers themselves do (${mode})`, async () => {
      const place = workplace(SERVERS);
      const args = ["mcp", "--data", place.data, "--config", place.config];
      try {
        check(await pythonOverStdio(mode, drawgate, args, THROUGH));
      } finally {
        place.remove();
      }
    });
  }
});
