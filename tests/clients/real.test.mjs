// Ten servers that people use, each with and without Drawgate: the list and the answers to three calls
// are the same. Both runs begin with the same folder and see the same pages, all on this machine.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { DECLARED, STEADY_CALLS, steady, withoutTasks } from "./lib/compare.mjs";
import { call, listTools } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { clients, node, servers } from "./lib/paths.mjs";

const folder = mkdtempSync(join(tmpdir(), "drawgate-real-"));
const files = join(folder, "files");
const modules = (path) => join(clients, "node_modules", path);
const official = (name, ...args) => {
  return { command: node, args: [modules(`@modelcontextprotocol/server-${name}/dist/index.js`), ...args] };
};

/** A browser that runs as root, talks to nobody by itself and looks up no names. */
const BROWSER_FLAGS = [
  "--no-sandbox", "--disable-background-networking", "--disable-component-update",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/** Pages for fetch and the browsers. */
const PAGES = {
  "/robots.txt": ["text/plain", "User-agent: *\nAllow: /\n"],
  "/favicon.ico": ["image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'/>"],
  "/": ["text/html", "<!doctype html><title>Page</title><h1>Heading</h1><p>Text of <b>the</b> page.</p><button>Press</button>"],
};

const site = createServer((request, response) => {
  const [type, text] = PAGES[request.url] ?? [];
  if (!text) return response.writeHead(404).end("not found");
  response.writeHead(200, { "content-type": type }).end(text);
});
await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
const host = `127.0.0.1:${site.address().port}`;
const page = `http://${host}/`;

/** How each server is started, what it may touch, and what it is asked. */
const REAL = {
  filesystem: {
    ...official("filesystem", files),
    permissions: { write: [files] },
    calls: [
      ["read_text_file", { path: join(files, "note.txt") }],
      ["directory_tree", { path: files }],
      ["edit_file", { path: join(files, "note.txt"), edits: [{ oldText: "two", newText: "2" }] }],
    ],
  },
  memory: {
    ...official("memory"),
    env: { MEMORY_FILE_PATH: join(files, "memory.json") },
    permissions: { write: [files] },
    calls: [
      ["create_entities", { entities: [{ name: "Ada", entityType: "person", observations: ["wrote 1843"] }] }],
      ["add_observations", { observations: [{ entityName: "Ada", contents: ["zwölf ☕"] }] }],
      ["read_graph", {}],
    ],
  },
  thinking: {
    ...official("sequential-thinking"),
    calls: [1, 2, 3].map((thoughtNumber) => {
      const thought = { thought: `step ${thoughtNumber}`, nextThoughtNeeded: thoughtNumber < 3 };
      return ["sequentialthinking", { ...thought, thoughtNumber, totalThoughts: 3 }];
    }),
  },
  everything: { ...servers.everything, calls: STEADY_CALLS.everything },
  git: {
    command: join(clients, ".venv/bin/mcp-server-git"),
    args: ["--repository", files],
    permissions: { write: [files] },
    calls: [
      ["git_status", { repo_path: files }],
      ["git_diff_unstaged", { repo_path: files }],
      ["git_log", { repo_path: files }],
    ],
  },
  fetch: {
    command: join(clients, ".venv/bin/mcp-server-fetch"),
    args: [],
    sandbox: "network",
    permissions: { hosts: [host] },
    calls: [
      ["fetch", { url: page }],
      ["fetch", { url: page, raw: true, max_length: 20 }],
      ["fetch", { url: `${page}missing` }],
    ],
  },
  sqlite: {
    command: join(clients, ".venv-sqlite/bin/mcp-server-sqlite"),
    args: ["--db-path", join(files, "data.db")],
    permissions: { write: [files] },
    calls: [
      ["create_table", { query: "CREATE TABLE t (a TEXT, b REAL)" }],
      ["write_query", { query: "INSERT INTO t VALUES ('grün', 1.5), (NULL, 2)" }],
      ["read_query", { query: "SELECT * FROM t" }],
    ],
  },
  time: {
    ...servers.time,
    calls: [...STEADY_CALLS.time, ["get_current_time", { timezone: "Asia/Tokyo" }]],
  },
  devtools: {
    command: node,
    args: [
      modules("chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js"),
      "--headless", "--isolated", "--executablePath", "/usr/bin/chromium", "--usageStatistics=false",
      "--performanceCrux=false", ...BROWSER_FLAGS.map((flag) => `--chromeArg=${flag}`),
    ],
    env: { CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS: "1" },
    sandbox: "none",
    calls: [
      ["navigate_page", { pageId: 1, type: "url", url: page }],
      ["take_snapshot", { pageId: 1 }],
      ["evaluate_script", { pageId: 1, function: "() => document.querySelector('p').textContent" }],
    ],
  },
  playwright: {
    command: node,
    args: [
      modules("@playwright/mcp/cli.js"),
      "--headless", "--isolated", "--no-sandbox", "--executable-path", "/usr/bin/chromium",
      "--output-dir", join(folder, "playwright"), "--config", join(folder, "playwright.json"),
    ],
    sandbox: "none",
    calls: [
      ["browser_navigate", { url: page }],
      ["browser_snapshot", {}],
      ["browser_evaluate", { function: "() => document.querySelector('p').textContent" }],
    ],
  },
};

/** The folder as every run finds it. */
function prepare() {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(files, { recursive: true });
  const browser = { launchOptions: { args: BROWSER_FLAGS } };
  writeFileSync(join(folder, "playwright.json"), JSON.stringify({ browser }));
  const git = (...args) => {
    const who = ["-c", "user.name=T", "-c", "user.email=t@example.com"];
    const date = "2026-01-02T03:04:05Z";
    const env = { ...process.env, GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date };
    execFileSync("git", ["-C", files, ...who, ...args], { env, stdio: "ignore" });
  };
  writeFileSync(join(files, "note.txt"), "one\ntwo\n");
  git("init", "--initial-branch=main");
  git("add", ".");
  git("commit", "--message=First");
  writeFileSync(join(files, "note.txt"), "one\ntwo\nthree\n");
}

/** Playwright names its files by the time. */
const undated = (text) => text.replace(/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z/g, "MOMENT");

/** All that is compared: definitions under their own names, and whole answers. */
async function session(client, prefix, calls) {
  const tools = (await listTools(client)).filter(({ name }) => name.startsWith(prefix));
  const answers = [];
  for (const [name, args] of calls) answers.push(await call(client, prefix + name, args));
  return {
    tools: tools.map((tool) => ({ ...tool, name: tool.name.slice(prefix.length) })).sort(byName),
    answers: answers.map((answer) => JSON.parse(undated(JSON.stringify(steady(answer))))),
  };
}

async function direct({ command, args, env = {}, calls }) {
  const client = new Client({ name: "drawgate-client-tests", version: "1.0.0" }, { capabilities: DECLARED });
  const options = { command, args, env: { ...process.env, ...env }, cwd: folder, stderr: "ignore" };
  const transport = new StdioClientTransport(options);
  await client.connect(transport);
  try {
    return await session(client, "", calls);
  } finally {
    await client.close();
  }
}

const inline = (table) => {
  return `{ ${Object.entries(table).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join(", ")} }`;
};

async function through(name, { command, args, env = {}, sandbox = "workspace", permissions = {}, calls }) {
  const gateway = await startGatewayWith(`[servers.${name}]
transport = "stdio"
command = ${JSON.stringify(command)}
args = ${JSON.stringify(args)}
env = ${inline(env)}
working_dir = ${JSON.stringify(folder)}
sandbox = "${sandbox}"
permissions = ${inline(permissions)}
`, [`${name}__${calls[0][0]}`]);
  const client = await gateway.connect();
  try {
    return await session(client, `${name}__`, calls);
  } finally {
    await client.close();
    await gateway.stop();
  }
}

const byName = (a, b) => (a.name < b.name ? -1 : 1);

describe("servers that people use", { concurrency: false }, () => {
  before(prepare);
  after(() => {
    site.closeAllConnections();
    site.close();
    rmSync(folder, { recursive: true, force: true });
  });

  for (const [name, server] of Object.entries(REAL)) {
    test(name, async () => {
      prepare();
      const expected = await direct(server);
      prepare();
      const got = await through(name, server);
      assert.ok(expected.tools.length > 0 && expected.answers.length >= 3);
      assert.deepEqual(got.tools, expected.tools.map(withoutTasks));
      assert.deepEqual(got.answers, expected.answers);
    });
  }
});
