// Shows whether two builds of the gateway behave the same: `node compare.mjs OLD_PROGRAM NEW_PROGRAM`.
// Both are played the same requests at every revision, with the same servers behind. Compared are the answers, what
// the servers received, and the audit log: byte for byte, but for what differs between any two runs.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startProgram } from "./lib/gateway.mjs";
import { clients, node } from "./lib/paths.mjs";
import { ODD_SERVERS, Player, SECRET } from "./lib/player.mjs";
import { received, REVISIONS, startRecorders } from "./lib/recorder.mjs";
import { until } from "./lib/until.mjs";

// What the server over stdio is sent is kept in its own folder.
const GATE = `
[server]
max_body_bytes = 262144

[limits]
max_argument_bytes = 65536
max_output_bytes = 3000

[approvals]
hold_seconds = 0

[policy.defaults]
fallback = "allow"

[[policy.rules]]
id = "no-keys"
action = "*"
when = { path = ["**/.ssh/**"] }
decision = "deny"
reason = "keys stay where they are"

[[policy.rules]]
id = "a-person-decides"
action = "*"
when = { toolId = "*:echo", arguments = { count = { equals = 7 } } }
decision = "allow_with_confirm"
riskTags = ["overwrite"]

[servers.probe]
command = "sh"
args = ["-c", 'tee received | "$0" "$1"', "${node}", "${join(clients, "servers/probe.mjs")}"]
`;

const tableOf = (name, address) => `
[servers.${name}]
url = "http://${address}/${name}"
headers = { authorization = "env:COMPARED_SECRET" }
${ODD_SERVERS.includes(name) ? "tools.never.timeout_seconds = 1" : ""}
`;

async function start(program, recorders, address) {
  const text = GATE + recorders.map(({ name }) => tableOf(name, address)).join("");
  const expected = recorders.map(({ name, tools }) => `${name}__${tools.at(-1).name}`);
  const gateway = await startProgram(resolve(program), text, ["probe__flood", ...expected]);
  const client = await gateway.connect();
  await until("prompts and resources are there", async () => {
    const [{ prompts }, { resources }] = [await client.listPrompts(), await client.listResources()];
    return prompts.length === ODD_SERVERS.length && resources.length === ODD_SERVERS.length;
  });
  await client.close();
  return gateway;
}

/** The lines that the server over stdio was sent. */
function linesIn(data) {
  const file = readdirSync(data, { recursive: true }).find((path) => path.endsWith("/received"));
  const lines = readFileSync(join(data, file), "utf8").trimEnd().split("\n");
  return lines.map((line) => received("probe", JSON.parse(line).method, line));
}

/** The events of the log, without what differs in each. */
function eventsIn(log) {
  return log.trimEnd().split("\n").map((line) => {
    const { kind, requestId, toolId = "", code } = JSON.parse(line);
    // An output that names an approval has another hash each time.
    const hashes = `hash|prev|previousHead|install${code === "PERMISSION_ESCALATION_REQUIRED" ? "|outputHash" : ""}`;
    const text = line.replace(new RegExp(`"(${hashes})":"[0-9a-f]+"`, "g"), '"$1":"…"');
    return { name: `${kind} ${requestId ?? toolId}`, text: text.replace(/"(durationMs|sequence)":\d+/g, '"$1":…') };
  });
}

/** Plays everything to a program. */
async function play(program) {
  const { recorders, address, stop } = await startRecorders();
  const gateway = await start(program, recorders, address);
  try {
    const answers = [];
    const token = (await gateway.cli("agents", "add", "agent", "--capability", "source.s0", "--quiet")).trim();
    for (const revision of REVISIONS) {
      await new Player(gateway, "local", gateway.adminToken, revision, answers).everything();
      await new Player(gateway, "agent", token, revision, answers).little();
    }
    await gateway.end();
    await gateway.cli("audit", "verify", "--artifacts");
    const events = eventsIn(await gateway.cli("audit", "export", "--events-only"));
    // What a server is sent beside calls may come a little earlier or later.
    const byName = (a, b) => Number(a.name > b.name) - Number(a.name < b.name);
    const requests = [...recorders.flatMap(({ received }) => received.sort(byName)), ...linesIn(gateway.data)];
    const places = { GATEWAY: new URL(gateway.url).host, SERVERS: address, HOME: gateway.home };
    return steady({ answers, requests, events }, places);
  } catch (error) {
    throw new Error(`${program}: ${error.message}\n${gateway.stderr}`, { cause: error });
  } finally {
    await gateway.stop();
    await stop();
  }
}

const TIME = /\b1[789]\d{11}\b/g;
const ID = new RegExp([
  /\b(?:[0-9a-f]{20}|[0-9a-f]{24}|\w+#\d+)\b/, // approvals; calls and acts; what the gateway counts at a server
  /(?<=digest )[0-9a-f]{8}\b/, // what is masked, keyed by the installation
  /(?<="id":"|mcp-session-id: )[0-9a-f]{64}\b/, // questions, sessions
  /(?<="requestState":")[^"]+/,
].map(({ source }) => source).join("|"), "g");

/** Replaces places, times and ids. An id is called by where it first stands, so that what has the same one still has. */
function steady(groups, places) {
  const ids = new Map();
  const changed = ({ name, text }) => {
    for (const [word, place] of Object.entries(places)) text = text.replaceAll(place, word);
    let fresh = 0;
    const called = (id) => ids.get(id) ?? ids.set(id, `<${name}, ${(fresh += 1)}>`).get(id);
    return { name, text: text.replace(TIME, "TIME").replace(ID, called) };
  };
  return Object.fromEntries(Object.entries(groups).map(([group, records]) => [group, records.map(changed)]));
}

/** Records as lines: the name of each, then its text in pieces. */
function pieces(records) {
  const lines = records.map(({ name, text }) => `= ${name}\n${text.replaceAll("\n", "⏎\n").replaceAll(',"', ',\n"')}\n`);
  return lines.join("");
}

/** All differences, each with the names of the records that have it. */
function differences(...sides) {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-compare-"));
  const files = sides.map((_, index) => join(folder, String(index)));
  files.forEach((file, index) => writeFileSync(file, pieces(sides[index])));
  const marks = ["--old-line-format=-%L", "--new-line-format=+%L", "--unchanged-line-format= %L"];
  const { stdout, stderr, status } = spawnSync("diff", [...marks, ...files], { encoding: "utf8", maxBuffer: Infinity });
  rmSync(folder, { recursive: true });
  if (status !== 0 && status !== 1) throw new Error(`diff: ${stderr}`);
  const found = new Map();
  let name = "";
  for (const [part] of stdout.matchAll(/^(?:[-+].*\n)+|^ = .*\n/gm)) {
    if (part.startsWith(" = ")) name = part.slice(3).trimEnd();
    else found.set(part, [...(found.get(part) ?? []), name]);
  }
  return found;
}

const programs = process.argv.slice(2);
if (programs.length !== 2) {
  console.error("usage: node compare.mjs OLD_PROGRAM NEW_PROGRAM");
  process.exit(2);
}
process.env.COMPARED_SECRET = SECRET;
const [old, now] = [await play(programs[0]), await play(programs[1])];
for (const group of Object.keys(old)) {
  const found = differences(old[group], now[group]);
  console.log(`${group}: ${old[group].length} and ${now[group].length}, ${found.size} kinds of differences`);
  for (const [part, names] of found) console.log(`\n${names.length} times, first in \`${names[0]}\`:\n${part}`);
  if (found.size > 0) process.exitCode = 1;
}
