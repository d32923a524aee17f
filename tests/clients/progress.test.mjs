// However many reports and log messages a tool writes, the last of each reaches the client before the
// result does.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { call } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { clients, node } from "./lib/paths.mjs";

describe("a tool that reports as fast as it can", { timeout: 240_000 }, () => {
  let gateway, client;
  const messages = [];
  before(async () => {
    const args = JSON.stringify([join(clients, "servers/steps.mjs")]);
    const table = `[servers.s]\ncommand = ${JSON.stringify(node)}\nargs = ${args}\nsandbox = "none"\nnames = "qualified"\n`;
    gateway = await startGatewayWith(table, ["s__steps"]);
    client = await gateway.connect();
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => { messages.push(params.data); });
  });
  after(async () => {
    await client?.close();
    await gateway?.stop();
  });

  for (const count of [1, 100, 1000]) {
    test(`${count} reports`, async () => {
      messages.length = 0;
      const reports = [];
      const onprogress = ({ progress }) => reports.push(progress);
      const { content } = await call(client, "s__steps", { count }, { onprogress });
      assert.equal(content[0].text, "done");
      assert.equal(reports.at(-1), count);
      assert.equal(messages.at(-1), count);
      assert.deepEqual(reports, [...new Set(reports)].sort((one, other) => one - other), "in order, each once");
      const missing = messages.find((message) => typeof message === "string");
      assert.equal(missing !== undefined, messages.filter(Number.isInteger).length < count, "what is missing is said");
    });
  }
});
