// Where the program under test, the servers and the interpreters are. Everything is inside the
// repository, so that a run never picks up what happens to be installed on the machine.

import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const clients = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const root = resolve(clients, "../..");
const modules = join(clients, "node_modules");
const target = resolve(root, process.env.CARGO_TARGET_DIR ?? "target");
const venv = join(clients, ".venv/bin");

/** The program under test. */
export const drawgate = resolve(root, process.env.DRAWGATE_BIN ?? join(target, "debug/drawgate"));

/** The pinned Node of `package.json`, which is newer than a distribution's. */
const pinned = join(modules, `node-linux-${process.arch}/bin/node`);
export const node = existsSync(pinned) ? pinned : process.execPath;

export const python = join(venv, "python");
/** The same with the first version of the SDK. */
export const python1 = join(clients, ".venv-sqlite/bin/python");
/** FastMCP's client. */
export const fastmcp = join(clients, ".venv-fastmcp/bin/python");
export const inspector = join(
  modules,
  "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
);

/** How to start each server over stdio, and the capability that its tools need. */
export const servers = {
  everything: {
    command: node,
    args: [join(modules, "@modelcontextprotocol/server-everything/dist/index.js"), "stdio"],
    capability: "demo",
  },
  time: {
    command: join(venv, "mcp-server-time"),
    args: ["--local-timezone", "Europe/Paris"],
    capability: "clock",
  },
  probe: {
    command: node,
    args: [join(clients, "servers/probe.mjs")],
    capability: "probe",
  },
};
