// The program `fake-models`: the APIs of all providers, by rules.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { drawgate } from "./paths.mjs";

const program = join(dirname(drawgate), "fake-models");

/** Starts it with these rules. `requests()` is what it was asked so far. */
export async function startModels(rules) {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-models-"));
  const script = join(folder, "rules.json");
  writeFileSync(script, JSON.stringify(rules));
  const child = spawn(program, [script], { stdio: ["pipe", "pipe", "inherit"] });
  const url = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`fake-models ended with ${code}`)));
    child.stdout.setEncoding("utf8").on("data", (line) => resolve(line.trim()));
  });
  const get = async (path) => (await fetch(`${url}${path}`)).json();
  return {
    url,
    requests: () => get("/requests"),
    served: () => get("/served"),
    stop() {
      child.stdin.end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
