// The official TypeScript client through the gateway, over streamable HTTP and over stdio.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { ResultSchema, ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { direct, sameAnswers, sameDefinitions } from "./lib/compare.mjs";
import { call, listTools, names, overStdio } from "./lib/connect.mjs";
import { startGateway, workplace } from "./lib/gateway.mjs";
import { drawgate } from "./lib/paths.mjs";
import { until } from "./lib/until.mjs";

const SERVERS = ["everything", "time", "probe"];

describe("the TypeScript client over streamable HTTP", { timeout: 180_000 }, () => {
  let gateway, client;
  const control = {};
  before(async () => {
    gateway = await startGateway(SERVERS);
    client = await gateway.connect();
    for (const server of ["everything", "time"]) control[server] = await direct(server);
  });
  after(async () => {
    await Promise.all([client, ...Object.values(control)].map((one) => one?.close()));
    await gateway?.stop();
  });

  test("lists the tools of all servers and the built-in ones", async () => {
    const listed = names(await listTools(client));
    for (const name of ["everything__echo", "time__get_current_time", "vfs_read", "vfs_write"]) {
      assert.ok(listed.includes(name), `\`${name}\` is not in ${listed.join(", ")}`);
    }
  });

  for (const server of ["everything", "time"]) {
    test(`shows the definitions of \`${server}\` unchanged but for the name`, () =>
      sameDefinitions(control[server], client, server));
    test(`gives the answers of \`${server}\` unchanged`, () =>
      sameAnswers(control[server], client, server));
  }

  test("names the place in arguments that break the schema", async () => {
    const answer = await outcome(call(client, "everything__get-sum", { a: "one", b: 2 }));
    assert.match(answer, /INVALID_ARGUMENTS|invalid/i);
    assert.match(answer, /\ba\b/);
  });

  test("passes progress on, in order, before the answer", async () => {
    const seen = [];
    const onprogress = ({ progress, total }) => seen.push([progress, total]);
    const args = { duration: 0.5, steps: 5 };
    const tool = "everything__trigger-long-running-operation";
    const result = await call(client, tool, args, { onprogress });
    assert.deepEqual(seen, [[1, 5], [2, 5], [3, 5], [4, 5], [5, 5]]);
    assert.match(result.content[0].text, /Duration: 0.5 seconds, Steps: 5/);
  });

  test("calls a tool that works as a task only", async () => {
    const { tools } = await control.everything.listTools();
    const tool = tools.find((one) => one.name === "simulate-research-query");
    assert.equal(tool.execution.taskSupport, "required");
    await client.listTools();
    const args = { name: "everything__simulate-research-query", arguments: { topic: "gates" } };
    const result = await client.callTool(args);
    assert.match(result.content[0].text, /gates/);
  });

  test("tells what a server says about its use", () => {
    const said = control.everything.getInstructions();
    assert.ok(said.length > 100);
    assert.ok(client.getInstructions().includes(said.trim().slice(0, 1_900)));
  });

  test("carries a cancellation down to the server", async () => {
    // The one folder that a server may write.
    const log = join(gateway.data, "servers", "probe", "cancelled.log");
    const abort = new AbortController();
    const options = { signal: abort.signal, onprogress: () => abort.abort("enough") };
    await assert.rejects(call(client, "probe__wait", { log }, options));
    await until("the server has seen it", () => readFileSync(log, "utf8").includes("cancelled"));
    await sameAnswers(control.everything, client, "everything");
  });

  test("a client that goes away cancels its call", async () => {
    const log = join(gateway.data, "servers", "probe", "gone.log");
    const leaving = await gateway.connect();
    const pending = call(leaving, "probe__wait", { log }).catch(() => "gone");
    await until("the call has begun", () => existsSync(log));
    await leaving.close();
    assert.equal(await pending, "gone");
    await until("the server has seen it", () => readFileSync(log, "utf8").includes("cancelled"));
  });

  test("hears of a changed list and sees the new tool", async () => {
    const watcher = await gateway.connect();
    let hasHeard = false;
    watcher.setNotificationHandler(ToolListChangedNotificationSchema, () => { hasHeard = true; });
    // The client opens its stream in the background, and misses what changes before.
    let grown = 0;
    await until("the client hears of it", async () => {
      if (!hasHeard) await call(client, "probe__grow", { name: `sprout${grown += 1}` });
      return hasHeard;
    });
    assert.ok(names(await listTools(watcher)).includes("probe__sprout1"));
    const answer = await call(watcher, "probe__sprout1");
    assert.equal(answer.content[0].text, "called sprout1");
    await watcher.close();
  });

  test("a file of 5 MB comes back as a short text and a link to all of it", async () => {
    const content = "0123456789abcdef\n".repeat(Math.ceil(5_000_000 / 17)).slice(0, 5_000_000);
    const written = await call(client, "vfs_write", { path: "large.txt", content });
    assert.notEqual(written.isError, true, JSON.stringify(written).slice(0, 500));
    await wholeBehindLink(client, await call(client, "vfs_read", { path: "large.txt" }), content);
  });

  test("a server's output of 5 MB comes back the same way", async () => {
    const line = "The quick brown fox jumps over the lazy dog.\n";
    const content = line.repeat(120_000).slice(0, 5_000_000);
    await wholeBehindLink(client, await call(client, "probe__flood", { bytes: 5_000_000 }), content);
  });
});

describe("the TypeScript client over stdio", { timeout: 120_000 }, () => {
  let place, client;
  const control = {};
  before(async () => {
    place = workplace(["everything", "time"]);
    client = await overStdio(drawgate, ["mcp", "--data", place.data, "--config", place.config]);
    for (const server of ["everything", "time"]) control[server] = await direct(server);
    await until("both servers are listed", async () => {
      const listed = names(await listTools(client));
      return listed.includes("everything__echo") && listed.includes("time__get_current_time");
    });
  });
  after(async () => {
    await Promise.all([client, ...Object.values(control)].map((one) => one?.close()));
    place?.remove();
  });

  for (const server of ["everything", "time"]) {
    test(`shows and answers as \`${server}\` does`, async () => {
      await sameDefinitions(control[server], client, server);
      await sameAnswers(control[server], client, server);
    });
  }
});

/** What a call said, whether as a protocol error or as a result with `isError`. */
async function outcome(pending) {
  try {
    const result = await pending;
    assert.equal(result.isError, true, JSON.stringify(result));
    return JSON.stringify(result);
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return `${error.message} ${JSON.stringify(error.data ?? null)}`;
  }
}

/** The answer is short and its link leads to exactly `content`. */
async function wholeBehindLink(client, answer, content) {
  assert.ok(JSON.stringify(answer).length < 300_000, "the answer itself is not short");
  const link = answer.content.find((part) => part.type === "resource_link");
  assert.ok(link, `no link in ${JSON.stringify(answer).slice(0, 500)}`);
  const read = { method: "resources/read", params: { uri: link.uri } };
  const { contents } = await client.request(read, ResultSchema, { timeout: 60_000 });
  const [{ text, blob }] = contents;
  const whole = text ?? Buffer.from(blob, "base64").toString("utf8");
  assert.equal(whole.length, content.length);
  assert.ok(whole === content, "the bytes behind the link differ");
}
