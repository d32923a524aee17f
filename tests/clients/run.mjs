// Runs the client tests with the pinned Node: `node run.mjs [name ...]`, all of them by default.
// Any Node that can start this file will do.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { clients, node } from "./lib/paths.mjs";

const wanted = process.argv.slice(2);
const files = readdirSync(clients)
  .filter((file) => file.endsWith(".test.mjs"))
  .filter((file) => wanted.length === 0 || wanted.includes(file.replace(".test.mjs", "")))
  .map((file) => join(clients, file));
if (files.length === 0) {
  console.error(`no test is named ${wanted.join(", ")}`);
  process.exit(2);
}
const args = ["--test", "--test-concurrency=2", "--test-reporter=spec", ...files];
process.exit(spawnSync(node, args, { stdio: "inherit", cwd: clients }).status ?? 1);
