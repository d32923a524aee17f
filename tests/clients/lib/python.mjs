// Runs the official Python client in a process of its own and returns what it saw.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { clients, python, servers } from "./paths.mjs";

const run = promisify(execFile);

async function converse(mode, transport, calls, ...where) {
  const script = join(clients, "python_client.py");
  const args = [script, mode, transport, JSON.stringify(calls), ...where];
  const { stdout } = await run(python, args, { maxBuffer: 64 << 20, timeout: 90_000 });
  return JSON.parse(stdout);
}

/** Lists and calls over streamable HTTP. `mode` is `legacy` or `auto`. */
export const pythonOverHttp = (mode, url, token, calls) => converse(mode, "http", calls, url, token);

/** Lists and calls over stdio. */
export const pythonOverStdio = (mode, command, args, calls) =>
  converse(mode, "stdio", calls, command, ...args);

/** Lists and calls a server with nothing in between. */
export const pythonDirect = (mode, server, calls) =>
  pythonOverStdio(mode, servers[server].command, servers[server].args, calls);
