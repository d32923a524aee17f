// Servers of every revision over HTTP that keep each request as it came: those of recorded/, and one for each
// revision whose tools are odd.

import { createServer } from "node:http";
import { recordings } from "./replay.mjs";
import { sample } from "./sample.mjs";

export const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
export const STATELESS = "2026-07-28";
export const PREFIX = "io.modelcontextprotocol/";

const text = (value) => ({ content: [{ type: "text", text: value }] });
const requestedSchema = { type: "object", properties: { name: { type: "string" } } };
const question = { method: "elicitation/create", params: { message: "Who?", requestedSchema } };

/** What the odd tools do, by their names. */
const ODD = {
  echo: ({ reply, params }) => reply(text(JSON.stringify(params.arguments))),
  fail: ({ reply }) => reply({ ...text("it failed"), isError: true }),
  leak: ({ reply, headers }) => reply(text(`it is ${headers.authorization}`)),
  refuse: ({ refuse }) => refuse({ code: -32000, message: "refused", data: { why: "odd" } }),
  large: ({ reply }) => reply(text("a line of text\n".repeat(500))),
  crash: ({ response }) => response.writeHead(500).end("out of order"),
  report: ({ reply, report }) => { report(); reply(text("reported")); },
  hang_up: ({ response }) => response.destroy(),
  strange: ({ reply }) => reply({ content: [{ type: "smell", strength: 1 }], _meta: { a: null }, more: [1.5, "2"] }),
  garble: ({ response }) => response.writeHead(200, { "content-type": "application/json" }).end('{"jsonrpc":'),
  ask({ reply, stream, params, isStateless }) {
    if (params.inputResponses) reply(text(JSON.stringify(params.inputResponses)));
    else if (isStateless) reply({ resultType: "input_required", inputRequests: { who: question }, requestState: "asked" });
    else stream({ id: "who", ...question });
  },
  wait: ({ report }) => report(),
  never() {},
};
export const ODD_TOOLS = Object.keys(ODD);

const oddDefinitions = ODD_TOOLS.map((name) => {
  const inputSchema = { type: "object", properties: { count: { type: "integer", minimum: 1 } } };
  return { name, description: `It can ${name}.`, inputSchema };
});

/** How the answer to one request is written. */
function answering({ name, isStateless }, { id, params = {} }, { headers }, response) {
  const stream = (message) => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`);
  };
  const end = (message) => {
    if (response.headersSent) return stream(message), response.end();
    const session = isStateless ? {} : { "mcp-session-id": `session-of-${name}` };
    response.writeHead(200, { "content-type": "application/json", ...session });
    response.end(JSON.stringify({ jsonrpc: "2.0", ...message }));
  };
  const stateless = isStateless && { resultType: "complete", ttlMs: 0, cacheScope: "private" };
  const reply = (result) => end({ id, result: { ...stateless, ...result } });
  const refuse = (error) => end({ id, error });
  const report = () => {
    const { progressToken } = params._meta;
    stream({ method: "notifications/progress", params: { progressToken, progress: 1 } });
  };
  return { params, headers, response, isStateless, stream, reply, refuse, report };
}

/** A request as it came, but for the numbers that the gateway counts it by: those become ids. */
export function received(server, method, text) {
  const counted = text.replace(/(?<="(?:id|progressToken|requestId)":)\d+/g, (number) => `${server}#${number}`);
  return { name: `${server} ${method}`, text: counted.replace(/(?<=^content-length\n)\d+/m, "…") };
}

class Recorder {
  received = [];

  constructor(name, revision, tools) {
    const capabilities = { tools: {}, ...(tools === oddDefinitions && { resources: {}, prompts: {} }) };
    Object.assign(this, { name, revision, tools, capabilities, isStateless: revision === STATELESS });
  }

  take(request, response, body) {
    const message = body === "" ? {} : JSON.parse(body);
    const { method, id, params } = message;
    const whole = [request.method, ...request.rawHeaders, "", body].join("\n");
    this.received.push(received(this.name, method ?? request.method, whole));
    if (request.method !== "POST") return response.writeHead(405).end();
    // An answer: only `ask` asks.
    if (method === undefined) this.asking.reply(text(body));
    if (method === undefined || id === undefined) return response.writeHead(202).end();
    const answer = answering(this, message, request, response);
    if (params?.name === "ask") this.asking = answer;
    if (method === "tools/call" && this.tools === oddDefinitions) return ODD[params.name](answer);
    const result = this.resultOf(method, params);
    return result ? answer.reply(result) : answer.refuse({ code: -32601, message: "unknown method" });
  }

  resultOf(method, params) {
    const { name, revision, isStateless, capabilities, tools } = this;
    const serverInfo = { name, version: "1.0.0" };
    const _meta = { [`${PREFIX}serverInfo`]: serverInfo };
    switch (method) {
      case "initialize": return !isStateless && { protocolVersion: revision, capabilities, serverInfo };
      case "server/discover": return isStateless && { supportedVersions: [revision], capabilities, _meta };
      case "tools/list": return { tools };
      case "tools/call": {
        const { outputSchema } = tools.find((tool) => tool.name === params.name);
        return { ...text(JSON.stringify(params)), ...(outputSchema && { structuredContent: sample(outputSchema) }) };
      }
      case "resources/list": return { resources: [{ uri: `note://${name}/1`, name: "one" }] };
      case "resources/templates/list": return { resourceTemplates: [] };
      case "resources/read": return { contents: [{ uri: params.uri, text: "a note" }] };
      case "prompts/list": return { prompts: [{ name: "greet", arguments: [{ name: "who" }] }] };
      case "prompts/get": return { messages: [{ role: "user", content: { type: "text", text: "Hello!" } }] };
    }
  }
}

/** Starts them all on one port, each at its own path. */
export async function startRecorders() {
  const recorders = [
    ...recordings.map(({ tools }, index) => new Recorder(`s${index}`, REVISIONS[index % REVISIONS.length], tools)),
    ...REVISIONS.map((revision, index) => new Recorder(`odd${index}`, revision, oddDefinitions)),
  ];
  const http = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    recorders.find(({ name }) => request.url === `/${name}`).take(request, response, body);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    http.closeAllConnections();
    return new Promise((resolve) => http.close(resolve));
  };
  return { recorders, address: `127.0.0.1:${http.address().port}`, stop };
}
