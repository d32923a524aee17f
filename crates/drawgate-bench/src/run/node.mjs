// The load of a Node program: calls through a gateway in the same process, or through one over MCP. It prints what
// was measured as JSON.

import { readFileSync } from "node:fs";
import http from "node:http";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

const { way, upstream, target, token, watch, folder, gateway: entry, clients, milliseconds, rate } = JSON.parse(process.argv[2]);
const WARM_UP_MS = 300;
/** The unit of the times in `/proc/PID/stat`. */
const TICK_US = 10_000;

const perform = await (way === "mcp" ? overMcp() : inProcess());
await load(WARM_UP_MS);
const before = cpu();
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
const begin = performance.now();
const calls = await (way === "paced" ? paced() : load(milliseconds));
const seconds = (performance.now() - begin) / 1000;
delays.disable();
// The samples include the time between two of them, which is a millisecond.
const delay = (percent) => Math.max(0, delays.percentile(percent) / 1e6 - 1);
const measured = { calls, seconds, cpu_us: (cpu() - before) / calls, delay_p50_ms: delay(50), delay_p99_ms: delay(99) };
process.stdout.write(JSON.stringify(measured), () => process.exit(0));

/** Processor time of this process, and of the gateway where it is another one. */
function cpu() {
  const { user, system } = process.cpuUsage();
  if (!watch) return user + system;
  const fields = readFileSync(`/proc/${watch}/stat`, "utf8").split(") ").at(-1).split(" ");
  return user + system + (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

/** Calls back to back until the time is over, and returns how many were answered. */
async function load(limit) {
  const end = performance.now() + limit;
  let count = 0;
  const client = async () => {
    for (; performance.now() < end; count++) await checked(`m${count}`);
  };
  await Promise.all(Array.from({ length: clients }, client));
  return count;
}

/** So many calls a second, whether or not earlier ones are answered. */
async function paced() {
  const begun = performance.now();
  const all = [];
  for (let passed = 0; passed < milliseconds; passed = performance.now() - begun) {
    while (all.length < (passed * rate) / 1000) all.push(checked(`m${all.length}`));
    await pause(1);
  }
  await Promise.all(all);
  return all.length;
}

async function checked(message) {
  const text = await perform(message);
  if (text !== message) throw new Error(`\`${message}\` was answered by ${JSON.stringify(text)}`);
}

async function inProcess() {
  const { ToolGateway } = await import(entry);
  const config = { limits: { max_concurrent_calls: 100_000, max_concurrent_calls_per_agent: 100_000 } };
  const gateway = new ToolGateway({ dataDir: folder, capabilities: ["bench"], config });
  if (way === "program") {
    const url = `http://${upstream}/mcp`;
    gateway.registerServer({ serverId: "up", transport: "http", url, protocol: "mcp", capabilities: ["bench"] });
    await gateway.ready("up");
  } else {
    const inputSchema = { type: "object", properties: { message: { type: "string" } }, required: ["message"] };
    const annotations = { requiredScopes: ["bench"] };
    gateway.registerTools("up", [
      { name: "echo", description: "Echoes.", inputSchema, annotations, handler: ({ message }) => message },
    ]);
  }
  return async (message) => {
    const result = await gateway.callTool({ toolId: "up:echo", requestId: message, arguments: { message } });
    return result.content[0]?.text ?? result.error;
  };
}

async function overMcp() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: clients, noDelay: true });
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  };
  const post = (body) =>
    new Promise((resolve, reject) => {
      const request = http.request(`http://${target}/mcp`, { method: "POST", agent, headers }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk) => { text += chunk; });
        response.on("end", () => resolve({ text, session: response.headers["mcp-session-id"] }));
      });
      request.on("error", reject).end(JSON.stringify({ jsonrpc: "2.0", ...body }));
    });
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "drawgate-bench", version: "1" } };
  const { text, session } = await post({ id: 0, method: "initialize", params });
  headers["mcp-protocol-version"] = JSON.parse(text).result.protocolVersion;
  if (session) headers["mcp-session-id"] = session;
  await post({ method: "notifications/initialized" });
  let id = 0;
  return async (message) => {
    const params = { name: "echo", arguments: { message } };
    const { text } = await post({ id: ++id, method: "tools/call", params });
    // An answer that takes long comes as a stream of events, of which it is the last.
    const last = text.split("\n").findLast((line) => line.startsWith("data: {"));
    const answer = JSON.parse(last?.slice("data: ".length) ?? text);
    return answer.result?.content[0]?.text ?? answer;
  };
}
