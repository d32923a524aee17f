// What is played to each program that `compare.mjs` compares: by a caller that says everything byte for byte, and
// keeps what it is answered. A request has its name as its id, so that events of the log can be told by it.

import { request as open } from "node:http";
import { join } from "node:path";
import { ODD_TOOLS, PREFIX, REVISIONS, STATELESS } from "./recorder.mjs";
import { sample } from "./sample.mjs";
import { until } from "./until.mjs";

/** A value that the gateway knows as a secret. */
export const SECRET = "Bearer correct-horse-battery-staple";
export const ODD_SERVERS = REVISIONS.map((_, index) => `odd${index}`);
/** The odd tools that report progress. */
const REPORTING = ["report", "wait"];
const CAPABILITIES = { elicitation: {} };
const ANSWER = { action: "accept", content: { name: "Ada" } };

const ARGUMENTS = {
  "a secret": `{"note":"it is ${SECRET}","password":"hunter2hunter2","deep":[{"apiKey":"k-123456789"}]}`,
  "numbers as they are": '{"a":1.0,"b":1e2,"c":-0,"d":9007199254740993,"e":0.1,"f":1e400}',
  "text with escapes": '{"z":"gr\\u00fc\\u00dfe \\ud83e\\udd80 \\u0000 \\u202e","a":"</script>\\/"}',
  "half a character": '{"a":"\\ud800"}',
  "a member twice": '{"a":1,"a":2}',
  "a member twice, deep and escaped": '{"a":{"b":1,"\\u0062":2}}',
  "against the schema": '{"count":"three"}',
  "below the minimum": '{"count":0}',
  "no object": "[1]",
  "deep": `{"a":${"[".repeat(50)}${"]".repeat(50)}}`,
  "too deep": `{"a":${"[".repeat(500)}${"]".repeat(500)}}`,
  "too large for the event": JSON.stringify({ a: "x".repeat(20_000) }),
  "too large": JSON.stringify({ a: "x".repeat(70_000) }),
  "denied": '{"path":"/home/me/.ssh/id_ed25519"}',
};

const BODIES = {
  "no JSON": '{"jsonrpc":"2.0",',
  "no UTF-8": Buffer.from([0x22, 0xff, 0x22]),
  "nothing": "",
  "a batch": '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
  "an id twice": '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
  "a parameter twice": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd0__echo","name":"odd1__echo"}}',
  "an unknown member twice": '{"jsonrpc":"2.0","id":1,"method":"ping","x":{"y":1,"y":2}}',
  "no version": '{"id":1,"method":"ping"}',
  "id null": '{"jsonrpc":"2.0","id":null,"method":"ping"}',
  "id broken": '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
  "id large": '{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}',
  "no method": '{"jsonrpc":"2.0","id":1}',
  "method and result": '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
  "result and error": '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
  "params list": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
  "no params": '{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
  "more behind it": '{"jsonrpc":"2.0","id":1,"method":"ping"} {}',
  "space around": ' \r\n\t{ "id" : "x" , "method" : "ping" , "jsonrpc" : "2.0" } ',
  "a body that is too large": `{"jsonrpc":"2.0","id":1,"method":"${"x".repeat(262_144)}"}`,
};

const HEADERS = {
  "a wrong token": { authorization: "Bearer dg_wrong" },
  "another type": { "content-type": "text/plain" },
  "no stream wanted": { accept: "application/json" },
  "nothing fitting wanted": { accept: "text/html" },
  "an unknown session": { "mcp-session-id": "unknown" },
  "an unknown revision": { "mcp-protocol-version": "1999-01-01" },
  "another method": { "mcp-method": "tools/list" },
  "another site": { origin: "https://elsewhere.example" },
  "another host": { host: "elsewhere.example" },
};

/** The headers that tell a stream from a plain answer. */
const FORM = ["content-type", "content-length", "transfer-encoding", "cache-control", "x-accel-buffering"];

/** An answer as text. One to a call whose progress is wanted, and any at 2025-11-25, is a stream if it takes long:
 * of such answers the messages are kept, whatever their form. */
function shown({ status, headers, text }, isTimed) {
  const isStream = headers["content-type"] === "text/event-stream";
  const body = isTimed && isStream ? text.match(/(?<=^data: ).+$/gm).join("\n") : text;
  const isWhole = headers["content-length"] === String(Buffer.byteLength(text));
  const usual = ["date", ...(isTimed ? FORM : []), ...(isWhole ? ["content-length"] : [])];
  const kept = Object.entries(headers).filter(([name]) => !usual.includes(name));
  return [status, ...kept.map((header) => header.join(": ")), "", body].join("\n");
}

/** The result in an answer, if there is one. */
function resultOf({ text }) {
  const [, message] = /^(?:data: )?(\{.*"result":.*)$/m.exec(text) ?? [];
  return message ? JSON.parse(message).result : {};
}

export class Player {
  constructor(gateway, who, token, revision, answers) {
    Object.assign(this, { gateway, who, revision, answers, isStateless: revision === STATELESS });
    const accept = "application/json, text/event-stream";
    this.headers = { authorization: `Bearer ${token}`, "content-type": "application/json", accept };
  }

  idOf(name) {
    return `${this.revision} ${this.who}: ${name}`;
  }

  /** One exchange. `heard` gets the answer as far as it has come, and the request, which it may end. */
  exchange({ method = "POST", headers, body, heard = () => {} }) {
    return new Promise((resolve, reject) => {
      const request = open(this.gateway.url, { method, headers: { ...this.headers, ...headers } }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("error", () => {}).on("data", (chunk) => { text += chunk; heard(text, request); });
        response.on("close", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      });
      request.on("error", reject).end(body);
    });
  }

  async send(name, { isTimed = this.revision === "2025-11-25", ...options }) {
    const answer = await this.exchange(options);
    this.answers.push({ name: this.idOf(name), text: shown(answer, isTimed) });
    return answer;
  }

  /** A request with the members of its parameters as text, so that they can be odd. */
  request(name, method, members = "", { headers, meta = {}, ...options } = {}) {
    const { revision, isStateless } = this;
    const own = isStateless && { [`${PREFIX}protocolVersion`]: revision, [`${PREFIX}clientCapabilities`]: CAPABILITIES };
    const params = `{${members}${members && ","}"_meta":${JSON.stringify({ ...own, ...meta })}}`;
    const body = `{"jsonrpc":"2.0","id":${JSON.stringify(this.idOf(name))},"method":"${method}","params":${params}}`;
    const [, target] = /^"(?:name|uri)":"([^"]*)"/.exec(members) ?? [];
    const repeated = isStateless && { "mcp-protocol-version": revision, "mcp-method": method };
    const named = isStateless && target && { "mcp-name": target };
    return this.send(name, { headers: { ...repeated, ...named, ...headers }, body, ...options });
  }

  call(name, tool, args = "{}", options = {}) {
    return this.request(name, "tools/call", `"name":"${tool}","arguments":${args}`, options);
  }

  async begin() {
    if (this.isStateless) return this.request("discover", "server/discover");
    const clientInfo = { name: "compare", version: "1.0.0" };
    const params = { protocolVersion: this.revision, capabilities: CAPABILITIES, clientInfo };
    const { headers } = await this.request("initialize", "initialize", JSON.stringify(params).slice(1, -1));
    this.headers["mcp-session-id"] = headers["mcp-session-id"];
    if (this.revision !== "2025-03-26") this.headers["mcp-protocol-version"] = this.revision;
    return this.send("initialized", { body: '{"jsonrpc":"2.0","method":"notifications/initialized"}' });
  }

  /** Answers what a call asks, and cancels a call that waits, once it has said so. */
  reaction(tool, id) {
    let reacted = false;
    const tell = (message) => this.exchange({ body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
    return (text, request) => {
      const [, line] = /^data: (.*"method".*)\n/m.exec(text) ?? [];
      if (reacted || !line) return;
      reacted = true;
      const question = JSON.parse(line).id;
      if (question !== undefined) tell({ id: question, result: ANSWER });
      else if (tool === "wait" && this.isStateless) request.destroy();
      else if (tool === "wait") tell({ method: "notifications/cancelled", params: { requestId: id } });
    };
  }

  async odd(server, tool) {
    const name = `${server}__${tool}`;
    const id = this.idOf(name);
    const options = REPORTING.includes(tool) ? { meta: { progressToken: "p" }, isTimed: true } : {};
    const args = { log: "log" };
    const answer = await this.call(name, name, JSON.stringify(args), { ...options, heard: this.reaction(tool, id) });
    // Nobody but the log is told when a call that was cancelled is over.
    if (tool === "wait") await until(`\`${id}\` is over`, () => this.hasOutcome(id));
    const { inputRequests, requestState } = resultOf(answer);
    if (!inputRequests) return;
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, ANSWER]));
    const members = JSON.stringify({ name, arguments: args, inputResponses, requestState }).slice(1, -1);
    await this.request(`${name}, answered`, "tools/call", members, options);
  }

  async hasOutcome(id) {
    const events = (await this.gateway.cli("audit", "export", "--events-only")).split("\n");
    return events.some((event) => event.includes('"kind":"outcome"') && event.includes(`"requestId":"${id}"`));
  }

  /** A person is asked, says yes once, and is asked again. */
  async approval() {
    const { text } = await this.call("asks a person", "odd1__echo", '{"count":7}');
    const [, id] = /"approvalId":"([^"]+)"/.exec(text) ?? [];
    if (id) await this.gateway.cli("approvals", "approve", id, "--token-file", join(this.gateway.data, "admin.token"));
    await this.call("approved", "odd1__echo", '{"count":7}');
    await this.call("asks again", "odd1__echo", '{"count":7}');
  }

  /** As somebody who may do everything. */
  async everything() {
    await this.begin();
    const { tools = [] } = resultOf(await this.request("tools", "tools/list"));
    for (const { name, inputSchema } of tools.filter(({ name }) => /^s\d+__/.test(name))) {
      await this.call(name, name, JSON.stringify(sample(inputSchema)));
    }
    for (const server of ODD_SERVERS) {
      for (const tool of ODD_TOOLS) await this.odd(server, tool);
      for (const [name, args] of Object.entries(ARGUMENTS)) await this.call(`${server}: ${name}`, `${server}__echo`, args);
      await this.request(`${server}: resource`, "resources/read", `"uri":"note://${server}/1"`);
      await this.request(`${server}: prompt`, "prompts/get", `"name":"${server}__greet","arguments":{"who":"Ada"}`);
    }
    await this.odd("probe", "wait");
    for (const bytes of [10, 5000]) await this.call(`probe: ${bytes} bytes`, "probe__flood", `{"bytes":${bytes}}`);
    await this.approval();
    await this.call("narrowed", "odd1__echo", '{"door":"1234567"}', { meta: { "drawgate/call": { redactKeys: ["door"] } } });
    await this.call("an unknown tool", "odd1__unknown");
    for (const method of ["resources/list", "prompts/list", "ping", "tools/forget"]) await this.request(method, method);
    for (const [name, body] of Object.entries(BODIES)) await this.send(name, { body });
    for (const [name, headers] of Object.entries(HEADERS)) await this.call(name, "odd1__echo", "{}", { headers });
  }

  /** As somebody who may use one server. */
  async little() {
    await this.begin();
    const { tools: [tool] = [] } = resultOf(await this.request("tools", "tools/list"));
    await this.call("granted", tool?.name, JSON.stringify(sample(tool?.inputSchema)));
    await this.call("not granted", "odd1__echo");
    await this.request("nothing to read", "resources/read", '"uri":"note://odd1/1"');
    if (!this.isStateless) await this.send("leaves", { method: "DELETE" });
  }
}
