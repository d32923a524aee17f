// Runs the tests with each Node: `node run.mjs [name ...]`, all of them by default.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { here, nodes } from "./lib/paths.mjs";

const wanted = process.argv.slice(2);
const files = readdirSync(here)
  .filter((file) => file.endsWith(".test.mjs"))
  .filter((file) => wanted.length === 0 || wanted.includes(file.replace(".test.mjs", "")))
  .map((file) => join(here, file));
if (files.length === 0) {
  console.error(`no test is named ${wanted.join(", ")}`);
  process.exit(2);
}
for (const node of nodes) {
  console.log(`with ${node}`);
  const args = ["--test", "--test-concurrency=2", "--test-reporter=spec", ...files];
  const { status } = spawnSync(node, args, { stdio: "inherit", cwd: here });
  if (status !== 0) process.exit(status ?? 1);
}
