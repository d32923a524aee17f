// Starts and ends the program under test on a data folder of its own, and runs its other commands
// beside it.

import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { listTools, names, overHttp } from "./connect.mjs";
import { drawgate, servers } from "./paths.mjs";
import { until } from "./until.mjs";

const run = promisify(execFile);

/** Room for the arguments of a call that writes a large file. */
const LIMITS = `[server]
max_body_bytes = 16777216

[limits]
max_argument_bytes = 16777216

`;

/** The configuration text for some of the servers. */
function configuration(chosen) {
  return LIMITS + chosen.map((name) => {
    const { command, args, capability } = servers[name];
    return [
      `[servers.${name}]`,
      `transport = "stdio"`,
      `command = ${JSON.stringify(command)}`,
      `args = ${JSON.stringify(args)}`,
      `names = "qualified"`,
      // Some of these servers add tools while they run.
      `trust = "follow"`,
      `capabilities = [${JSON.stringify(capability)}]`,
      "",
    ].join("\n");
  }).join("\n");
}

/** A folder with a configuration in it; `data` is where the program keeps its state. */
export function workplace(chosen) {
  return workplaceWith(configuration(chosen));
}

function workplaceWith(text) {
  const home = mkdtempSync(join(tmpdir(), "drawgate-clients-"));
  const config = join(home, "drawgate.toml");
  const data = join(home, "data");
  writeFileSync(config, text);
  const remove = () => rmSync(home, { recursive: true, force: true });
  return { home, config, data, remove };
}

/** A port of this machine that nobody listens on. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A running gateway. */
class Gateway {
  constructor(program, place, child) {
    Object.assign(this, place, { program, child });
    this.stdout = "";
    this.stderr = "";
    child.stdout.setEncoding("utf8").on("data", (chunk) => { this.stdout += chunk; });
    child.stderr.setEncoding("utf8").on("data", (chunk) => { this.stderr += chunk; });
    this.exited = new Promise((resolve) => {
      child.on("exit", (code, signal) => resolve({ code, signal }));
    });
  }

  get adminToken() {
    return readFileSync(join(this.data, "admin.token"), "utf8").trim();
  }

  /** A client of the gateway with a token, by default the administrator's. */
  connect(token = this.adminToken) {
    return overHttp(this.url, token);
  }

  /** Runs another command on the same data folder and returns what it printed. */
  async cli(...args) {
    const { stdout } = await run(this.program, [...args, "--data", this.data, "--config", this.config], { maxBuffer: Infinity });
    return stdout;
  }

  /** Ends it as a supervisor would, and returns how it exited. */
  async stop() {
    const exit = await this.end();
    this.remove();
    return exit;
  }

  /** The same, but its folder stays. */
  end() {
    this.child.kill("SIGTERM");
    return this.exited;
  }

  /** Learns its address from the first line that it prints. */
  async listens() {
    const line = await until("it says where it listens", () => {
      if (this.child.exitCode !== null) throw new Error(`it exited: ${this.stderr}`);
      return /^.*(?=\n)/.exec(this.stdout)?.[0];
    });
    this.url = JSON.parse(line).endpoint;
    this.base = new URL(this.url).origin;
  }

  async ready(expected) {
    await until("`/readyz` answers 200", async () => {
      if (this.child.exitCode !== null) throw new Error(`it exited: ${this.stderr}`);
      return (await fetch(`${this.base}/readyz`)).ok && existsSync(join(this.data, "admin.token"));
    });
    const client = await this.connect();
    await until(`the list holds ${expected.join(", ")}`, async () => {
      const listed = names(await listTools(client));
      return expected.every((name) => listed.includes(name));
    });
    await client.close();
  }
}

/** One tool of each server: when it is listed, the server is connected. */
const FIRST_TOOL = {
  everything: "everything__echo",
  time: "time__get_current_time",
  probe: "probe__flood",
};

/** Starts a gateway with some of the servers and waits until all of them are listed. */
export function startGateway(chosen) {
  return startGatewayAt(workplace(chosen), chosen.map((name) => FIRST_TOOL[name]));
}

/** Starts a gateway with tables of the test's own, perhaps with more lines in `[server]`, and waits until
 * the expected tools are listed. */
export function startGatewayWith(tables, expected, server = "") {
  const limits = LIMITS.replace("[server]\n", `[server]\n${server}`);
  return startGatewayAt(workplaceWith(limits + tables), expected);
}

/** Starts any program with a whole configuration. */
export function startProgram(program, text, expected) {
  return startGatewayAt(workplaceWith(text), expected, program);
}

/** Ends a gateway and starts another one in its folder, at the same address. */
export async function restartGateway(gateway, expected) {
  await gateway.end();
  const { home, config, data, remove } = gateway;
  const listen = new URL(gateway.base).host;
  return startGatewayAt({ home, config, data, remove }, expected, gateway.program, listen);
}

async function startGatewayAt(place, expected, program = drawgate, listen = "127.0.0.1:0") {
  const where = ["--config", place.config, "--data", place.data, "--listen", listen];
  const args = ["serve", "--json", ...where];
  const child = spawn(program, args, { cwd: place.home, stdio: ["ignore", "pipe", "pipe"] });
  const gateway = new Gateway(program, place, child);
  try {
    await gateway.listens();
    await gateway.ready(expected);
  } catch (error) {
    child.kill("SIGKILL");
    place.remove();
    throw new Error(`${error.message}\n${gateway.stderr}`, { cause: error.cause });
  }
  return gateway;
}
