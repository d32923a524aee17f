// Writes what a real server lists into recorded/: `node record.mjs NAME@VERSION COMMAND [ARG…]`.
// The server is run in a network namespace without a way out; its environment is given by the caller.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { listTools } from "./lib/connect.mjs";

const [server, command, ...args] = process.argv.slice(2);
const isolated = ["--net", "--", command, ...args];
// Some servers describe the folder that they run in.
const options = { command: "unshare", args: isolated, env: process.env, cwd: "/tmp", stderr: "inherit" };
const transport = new StdioClientTransport(options);
const client = new Client({ name: "drawgate-client-tests", version: "1.0.0" });
await client.connect(transport);
const tools = await listTools(client);
await client.close();
const file = `${server.slice(0, server.lastIndexOf("@")).replace(/^@/, "").replaceAll("/", "-")}.json`;
// A tool per line keeps the files small and their changes readable.
const lines = tools.map((tool) => JSON.stringify(tool)).join(",\n");
writeFileSync(join(import.meta.dirname, "recorded", file), `{"server":${JSON.stringify(server)},"tools":[\n${lines}\n]}\n`);
console.log(`${file}: ${tools.length} tools`);
