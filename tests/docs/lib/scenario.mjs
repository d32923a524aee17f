// A page as its reader follows it: one home, one folder, one gateway, one command after the other.

import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { drawgate, node } from "../../clients/lib/paths.mjs";
import { until } from "../../clients/lib/until.mjs";
import { ANSWERS, EXIT_CODES, FILLS, KEEP_RUNNING } from "../rules.mjs";
import { here, top } from "./paths.mjs";

const GATEWAY = "http://127.0.0.1:7700";

/** Whether a port of this network is served. */
const isServed = (port) => new Promise((done) => {
  const socket = connect(port, "127.0.0.1", () => done(true)).on("error", () => done(false)).on("connect", () => socket.end());
});

export class Scenario {
  /** A reader of a page that fetches packages has the settings of this machine about registries. */
  constructor({ fetches = false } = {}) {
    this.folder = mkdtempSync(join(tmpdir(), "drawgate-docs-"));
    this.home = join(this.folder, "home");
    this.place = join(this.folder, "place");
    for (const folder of ["bin", "home", "place"]) mkdirSync(join(this.folder, folder));
    symlinkSync(drawgate, join(this.folder, "bin/drawgate"));
    symlinkSync(join(top, "examples"), join(this.place, "examples"));
    this.env = {
      ...(fetches ? process.env : {}),
      HOME: this.home,
      PATH: [join(this.folder, "bin"), dirname(node), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"].join(":"),
      LANG: "C.UTF-8",
      TERM: "xterm",
    };
    this.running = new Set();
    this.ends = [];
  }

  /** Where the gateway of this home has its configuration. */
  get config() {
    return join(this.home, ".config/drawgate/drawgate.toml");
  }

  get data() {
    return join(this.home, ".local/share/drawgate");
  }

  /** Writes a file of the folder that commands run in. */
  write(name, text) {
    const path = join(this.place, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** Puts a program into the path. */
  program(name, text) {
    writeFileSync(join(this.folder, "bin", name), text);
    chmodSync(join(this.folder, "bin", name), 0o755);
  }

  /** Adds to the configuration, and starts the gateway with it. */
  async apply(text) {
    mkdirSync(dirname(this.config), { recursive: true });
    appendFileSync(this.config, `${text}\n`);
    if (this.gateway !== undefined) await this.serve();
  }

  /** Checks a text as a configuration of its own. */
  check(text) {
    const file = join(this.folder, "checked.toml");
    writeFileSync(file, text);
    this.ok("drawgate", "config", "check", "--config", file);
  }

  /** Starts the gateway, in place of the one that runs, and waits until all that it has is there. */
  async serve(command = "drawgate serve") {
    await this.stop();
    const child = this.start(command);
    this.gateway = child;
    await until(`\`${command}\` is ready`, async () => {
      if (child.exitCode !== null) throw new Error(`it exited: ${child.printed}`);
      return (await fetch(`${GATEWAY}/readyz`)).ok;
    });
    await until("its servers have started or failed", () => {
      const servers = JSON.parse(this.ok("drawgate", "servers", "list", "--json"));
      return servers.every(({ state }) => state !== "starting");
    });
  }

  async stop() {
    const child = this.gateway;
    this.gateway = undefined;
    if (child === undefined) return;
    child.kill("SIGTERM");
    await child.ended;
    if (child.exitCode !== 0) throw new Error(`the gateway ended with ${child.exitCode ?? child.signalCode}: ${child.printed}`);
  }

  /** Starts a command that goes on while others run. */
  start(command) {
    return this.spawn("sh", ["-c", `exec ${command}`]);
  }

  /** Starts a program in a process group of its own, and keeps what it prints. */
  spawn(program, args) {
    const child = spawn(program, args, { cwd: this.place, env: this.env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    child.printed = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => { child.printed += text; });
    child.ended = new Promise((done) => child.on("close", done));
    this.running.add(child);
    // Whatever it left in the background has closed the streams, too: the group is gone, and its number may be another's.
    child.on("close", () => this.running.delete(child));
    return child;
  }

  /** Runs a program that must succeed, and returns what it printed. */
  ok(program, ...args) {
    const { status, stdout, stderr } = spawnSync(program, args, { cwd: this.place, env: this.env, encoding: "utf8", timeout: 120_000 });
    if (status !== 0) throw new Error(`${[program, ...args].join(" ")}: exit code ${status}\n${stdout}${stderr}`);
    return stdout;
  }

  /** The same, whatever its exit code. */
  said(program, ...args) {
    return spawnSync(program, args, { cwd: this.place, env: this.env, encoding: "utf8", timeout: 120_000 }).stdout;
  }

  json(...args) {
    return JSON.parse(this.ok("drawgate", ...args, "--json"));
  }

  /** Runs a command of a page. */
  async command(text) {
    const command = await this.filled(text);
    if (/^drawgate serve\b/.test(command)) {
      await this.serve(command.replace(/\s+(#|&).*/, ""));
      return;
    }
    const lasting = KEEP_RUNNING.find(([pattern]) => pattern.test(command));
    if (lasting) {
      const child = this.start(command.replace(/&$/, ""));
      await until(`\`${command}\` is at work`, () => {
        if (child.exitCode !== null) throw new Error(`it exited: ${child.printed}`);
        return typeof lasting[1] === "number" ? isServed(lasting[1]) : lasting[1].test(child.printed);
      });
      return;
    }
    const answer = ANSWERS.find(([pattern]) => pattern.test(command));
    const [program, ...args] = answer
      ? ["python3", join(here, "terminal.py"), answer[1], command]
      : ["sh", "-ec", command];
    const child = this.spawn(program, args);
    // What a command leaves in the background keeps its streams open: the exit counts.
    const code = await new Promise((done) => child.on("exit", (status, signal) => done(status ?? signal)));
    const expected = EXIT_CODES.find(([pattern]) => pattern.test(command))?.[1] ?? 0;
    if (code === expected) return;
    // Its last words, unless something in the background keeps the streams open.
    await Promise.race([child.ended, pause(1000)]);
    throw new Error(`exit code ${code}\n${child.printed}`);
  }

  /** A command with what its placeholders stand for. */
  async filled(text) {
    let command = text;
    for (const [pattern, value] of FILLS) {
      if (pattern.test(command)) command = command.replace(pattern, await value(this, command));
    }
    return command;
  }

  read(name) {
    return readFileSync(join(this.place, name), "utf8");
  }

  /** Has something done when the page is over. */
  atEnd(work) {
    this.ends.push(work);
  }

  async end() {
    for (const work of this.ends) await work();
    for (const child of this.running) {
      // With all that it started.
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch (error) {
        if (error.code !== "ESRCH") throw error;
      }
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
