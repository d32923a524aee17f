// The official client loses its connection in the middle of a call and takes the stream up again, from
// a server made with the official SDK directly, and through a gateway that loses its connections too.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer as createHttpServer } from "node:http";
import { connect as dial, createServer } from "node:net";
import { after, before, describe, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryEventStore } from "@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { call } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { until } from "./lib/until.mjs";

const listen = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

/** A server whose tool `wait` ends when it is told to. */
class Waiting {
  constructor() {
    this.sessions = new Map();
    this.http = createHttpServer((request, response) => this.handle(request, response));
    this.reset();
  }

  reset() {
    this.started = new Promise((resolve) => { this.start = resolve; });
    this.released = new Promise((resolve) => { this.release = resolve; });
    this.cancelled = false;
  }

  server() {
    const server = new McpServer({ name: "waiting", version: "1.0.0" });
    server.registerTool("wait", { description: "waits" }, async ({ signal }) => {
      signal.addEventListener("abort", () => { this.cancelled = true; });
      this.start();
      await this.released;
      return { content: [{ type: "text", text: "done" }] };
    });
    return server;
  }

  async handle(request, response) {
    let transport = this.sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new InMemoryEventStore(),
        retryInterval: 50,
        onsessioninitialized: (id) => this.sessions.set(id, transport),
      });
      await this.server().connect(transport);
    }
    await transport.handleRequest(request, response);
  }
}

/** A way to a port whose connections can be cut. */
class Way {
  constructor(port) {
    this.port = port;
    this.open = new Set();
    this.server = createServer((near) => {
      const far = dial(this.port, "127.0.0.1");
      for (const [one, other] of [[near, far], [far, near]]) {
        this.open.add(one);
        one.pipe(other);
        one.on("error", () => other.destroy());
        one.on("close", () => { this.open.delete(one); other.destroy(); });
      }
    });
  }

  cut() {
    const sockets = [...this.open];
    for (const socket of sockets) socket.resetAndDestroy();
    return sockets.length;
  }

  close() {
    this.cut();
    this.server.close();
  }
}

describe("a client that is cut off in the middle of a call", { timeout: 240_000 }, () => {
  const waiting = new Waiting();
  let near, far, direct, gateway;
  before(async () => {
    const port = await listen(waiting.http);
    far = new Way(port);
    direct = new Way(port);
    await listen(direct.server);
    const table = `[servers.w]\nurl = "http://127.0.0.1:${await listen(far.server)}/mcp"\nnames = "qualified"\n`;
    near = new Way();
    const hosts = `allowed_hosts = ["127.0.0.1:${await listen(near.server)}"]\n`;
    gateway = await startGatewayWith(table, ["w__wait"], hosts);
    near.port = Number(new URL(gateway.url).port);
  });
  after(async () => {
    for (const way of [near, far, direct]) way?.close();
    await gateway?.stop();
    waiting.http.closeAllConnections();
    waiting.http.close();
  });

  /** A client over a way, and the ids of the events that it gets. */
  async function client(way, headers) {
    const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${way.server.address().port}/mcp`), {
      requestInit: { headers },
      reconnectionOptions: { initialReconnectionDelay: 50, maxReconnectionDelay: 500, reconnectionDelayGrowFactor: 1.5, maxRetries: 20 },
    });
    const client = new Client({ name: "cut-off", version: "1.0.0" });
    await client.connect(transport);
    return client;
  }

  /** Calls, cuts the ways when the stream stands and the tool works, and lets the tool end after. */
  async function cutOff(client, tool, ways) {
    waiting.reset();
    let ids = 0;
    let stands;
    const standing = new Promise((resolve) => { stands = resolve; });
    const onresumptiontoken = () => { ids += 1; stands(); };
    const answer = call(client, tool, {}, { onresumptiontoken });
    await Promise.all([waiting.started, standing]);
    for (const way of ways) assert.ok(way.cut() > 0, "something is cut");
    waiting.release();
    const { content } = await answer;
    assert.equal(content[0].text, "done");
    assert.equal(waiting.cancelled, false, "the tool was not cancelled");
    assert.ok(ids > 0);
  }

  test("gets its result directly", async () => {
    const own = await client(direct, {});
    await cutOff(own, "wait", [direct]);
    await own.close();
  });

  for (const which of ["near", "far", "both"]) {
    test(`gets its result through the gateway, cut: ${which}`, async () => {
      const own = await client(near, { authorization: `Bearer ${gateway.adminToken}` });
      const ways = { near: [near], far: [far], both: [near, far] }[which];
      await cutOff(own, "w__wait", ways);
      await own.close();
    });
  }

  test("is cancelled when it says so", async () => {
    const own = await client(near, { authorization: `Bearer ${gateway.adminToken}` });
    waiting.reset();
    const stop = new AbortController();
    const answer = call(own, "w__wait", {}, { signal: stop.signal });
    await waiting.started;
    stop.abort();
    await assert.rejects(answer);
    await until("the tool hears of it", () => waiting.cancelled);
    waiting.release();
    await own.close();
  });
});
