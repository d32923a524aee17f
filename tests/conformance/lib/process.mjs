// Programs that run beside the suite: started, waited for by a line that they print, and ended.

import { spawn } from "node:child_process";

/** Longest wait for the line by which a program says that it is ready. */
const READY_MS = 30_000;

const running = new Set();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A program under way. `said` is all that it has printed so far, both streams together. */
export class Program {
  said = "";

  constructor(command, args, options = {}) {
    this.name = [command, ...args].join(" ");
    this.child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
    running.add(this.child);
    this.exited = new Promise((resolve) => {
      this.child.on("error", (error) => {
        this.said += error.message;
        resolve(undefined);
      });
      this.child.on("close", resolve);
    }).finally(() => running.delete(this.child));
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk) => {
        this.said += chunk;
        this.onOutput?.();
      });
    }
  }

  /** The first match of `pattern` in what it prints; throws when it ends or stays silent. */
  async line(pattern, deadlineMs = READY_MS) {
    const found = new Promise((resolve) => {
      this.onOutput = () => {
        const match = pattern.exec(this.said);
        if (match) resolve(match);
      };
      this.onOutput();
    });
    const late = AbortSignal.timeout(deadlineMs);
    const silence = new Promise((resolve) => late.addEventListener("abort", () => resolve(null)));
    const match = await Promise.race([found, silence, this.exited.then(() => null)]);
    if (!match) {
      throw new Error(`\`${this.name}\` did not print ${pattern}; it printed:\n${this.said}`);
    }
    return match;
  }

  /** Ends it and waits until it is gone. */
  async stop() {
    this.child.kill("SIGTERM");
    const patience = setTimeout(() => this.child.kill("SIGKILL"), 5_000);
    await this.exited;
    clearTimeout(patience);
  }
}

/** Runs a program to its end: its exit code, and what it printed. */
export async function run(command, args, options) {
  const program = new Program(command, args, options);
  const code = await program.exited;
  return { code, said: program.said };
}
