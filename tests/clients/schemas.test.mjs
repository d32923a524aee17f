// A server with every odd output schema beside a good one: no client loses the good one, and each can call
// the odd tools too.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { listTools } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { Modern } from "./lib/modern.mjs";
import { isOlder, OFFICIAL } from "./lib/official.mjs";
import { clients, node, servers } from "./lib/paths.mjs";
import { TOOLS } from "./servers/odd_schemas.mjs";

const table = (name, command, args) =>
  `[servers.${name}]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`;
const TABLES = [
  table("odd", node, [join(clients, "servers/odd_schemas.mjs")]),
  table("good", servers.everything.command, servers.everything.args),
].join("\n");

const CHICAGO = ["good__get-structured-content", { location: "Chicago" }];
const odd = Object.keys(TOOLS);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

describe("odd output schemas", { timeout: 240_000 }, () => {
  let gateway;
  before(async () => {
    gateway = await startGatewayWith(TABLES, ["odd__object", CHICAGO[0]]);
  });
  after(() => gateway?.stop());

  for (const [name, converse] of Object.entries(OFFICIAL)) {
    test(`${name} has all tools and can call them`, async () => {
      const calls = [CHICAGO, ...odd.map((tool) => [`odd__${tool}`, {}])];
      const { tools, results } = await converse(gateway.url, gateway.adminToken, calls);
      const listed = tools.map((tool) => tool.name);
      for (const [tool] of calls) assert.ok(listed.includes(tool), `${tool} is listed`);
      const [good, ...others] = results;
      assert.equal(typeof good.structuredContent.temperature, "number");
      for (const [at, tool] of odd.entries()) {
        const [, value] = TOOLS[tool];
        const { structuredContent, content, isError } = others[at];
        assert.ok(!isError, `${tool}: ${JSON.stringify(content)}`);
        if (isOlder(name) && !isObject(value)) {
          assert.equal(structuredContent, undefined, tool);
          assert.deepEqual(JSON.parse(content[0].text), value, tool);
        } else if (value !== null) {
          assert.deepEqual(structuredContent, value, tool);
        }
      }
    });
  }

  test("each era is told the schemas that it knows", async () => {
    const modern = await Modern.connect(gateway.url, gateway.adminToken, { capabilities: {}, answers: {} });
    const older = await gateway.connect();
    try {
      const schemas = (tools) => Object.fromEntries(
        tools.map((tool) => [tool.name.replace("odd__", ""), tool.outputSchema]),
      );
      const now = schemas((await modern.request("tools/list")).tools);
      const before = schemas(await listTools(older));
      for (const tool of ["object", "array", "string", "empty", "one_of", "reference"]) {
        assert.deepEqual(now[tool], TOOLS[tool][0], tool);
      }
      for (const tool of ["object", "dialect", "format", "recursive"]) {
        assert.deepEqual(before[tool], TOOLS[tool][0], tool);
      }
      for (const tool of ["array", "empty", "one_of", "nullable", "odd_pattern", "namesake"]) {
        assert.equal(before[tool], undefined, tool);
      }
      for (const tool of ["true_itself", "null_itself", "remote", "dangling", "odd_dialect", "nullable"]) {
        assert.equal(now[tool], undefined, tool);
      }
    } finally {
      modern.close();
      await older.close();
    }
  });
});
