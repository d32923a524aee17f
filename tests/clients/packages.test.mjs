// An ordinary `mcpServers` file with three servers that people use, by `npx` and `uvx`: imported, called by Claude
// Code, and called again by a gateway that reaches no registry. Then the filesystem server is refused what its
// sandbox does not give it, says so, and is given it.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { claudeCalls } from "./lib/claude.mjs";
import { call, overHttp } from "./lib/connect.mjs";
import { clients, drawgate } from "./lib/paths.mjs";
import { until } from "./lib/until.mjs";

const run = promisify(execFile);

/** A registry that nobody is at. */
const NOWHERE = "http://127.0.0.1:1/";
const OFFLINE = { npm_config_registry: NOWHERE, UV_DEFAULT_INDEX: NOWHERE, PIP_INDEX_URL: NOWHERE };
/** uv comes with the Python packages of these tests. */
const PATH = `${dirname(drawgate)}:${join(clients, ".venv/bin")}:${process.env.PATH}`;

const home = mkdtempSync(join(tmpdir(), "drawgate-packages-"));
const notes = join(home, "notes");
const config = join(home, "drawgate.toml");
const data = join(home, "data");
const theirs = join(home, ".mcp.json");

/** What people have. */
const SERVERS = {
  everything: { command: "npx", args: ["-y", "@modelcontextprotocol/server-everything@2026.8.31"] },
  files: { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", notes] },
  time: { command: "uvx", args: ["mcp-server-time@2026.10.19", "--local-timezone=UTC"] },
};

/** One call of each, and what its answer holds. */
const CALLS = [
  ["everything__echo", { message: "grüße" }, "grüße"],
  ["files__read_text_file", { path: join(notes, "hello.txt") }, "hello from a file"],
  ["time__convert_time", { source_timezone: "UTC", time: "16:30", target_timezone: "Asia/Tokyo" }, "01:30"],
];

/** Runs a command as its user does, with a shell. */
async function shell(line, env = {}) {
  const settings = { DRAWGATE_CONFIG: config, DRAWGATE_DATA: data };
  const done = await run("sh", ["-c", line], { cwd: home, env: { ...process.env, PATH, ...settings, ...env }, maxBuffer: 1 << 24 });
  return done.stdout + done.stderr;
}

class Gateway {
  async start() {
    const args = ["serve", "--json", "--config", config, "--data", data, "--listen", "127.0.0.1:0"];
    // It never needs a registry.
    const env = { ...process.env, PATH, ...OFFLINE };
    this.child = spawn(drawgate, args, { cwd: home, env, stdio: ["ignore", "pipe", "pipe"] });
    this.said = "";
    this.log = "";
    this.child.stdout.setEncoding("utf8").on("data", (chunk) => { this.said += chunk; });
    this.child.stderr.setEncoding("utf8").on("data", (chunk) => { this.log += chunk; });
    this.exited = new Promise((resolve) => { this.child.on("exit", resolve); });
    const line = await until("it says where it listens", () => {
      if (this.child.exitCode !== null) throw new Error(`it exited: ${this.log}`);
      return /^.*(?=\n)/.exec(this.said)?.[0];
    });
    this.url = JSON.parse(line).endpoint;
  }

  connect() {
    return overHttp(this.url, readFileSync(join(data, "admin.token"), "utf8").trim());
  }

  async stop() {
    this.child.kill("SIGTERM");
    await this.exited;
  }
}

describe("servers of package runners", { timeout: 600_000, concurrency: false }, () => {
  const gateway = new Gateway();
  before(async () => {
    mkdirSync(notes);
    writeFileSync(join(notes, "hello.txt"), "hello from a file");
    writeFileSync(config, "# Ours.\n");
    writeFileSync(theirs, JSON.stringify({ mcpServers: SERVERS }, null, 2));
    await gateway.start();
  });
  after(async () => {
    await gateway.stop();
    rmSync(home, { recursive: true, force: true });
  });

  /** Claude Code, with the file that `connect` wrote, calls each server. */
  async function claudeCallsAll() {
    const { mcpServers: { drawgate: server, ...others } } = JSON.parse(readFileSync(theirs, "utf8"));
    assert.deepEqual(others, {});
    for (const [tool, input, expected] of CALLS) {
      const { text, isError } = await claudeCalls("drawgate", server, tool, input, home);
      assert.ok(!isError && text.includes(expected), `${tool}: ${text}`);
    }
  }

  test("are imported, and Claude Code calls all of them", async () => {
    const said = await shell("drawgate import .mcp.json --yes --take-out");
    for (const name of Object.keys(SERVERS)) assert.match(said, new RegExp(`^${name}: ready`, "m"), said);
    assert.doesNotMatch(readFileSync(config, "utf8"), /network|hosts/);
    const { servers } = JSON.parse(readFileSync(join(home, "drawgate.lock"), "utf8"));
    const { packages } = servers.files.pins.npm.lock;
    assert.match(packages["node_modules/@modelcontextprotocol/server-filesystem"].integrity, /^sha512-/);
    assert.match(servers.time.pins.python.requirements, /mcp-server-time==2026\.10\.19 .*\n\s+--hash=sha256:/);
    await shell("drawgate connect claude --write");
    await claudeCallsAll();
  });

  test("are called again without a registry", async () => {
    await gateway.stop();
    await gateway.start();
    await shell("drawgate servers doctor", OFFLINE);
    await claudeCallsAll();
  });

  test("name what they were refused, and the printed line gives it", async () => {
    const client = await gateway.connect();
    const path = join(notes, "new.txt");
    const write = () => call(client, "files__write_file", { path, content: "written" });
    const refused = await write();
    assert.equal(refused.isError, true, JSON.stringify(refused));
    const said = await shell("drawgate servers doctor files");
    const [, line] = /refused: writing in `.*`; to allow it: `(.*)`/.exec(said) ?? assert.fail(said);
    assert.equal(line, `drawgate servers allow files --write ${notes}`);
    assert.match(await shell("drawgate servers logs files"), /to allow it: `drawgate servers allow files --write/);
    assert.match(gateway.log, /a server was refused writing in/);
    await shell(line);
    const written = await write();
    assert.ok(!written.isError && existsSync(path), JSON.stringify(written));
    assert.equal(readFileSync(path, "utf8"), "written");
    await client.close();
  });
});
