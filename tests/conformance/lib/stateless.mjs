// A small MCP client of 2026-07-28, where each request carries all that it needs. The official client
// knows only the eras before it.

const VERSION = "2026-07-28";
const PREFIX = "io.modelcontextprotocol/";
const CAPABILITIES = { elicitation: { form: {} } };
const NAMED_BY = { "tools/call": "name", "prompts/get": "name", "resources/read": "uri" };

/** The text as a header may hold it. */
function encoded(value) {
  const plain = /^[\x20-\x7e]*$/.test(value) && value === value.trim();
  return plain ? value : `=?base64?${Buffer.from(value).toString("base64")}?=`;
}

/** The headers that repeat arguments, for a tool that wants some. */
function argumentHeaders(tool, args) {
  const properties = Object.entries(tool?.inputSchema.properties ?? {});
  const wanted = properties.filter(([key, schema]) => {
    return schema["x-mcp-header"] && (args[key] ?? undefined) !== undefined;
  });
  return Object.fromEntries(
    wanted.map(([key, schema]) => [
      `Mcp-Param-${schema["x-mcp-header"]}`,
      encoded(String(args[key])),
    ]),
  );
}

/** The answer to request `id`, from a plain body or a stream of events. */
async function answerOf(response, id) {
  const body = await response.text();
  const stream = response.headers.get("content-type")?.startsWith("text/event-stream");
  const lines = body.split("\n").filter((line) => line.startsWith("data: "));
  const texts = stream ? lines.map((line) => line.slice("data: ".length)) : [body];
  const messages = texts.filter((text) => text !== "").map((text) => JSON.parse(text));
  return messages.find((message) => message.id === id || message.error);
}

export class StatelessClient {
  #url;
  #token;
  #ids = 0;
  #tools = [];

  constructor(url, token) {
    this.#url = url;
    this.#token = token;
  }

  async request(method, params = {}, headers = {}) {
    this.#ids += 1;
    const id = this.#ids;
    const _meta = {
      [`${PREFIX}protocolVersion`]: VERSION,
      [`${PREFIX}clientInfo`]: { name: "drawgate-conformance", version: "1.0.0" },
      [`${PREFIX}clientCapabilities`]: CAPABILITIES,
    };
    const response = await fetch(this.#url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${this.#token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": method,
        ...(method in NAMED_BY && { "Mcp-Name": encoded(params[NAMED_BY[method]]) }),
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta } }),
    });
    const { result, error } = await answerOf(response, id);
    if (error) throw new Error(`${method}: ${error.code} ${error.message}`);
    return result;
  }

  async listTools() {
    this.#tools = (await this.request("tools/list")).tools;
    return this.#tools;
  }

  /** Calls a tool, and gives the input that it asks for: every form is accepted. */
  async callTool(name, args = {}, rounds = {}) {
    const tool = this.#tools.find((listed) => listed.name === name);
    const params = { name, arguments: args, ...rounds };
    const result = await this.request("tools/call", params, argumentHeaders(tool, args));
    if (result.resultType !== "input_required") return result;
    const { inputRequests, requestState } = result;
    const answers = Object.entries(inputRequests ?? {}).map(([key, { params }]) => {
      return [key, { action: "accept", content: filledIn(params.requestedSchema) }];
    });
    return this.callTool(name, args, {
      inputResponses: Object.fromEntries(answers),
      ...(requestState !== undefined && { requestState }),
    });
  }
}

/** A form with every box ticked. */
function filledIn({ properties }) {
  return Object.fromEntries(Object.keys(properties).map((key) => [key, true]));
}
