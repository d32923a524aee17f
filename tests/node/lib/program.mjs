// Starts programs as processes of their own, with the Node that runs the tests.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { programs } from "./paths.mjs";

/** Runs a program to its end. */
export function run(command, args, options = {}) {
  const { status, signal, stdout, stderr } = spawnSync(command, args, { encoding: "utf8", timeout: 120_000, ...options });
  return { status, signal, stdout, stderr };
}

/** A running program of `programs/`. `next` is the next thing that it says. */
export function start(t, name, args = {}, options = {}) {
  const child = spawn(process.execPath, [join(programs, name), JSON.stringify(args)], {
    stdio: ["pipe", "pipe", "pipe"],
    ...options,
  });
  t.after(() => child.kill("SIGKILL"));
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (chunk) => { stderr += chunk; });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const exited = once(child, "exit").then(([code, signal]) => ({ code, signal, stderr }));
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the program ended: ${JSON.stringify(await exited)}`);
    return JSON.parse(value);
  };
  return { child, exited, next };
}

/** The processes of this machine that have `word` in their command line. */
export function processesWith(word) {
  return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandLine(pid).includes(word));
}

function commandLine(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
