// The servers by themselves. When one of these fails, a dependency is at fault and not the gateway;
// they also hold the other tests to real content, since those only compare.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { STEADY_CALLS, direct, sameAnswers, sameDefinitions, steady } from "./lib/compare.mjs";
import { call, listTools, names } from "./lib/connect.mjs";

describe("the servers by themselves", { timeout: 120_000 }, () => {
  const client = {};
  before(async () => {
    for (const server of ["everything", "time", "probe"]) client[server] = await direct(server);
  });
  after(() => Promise.all(Object.values(client).map((one) => one.close())));

  test("list the tools that the other tests call", async () => {
    for (const [server, calls] of Object.entries(STEADY_CALLS)) {
      const listed = names(await listTools(client[server]));
      for (const [tool] of calls) assert.ok(listed.includes(tool), `${server} has no \`${tool}\``);
    }
    assert.ok(names(await listTools(client.everything)).includes("trigger-long-running-operation"));
    assert.ok(names(await listTools(client.time)).includes("get_current_time"));
    assert.deepEqual(names(await listTools(client.probe)), ["flood", "grow", "wait"]);
  });

  test("answer with text, images, structure and annotations", async () => {
    const echo = await call(client.everything, "echo", { message: "hello" });
    assert.deepEqual(echo, { content: [{ type: "text", text: "Echo: hello" }] });
    const image = await call(client.everything, "get-tiny-image");
    assert.equal(image.content[1].type, "image");
    assert.equal(Buffer.from(image.content[1].data, "base64").subarray(1, 4).toString(), "PNG");
    const weather = await call(client.everything, "get-structured-content", { location: "Chicago" });
    assert.equal(weather.structuredContent.temperature, 36);
    const note = await call(client.everything, "get-annotated-message", { messageType: "error" });
    assert.equal(note.content[0].annotations.priority, 1);
    const [, wrong] = STEADY_CALLS.time;
    assert.equal((await call(client.time, ...wrong)).isError, true);
  });

  test("give the same answers twice, so that a comparison is fair", async () => {
    for (const server of Object.keys(STEADY_CALLS)) {
      for (const [tool, args] of STEADY_CALLS[server]) {
        const [one, two] = [await call(client[server], tool, args), await call(client[server], tool, args)];
        assert.deepEqual(steady(one), steady(two), `${server}: ${tool}`);
      }
    }
  });

  test("a comparison notices a change", async () => {
    const altered = (change) => ({
      request: async (...args) => change(await client.time.request(...rename(args))),
    });
    const rename = ([{ method, params }, ...rest]) => [
      { method, params: { ...params, name: params.name?.replace("time__", "") } },
      ...rest,
    ];
    const prefix = (tool) => ({ ...tool, name: `time__${tool.name}` });
    const renamed = (result) => (result.tools ? { ...result, tools: result.tools.map(prefix) } : result);
    const untitled = (result) => ({
      ...renamed(result),
      tools: result.tools?.map(({ outputSchema, ...tool }) => prefix(tool)),
    });
    const unstructured = ({ structuredContent, ...result }) => result;
    await sameDefinitions(client.time, altered(renamed), "time");
    await sameAnswers(client.time, altered(renamed), "time");
    await assert.rejects(sameDefinitions(client.time, altered(untitled), "time"), assert.AssertionError);
    await assert.rejects(sameAnswers(client.time, altered(unstructured), "time"), assert.AssertionError);
  });
});
