// The same call has the same hashes in the audit log, whether it is made in process, over MCP or on the command line.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { call as callOver } from "../clients/lib/connect.mjs";
import { startGatewayWith } from "../clients/lib/gateway.mjs";
import { call, open, outcomes } from "./lib/gateway.mjs";

const ARGUMENTS = { text: "grüße, 世界 \u{1f980}", n: 1.5, nested: { b: [true, null], a: "" }, password: "hunter2" };

test("the hashes of a call are the same on every way into the gate", { timeout: 120_000 }, async (t) => {
  const server = createServer((request, response) => {
    request.resume().on("end", () => response.setHeader("content-type", "application/json")
      .end(JSON.stringify({ success: true, content: [{ type: "text", text: "hello, token=abc" }] })));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => { server.closeAllConnections(); server.close(); });
  const url = `http://127.0.0.1:${server.address().port}/`;
  const greet = { name: "greet", description: "Greets.", inputSchema: { type: "object" } };
  const hashes = ({ inputHash, outputHash, success }) => ({ inputHash, outputHash, success });

  const gateway = open(t, { capabilities: ["*"] });
  gateway.registerServer({ serverId: "web", transport: "http", url, manifest: { serverId: "web", name: "web", version: "1", tools: [greet] } });
  await gateway.ready("web");
  const result = await call(gateway, "web:greet", ARGUMENTS);
  assert.equal(result.success, true, result.error?.message);
  const inProcess = hashes(outcomes(gateway, result.requestId)[0]);
  assert.match(inProcess.inputHash, /^[0-9a-f]{64}$/);

  const tables = `[servers.web]
protocol = "call"
url = "${url}"
manifest = [{ name = "greet", description = "Greets.", inputSchema = { type = "object" } }]
`;
  const served = await startGatewayWith(tables, ["web__greet"]);
  t.after(() => served.stop());
  const client = await served.connect();
  await callOver(client, "web__greet", ARGUMENTS);
  await client.close();
  await served.cli("tools", "call", "web__greet", "--input", JSON.stringify(ARGUMENTS));
  const logged = (await served.cli("audit", "tail", "--json")).trim().split("\n").map((line) => JSON.parse(line));
  const found = logged.filter((event) => event.kind === "outcome").map(({ surface, ...event }) => [surface, hashes(event)]);
  assert.equal(found.length, 2, JSON.stringify(found));
  for (const [surface, same] of found) assert.deepEqual(same, inProcess, surface);
  assert.notEqual(found[0][0], found[1][0], "they came in different ways");
});
