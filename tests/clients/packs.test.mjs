// Packs that dial in: one in Python that knows nothing but the contract, and the bridge in front of the
// official server; each serves the official MCP client and an agent over gRPC.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { call, listTools, names } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { clients, drawgate, python, servers } from "./lib/paths.mjs";
import { until } from "./lib/until.mjs";

const run = promisify(execFile);
const EXAMPLE = resolve(clients, "../../examples/packs/python");
const BRIDGE = join(drawgate, "../drawgate-mcp-bridge");

/** A gateway with keys, and whoever dials in to it. */
class Place {
  static async start() {
    const place = new Place();
    place.gateway = await startGatewayWith("", []);
    place.target = new URL(place.gateway.base).host;
    place.children = [];
    return place;
  }

  /** Makes a key and authorises it. */
  async key(name, ...terms) {
    const file = join(this.gateway.home, `${name}.key`);
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", file]);
    await this.gateway.cli("keys", "add", ...terms, `${file}.pub`);
    return file;
  }

  /** Starts a program that dials in. */
  dial(command, args) {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    child.said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => { child.said += text; });
    }
    child.gone = new Promise((done) => child.on("exit", done));
    this.children.push(child);
    return child;
  }

  /** What an agent over gRPC prints. */
  async agent(name, key, ...rest) {
    const where = ["--gateway", this.target, "--name", name, "--key", key];
    const { stdout } = await run(python, [join(EXAMPLE, "agent.py"), ...where, ...rest]);
    return JSON.parse(stdout);
  }

  async listed(client, ...expected) {
    await until(`${expected} are listed`, async () => {
      const found = names(await listTools(client));
      return expected.every((name) => found.includes(name));
    });
  }

  async stop() {
    for (const child of this.children) {
      child.kill("SIGKILL");
      await child.gone;
    }
    await this.gateway.stop();
  }
}

describe("the pack in Python", { timeout: 120_000 }, () => {
  let place, client, key, pack;
  before(async () => {
    place = await Place.start();
    client = await place.gateway.connect();
    key = await place.key("python", "--pack", "python-text", "--tools", "*");
  });
  after(async () => {
    await client?.close();
    await place?.stop();
  });

  const start = () => place.dial(python, [join(EXAMPLE, "pack.py"), "--gateway", place.target, "--key", key]);

  test("serves an MCP client, which hears that it came", async () => {
    let changes = 0;
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => { changes += 1; });
    pack = start();
    await place.listed(client, "text_stats", "top_words");
    await until("the client hears of it", () => changes >= 1);
    const counted = await call(client, "text_stats", { text: "one two\nthree" });
    assert.deepEqual(counted.structuredContent, { lines: 2, words: 3, characters: 13 });
  });

  test("its errors pass as it wrote them, and its schemas hold", async () => {
    const empty = await call(client, "top_words", { text: " ", limit: 1 });
    assert.equal(empty.isError, true);
    assert.match(empty.content[0].text, /the text has no words/);
    const wrong = await call(client, "top_words", { text: "x", limit: 0 });
    assert.equal(wrong.isError, true);
    assert.match(wrong.content[0].text, /limit/);
  });

  test("serves agents over gRPC, each what it may hold", async () => {
    const reader = await place.key("reader", "--agent", "reader", "--capability", "text");
    const guest = await place.key("guest", "--agent", "guest");
    assert.ok((await place.agent("reader", reader)).includes("top_words"));
    assert.ok(!(await place.agent("guest", guest)).includes("top_words"));
    const asked = JSON.stringify({ text: "to be or not to be", limit: 1 });
    const top = await place.agent("reader", reader, "top_words", asked);
    assert.deepEqual(top, [{ word: "to", count: 2 }]);
    await assert.rejects(place.agent("guest", guest, "top_words", asked), /PERMISSION_DENIED/);
    await assert.rejects(place.agent("reader", guest), /UNAUTHENTICATED/);
  });

  test("goes when it is killed, and comes back by itself", async () => {
    pack.kill("SIGKILL");
    await until("its tools are gone", async () => !names(await listTools(client)).includes("text_stats"));
    pack = start();
    await place.listed(client, "text_stats");
    assert.match(await place.gateway.cli("packs", "list"), /python-text/);
  });
});

describe("the bridge in front of the official server", { timeout: 120_000 }, () => {
  let place, client;
  before(async () => {
    place = await Place.start();
    client = await place.gateway.connect();
    const key = await place.key("bridge", "--pack", "bridged", "--tools", "ev_*");
    const { command, args } = servers.everything;
    const gateway = ["--gateway", place.gateway.base, "--key", key, "--pack-id", "bridged"];
    const terms = ["--prefix", "ev_", "--capability", "demo", "--tool-capability", "get-sum=maths"];
    place.dial(BRIDGE, [...gateway, ...terms, "--", command, ...args]);
    await place.listed(client, "ev_echo", "ev_get-sum");
  });
  after(async () => {
    await client?.close();
    await place?.stop();
  });

  test("serves an MCP client with the server's own content", async () => {
    const echo = await call(client, "ev_echo", { message: "through two doors" });
    assert.equal(echo.content[0].text, "Echo: through two doors");
    const image = await call(client, "ev_get-tiny-image");
    assert.ok(image.content.some((block) => block.type === "image" && block.data.length > 100));
  });

  test("passes on every report of progress, the last one too", async () => {
    const tool = "ev_trigger-long-running-operation";
    const told = Array.from({ length: 8 }, async () => {
      const reports = [];
      const onprogress = ({ progress }) => reports.push(progress);
      await call(client, tool, { duration: 0.2, steps: 4 }, { onprogress });
      return reports;
    });
    for (const reports of await Promise.all(told)) assert.deepEqual(reports, [1, 2, 3, 4]);
  });

  test("serves an agent over gRPC, by capability", async () => {
    const key = await place.key("adder", "--agent", "adder", "--capability", "maths");
    const listed = await place.agent("adder", key);
    assert.deepEqual(listed.filter((name) => name.startsWith("ev_")), ["ev_get-sum"]);
    const sum = await place.agent("adder", key, "ev_get-sum", JSON.stringify({ a: 2, b: 3 }));
    assert.match(JSON.stringify(sum), /5/);
  });
});
