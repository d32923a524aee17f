// The example toolpack `mcp-streamable` with the official server behind it and the official client in
// front: installed and enabled while both run.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { connect as dial } from "node:net";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { call, listTools, names } from "./lib/connect.mjs";
import { freePort, startGatewayWith } from "./lib/gateway.mjs";
import { clients, node, servers } from "./lib/paths.mjs";
import { until } from "./lib/until.mjs";

const EXAMPLE = resolve(clients, "../../examples/toolpacks/mcp-streamable");

function listens(port) {
  return new Promise((done) => {
    const socket = dial(port, "127.0.0.1");
    socket.on("connect", () => { socket.destroy(); done(true); });
    socket.on("error", () => done(false));
  });
}

/** Starts the official server over streamable HTTP. */
async function startServer(port) {
  const [script] = servers.everything.args;
  const env = { ...process.env, PORT: String(port) };
  const child = spawn(node, [script, "streamableHttp"], { env, stdio: "ignore" });
  const exited = new Promise((done) => child.on("exit", done));
  await until("the server listens", () => listens(port));
  return { stop: () => { child.kill("SIGKILL"); return exited; } };
}

describe("the toolpack `mcp-streamable`", { timeout: 120_000 }, () => {
  let server, gateway, client, folder;
  before(async () => {
    const port = await freePort();
    server = await startServer(port);
    gateway = await startGatewayWith("", []);
    client = await gateway.connect();
    folder = join(gateway.home, "mcp-streamable");
    cpSync(EXAMPLE, folder, { recursive: true });
    const manifest = join(folder, "toolpack.json");
    writeFileSync(manifest, readFileSync(manifest, "utf8").replaceAll("127.0.0.1:3001", `127.0.0.1:${port}`));
  });
  after(async () => {
    await client?.close();
    await gateway?.stop();
    await server?.stop();
  });

  test("comes, works and goes while the client is connected", async () => {
    let changes = 0;
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => { changes += 1; });
    await gateway.cli("toolpacks", "install", folder);
    const enabled = await gateway.cli("toolpacks", "enable", "mcp-streamable");
    assert.match(enabled, /in force: 3 tools are offered now/);
    await until("the client hears of it", () => changes >= 1);
    const own = names(await listTools(client)).filter((name) => name.startsWith("mcp_"));
    assert.deepEqual(own, ["mcp_echo", "mcp_long_task", "mcp_sum"]);
    const echo = await call(client, "mcp_echo", { message: "hello" });
    assert.equal(echo.content[0].text, "Echo: hello");
    const sum = await call(client, "mcp_sum", { a: 19, b: 23 });
    assert.match(sum.content[0].text, /42/);
    const doctor = await gateway.cli("toolpacks", "doctor", "mcp-streamable");
    assert.match(doctor, /^mcp-streamable: ok/);
    const heard = changes;
    await gateway.cli("toolpacks", "disable", "mcp-streamable");
    await until("the client hears of its end", () => changes > heard);
    const left = names(await listTools(client)).filter((name) => name.startsWith("mcp_"));
    assert.deepEqual(left, []);
  });
});
