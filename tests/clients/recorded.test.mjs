// What real servers list comes through whole: each of their tools is there with its own definition, and
// is called by its own name. The lists are in recorded/; awkward.json holds what no server should send
// and some do.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { withoutTasks } from "./lib/compare.mjs";
import { call, listTools } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { recordings, startReplay } from "./lib/replay.mjs";
import { sample } from "./lib/sample.mjs";
import { until } from "./lib/until.mjs";

/** Short ids leave room for the tools' own names. */
const idOf = (recording) => `s${recordings.indexOf(recording)}`;

/** The changes that Drawgate makes on purpose. */
function changed(tool) {
  const hidden = /[\u{200b}\u{1b}]/gu;
  const shown = (text) => text.replace(hidden, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  return { ...withoutTasks(tool), ...(tool.description && { description: shown(tool.description) }) };
}

describe("recorded tools", () => {
  let replay, gateway, client, listed;

  before(async () => {
    replay = await startReplay();
    // Some demand a person or a scope, and every one is called here.
    const tables = recordings.map((recording) => `[servers.${idOf(recording)}]
transport = "streamable_http"
url = "${replay.address(recording)}"
annotations = "ignore"
`);
    gateway = await startGatewayWith(tables.join("\n"), []);
    client = await gateway.connect();
    const wanted = recordings.reduce((sum, { tools }) => sum + tools.length, 0);
    await until(`${wanted} tools are listed`, async () => {
      listed = (await listTools(client)).filter(({ name }) => /^s\d+__/.test(name));
      return listed.length === wanted;
    }).catch(() => {});
  });

  after(async () => {
    await client?.close();
    await gateway?.stop();
    await replay?.stop();
  });

  for (const recording of recordings) {
    test(`${recording.server}: ${recording.tools.length} tools`, async () => {
      const prefix = `${idOf(recording)}__`;
      const ours = listed.filter(({ name }) => name.startsWith(prefix));
      const found = new Map();
      for (const { name, ...definition } of ours) {
        assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/);
        const args = sample(definition.inputSchema);
        const answer = await call(client, name, args);
        assert.ok(!answer.isError, `${name}: ${JSON.stringify(answer)}`);
        const called = JSON.parse(answer.content[0].text);
        assert.deepEqual(called.args, args);
        found.set(called.name, { name: called.name, ...definition });
      }
      for (const tool of recording.tools) {
        assert.deepEqual(found.get(tool.name), changed(tool), `${recording.server}: ${tool.name}`);
      }
      assert.equal(found.size, recording.tools.length);
    });
  }

  test("the log has awkward names in letters that hide nothing", async () => {
    const id = idOf(recordings.find(({ file }) => file === "awkward.json"));
    const log = await gateway.cli("audit", "export");
    const ids = log.split("\n").filter(Boolean).map((line) => JSON.parse(line).toolId).filter(Boolean);
    for (const name of ["files%2Fread", "files%3Aread", "gr%C3%B6%C3%9Fe", "zero%E2%80%8Bwidth"]) {
      assert.ok(ids.includes(`${id}:${name}`), name);
    }
    assert.deepEqual(ids.filter((text) => !/^[a-zA-Z0-9_.%~:@/-]+$/.test(text)), []);
  });
});
