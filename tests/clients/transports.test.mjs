// Servers made with the official Python SDK that are reached over HTTP with server-sent events and
// over WebSockets: what they offer works, and works again after they were restarted.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { connect as dial } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { call, listTools, names } from "./lib/connect.mjs";
import { freePort, startGatewayWith } from "./lib/gateway.mjs";
import { clients, python } from "./lib/paths.mjs";
import { until } from "./lib/until.mjs";

const ADDRESS = { sse: (port) => `http://127.0.0.1:${port}/sse`, websocket: (port) => `ws://127.0.0.1:${port}/mcp` };

function listens(port) {
  return new Promise((resolve) => {
    const socket = dial(port, "127.0.0.1");
    socket.on("connect", () => { socket.destroy(); resolve(true); });
    socket.on("error", () => resolve(false));
  });
}

/** Starts the server and waits until it listens. */
async function startServer(transport, port) {
  const script = join(clients, "servers/transports.py");
  const child = spawn(python, [script, transport, String(port)], { stdio: ["ignore", "ignore", "pipe"] });
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (chunk) => { complaints += chunk; });
  const exited = new Promise((resolve) => child.on("exit", resolve));
  await until("the server listens", () => {
    if (child.exitCode !== null) throw new Error(`it exited: ${complaints}`);
    return listens(port);
  });
  const stop = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  return { stop };
}

for (const transport of ["sse", "websocket"]) {
  describe(`a server over ${transport}`, { timeout: 240_000 }, () => {
    let server, gateway, client, port;
    before(async () => {
      port = await freePort();
      server = await startServer(transport, port);
      const table = [
        "[servers.py]",
        `transport = "${transport}"`,
        `url = "${ADDRESS[transport](port)}"`,
        `names = "qualified"`,
        "",
      ].join("\n");
      gateway = await startGatewayWith(table, ["py__add"]);
      client = await gateway.connect();
    });
    after(async () => {
      await client?.close();
      await gateway?.stop();
      await server?.stop();
    });

    test("lists its tools", async () => {
      const listed = names(await listTools(client)).filter((name) => name.startsWith("py__"));
      assert.deepEqual(listed, ["py__add", "py__fail", "py__steps"]);
    });

    test("answers", async () => {
      const { structuredContent, content } = await call(client, "py__add", { a: 19, b: 23 });
      assert.deepEqual(structuredContent, { result: 42 });
      assert.equal(content[0].text, "42");
    });

    test("reports progress", async () => {
      const reports = [];
      const onprogress = (report) => reports.push(report);
      const { content } = await call(client, "py__steps", { count: 3 }, { onprogress });
      assert.equal(content[0].text, "done");
      assert.ok(reports.length >= 1, "at least one report arrives");
      assert.equal(reports[0].total, 3);
    });

    test("says why a tool failed", async () => {
      const { isError, content } = await call(client, "py__fail");
      assert.equal(isError, true);
      assert.match(content[0].text, /as asked/);
    });

    test("is explained by `servers doctor`", async () => {
      const said = await gateway.cli("servers", "doctor", "py");
      assert.match(said, /^py: ready, 3 tools, transports/);
      assert.ok(said.includes(`reached by \`${transport}\``), said);
    });

    test("works again after a restart", async () => {
      await server.stop();
      await until("calls fail", async () => {
        try {
          return (await call(client, "py__add", { a: 1, b: 1 })).isError;
        } catch {
          return true;
        }
      });
      server = await startServer(transport, port);
      await until("calls work again", async () => {
        const { content } = await call(client, "py__add", { a: 2, b: 2 });
        return content[0].text === "4";
      }, 90_000);
    });
  });
}
