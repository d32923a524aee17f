// Claude Code, as its users run it without a terminal, with a model of this machine instead of the real one.

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { startModel } from "./model.mjs";
import { clients } from "./paths.mjs";

const run = promisify(execFile);
const program = join(clients, `node_modules/@anthropic-ai/claude-code-linux-${process.arch}/claude`);

/** Nothing but the model is contacted, and all tools are told to it from the beginning. */
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_ERROR_REPORTING: "1",
  DISABLE_TELEMETRY: "1",
  ENABLE_TOOL_SEARCH: "false",
  MCP_CONNECTION_NONBLOCKING: "false",
};

/** Has the model call one tool of the server `name`, and returns what Claude Code told it: the text, whether
 * it was an error, and the file that the rest is in, if there is one. */
export async function claudeCalls(name, server, tool, input, cwd) {
  const home = mkdtempSync(join(tmpdir(), "drawgate-claude-"));
  const model = await startModel(`mcp__${name}__${tool}`, input);
  try {
    const config = join(home, "mcp.json");
    writeFileSync(config, JSON.stringify({ mcpServers: { [name]: server } }));
    const env = {
      ...QUIET,
      PATH: process.env.PATH,
      HOME: home,
      CLAUDE_CONFIG_DIR: join(home, "claude"),
      ANTHROPIC_API_KEY: "none",
      ANTHROPIC_BASE_URL: model.url,
    };
    const args = ["-p", "Call the tool.", "--mcp-config", config, "--strict-mcp-config"];
    const allowed = ["--allowedTools", `mcp__${name}`];
    const running = run(program, [...args, ...allowed], { env, cwd, timeout: 90_000 });
    running.child.stdin.end();
    await running;
    return seen(model);
  } finally {
    model.stop();
    rmSync(home, { recursive: true, force: true });
  }
}

function seen({ results, paths }) {
  const [result] = results;
  if (result === undefined) throw new Error(`no result came to the model, only ${paths.join(", ")}`);
  const { content, is_error: isError = false } = result;
  const text = typeof content === "string" ? content : content.map((block) => block.text ?? "").join("\n");
  const saved = /saved to (\S+)\.\n/.exec(text)?.[1];
  return { text, isError, saved: saved && readFileSync(saved, "utf8") };
}
