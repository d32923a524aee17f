// Servers on the network, over each transport.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect as dial } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { freePort } from "../clients/lib/gateway.mjs";
import { clients, python } from "../clients/lib/paths.mjs";
import { until } from "../clients/lib/until.mjs";
import { asksInBothOrders, call, open } from "./lib/gateway.mjs";
import { everything } from "./lib/paths.mjs";

const PYTHON = join(clients, "servers/transports.py");
const [SCRIPT] = everything.args;

/** How each is started on a port, where it is reached, and a call with what comes back. */
const SERVERS = {
  streamable_http: {
    start: (port) => [everything.command, [SCRIPT, "streamableHttp"], { ...process.env, PORT: String(port) }],
    url: (port) => `http://127.0.0.1:${port}/mcp`,
    asked: ["echo", { message: "hello" }, "Echo: hello"],
  },
  sse: {
    start: (port) => [python, [PYTHON, "sse", String(port)]],
    url: (port) => `http://127.0.0.1:${port}/sse`,
    asked: ["add", { a: 19, b: 23 }, "42"],
  },
  websocket: {
    start: (port) => [python, [PYTHON, "websocket", String(port)]],
    url: (port) => `ws://127.0.0.1:${port}/mcp`,
    asked: ["add", { a: 19, b: 23 }, "42"],
  },
};

function listens(port) {
  return new Promise((resolve) => {
    const socket = dial(port, "127.0.0.1");
    socket.on("connect", () => { socket.destroy(); resolve(true); });
    socket.on("error", () => resolve(false));
  });
}

for (const [transport, { start, url, asked: [tool, args, answer] }] of Object.entries(SERVERS)) {
  test(`a server over ${transport} is called`, { timeout: 120_000 }, async (t) => {
    const port = await freePort();
    const [command, commandArgs, env] = start(port);
    const child = spawn(command, commandArgs, { stdio: "ignore", env });
    t.after(async () => {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    });
    await until("the server listens", () => listens(port));
    const gateway = open(t, { capabilities: ["source.remote"] });
    gateway.registerServer({ serverId: "remote", transport, url: url(port) });
    await gateway.ready("remote");
    const result = await call(gateway, `remote:${tool}`, args);
    assert.equal(result.content[0]?.text, answer, JSON.stringify(result));
    assert.equal(result.meta.sandboxed, false);
    const server = { serverId: "remote", transport, protocol: "mcp", url: url(port) };
    await asksInBothOrders(t, "remote", tool, args, (gateway) => gateway.registerServer(server));
  });
}
