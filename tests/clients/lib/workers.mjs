// The four programs that can do the work of a run, and a gateway that has them. Each is started by
// `servers/look_around.sh`, which writes down what it finds in the sandbox before it becomes the program.

import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { clients, drawgate, node } from "./paths.mjs";
import { until } from "./until.mjs";

const run = promisify(execFile);
const modules = join(clients, "node_modules");
const triple = process.arch === "arm64" ? "aarch64" : "x86_64";

/** The key that the provider takes, and that must not be seen in a sandbox. */
export const KEY = "sk-REAL-KEY-OF-THE-PROVIDER";

/** Each program, with the model that it asks, the name by which its model knows a tool of the gateway, and a
 * tool of its own: what the configuration calls it, and how its model does. */
export const WORKERS = {
  claude: {
    command: [join(modules, `@anthropic-ai/claude-code-linux-${process.arch}/claude`)],
    model: "anthropic/fake",
    tool: (name) => `mcp__drawgate__${name}`,
    own: { name: "Bash", calls: "Bash", args: (command) => ({ command, description: "look" }) },
  },
  codex: {
    command: [join(modules, `@openai/codex-linux-${process.arch}/vendor/${triple}-unknown-linux-musl/bin/codex`)],
    model: "openai/fake",
    tool: (name) => `mcp__drawgate__${name}`,
    own: { name: "shell", calls: "exec_command", args: (cmd) => ({ cmd }) },
  },
  gemini: {
    command: [node, join(modules, "@google/gemini-cli/bundle/gemini.js")],
    model: "gemini/fake",
    tool: (name) => `mcp_drawgate_${name}`,
    own: { name: "run_shell_command", calls: "run_shell_command", args: (command) => ({ command }) },
  },
  opencode: {
    command: [join(modules, `opencode-linux-${process.arch}/bin/opencode`)],
    model: "anthropic/fake",
    tool: (name) => `drawgate_${name}`,
    own: { name: "bash", calls: "bash", args: (command) => ({ command, description: "look" }) },
  },
};

// There is no package of it for other machines in this version.
if (process.arch !== "x64") delete WORKERS.opencode;

const quoted = (value) => JSON.stringify(value);

function configuration(url, seen, more) {
  const look = join(clients, "servers/look_around.sh");
  const limits = "models.fake = { context_tokens = 200000, max_output = 4000 }";
  const provider = (name, kind, address) =>
    `[providers.${name}]\nkind = "${kind}"\nurl = "${address}"\nkey = "env:PROVIDER_KEY"\n${limits}\n`;
  const invoker = (name, { command, own }) =>
    `[invokers.${name}]\ncommand = ${quoted(look)}\nargs = ${quoted([seen, ...command])}\n`
    + `read = ${quoted([modules])}\nwrite = ${quoted([seen])}\nown_tools = ${quoted([own.name])}\n`;
  return [
    `[local]\ncapabilities = ["*"]\n`,
    provider("anthropic", "anthropic", url),
    provider("openai", "openai", `${url}/v1`),
    provider("gemini", "gemini", url),
    provider("other", "anthropic", url),
    ...Object.entries(WORKERS).map(([name, worker]) => invoker(name, worker)),
    more,
  ].join("\n");
}

function profile(name, fields, text) {
  return `---\nname: ${name}\ndescription: ${name}\n${fields.join("\n")}\n---\n${text}\n`;
}

/** A gateway with one profile for each program, beside a helper that the gateway runs itself. */
export class WorkerGateway {
  /** `more` are further tables of its configuration. */
  constructor(models, more = "") {
    this.home = mkdtempSync(join(tmpdir(), "drawgate-workers-"));
    this.data = join(this.home, "data");
    this.seen = join(this.home, "seen");
    this.config = join(this.home, "drawgate.toml");
    mkdirSync(this.seen);
    mkdirSync(join(this.home, "agents"));
    writeFileSync(this.config, configuration(models.url, this.seen, more));
    const add = (file, text) => writeFileSync(join(this.home, "agents", `${file}.md`), text);
    for (const [name, { model }] of Object.entries(WORKERS)) {
      const fields = [`model: ${model}`, `invoker: ${name}`];
      add(name, profile(name, fields, "You are the worker."));
      add(`${name}-poor`, profile(`${name}-poor`, [...fields, "budget: {tokens: 9000}"], "You are poor."));
      add(`${name}-narrow`, profile(`${name}-narrow`, [...fields, "tools: [vfs_list]"], "You are narrow."));
    }
    add("helper", profile("helper", ["model: anthropic/fake"], "You are the helper."));
  }

  async start() {
    const args = ["serve", "--json", "--config", this.config, "--data", this.data, "--listen", "127.0.0.1:0"];
    const env = { ...process.env, PROVIDER_KEY: KEY };
    this.child = spawn(drawgate, args, { cwd: this.home, env, stdio: ["ignore", "pipe", "pipe"] });
    this.stdout = "";
    this.stderr = "";
    this.child.stdout.setEncoding("utf8").on("data", (chunk) => { this.stdout += chunk; });
    this.child.stderr.setEncoding("utf8").on("data", (chunk) => { this.stderr += chunk; });
    this.exited = new Promise((resolve) => { this.child.on("exit", resolve); });
    const line = await until("it says where it listens", () => {
      if (this.child.exitCode !== null) throw new Error(`it exited: ${this.stderr}`);
      return /^.*(?=\n)/.exec(this.stdout)?.[0];
    });
    this.url = JSON.parse(line).endpoint;
  }

  async accept() {
    const names = Object.keys(WORKERS).flatMap((name) => [name, `${name}-poor`, `${name}-narrow`]);
    for (const name of [...names, "helper"]) await this.cli("profiles", "accept", name, "--yes");
  }

  /** Ends it as no supervisor would. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.exited;
  }

  async stop() {
    this.child.kill("SIGTERM");
    await this.exited;
    rmSync(this.home, { recursive: true, force: true });
  }

  async cli(...args) {
    const where = ["--data", this.data, "--config", this.config];
    const { stdout } = await run(drawgate, [...args, ...where], { maxBuffer: 64 * 1024 * 1024 });
    return stdout;
  }

  /** Starts a run and returns its id. */
  async begin(profile, prompt, ...more) {
    const printed = await this.cli("run", profile, prompt, "--detach", "--json", ...more);
    return JSON.parse(printed).id;
  }

  async show(id) {
    return JSON.parse(await this.cli("runs", "show", id, "--json"));
  }

  /** The run, when it has ended. */
  async ended(id) {
    return until(`run ${id} has ended`, async () => {
      const shown = await this.show(id);
      return shown.ending && shown;
    }, 200_000);
  }

  /** What was found in the sandboxes of a run, one for each start of its program. */
  lookedAround(run) {
    return readdirSync(this.seen).filter((name) => name.startsWith(run)).sort()
      .map((name) => join(this.seen, name));
  }

  /** The events of the audit log. */
  async audit() {
    const printed = await this.cli("audit", "export");
    return printed.trim().split("\n").map((line) => JSON.parse(line));
  }
}
