// A small client of 2026-07-28 on top of `fetch`: every request stands alone, questions come as
// results, changes come as the answer to `subscriptions/listen`. It shows what is on the wire.

import { Inbox } from "./inbox.mjs";

const VERSION = "2026-07-28";
const PREFIX = "io.modelcontextprotocol/";
const NAMED_BY = { "tools/call": "name", "prompts/get": "name", "resources/read": "uri" };

/** An error that the other side answered with. */
class Refusal extends Error {
  constructor({ code, message, data }) {
    super(message);
    Object.assign(this, { code, data });
  }
}

/** The messages in an answer, one by one, from a plain body or a stream of events. */
async function* messagesOf(response) {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    yield await response.json();
    return;
  }
  let rest = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + chunk).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n").filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice("data:".length).trimStart()).join("\n");
      if (data !== "") yield JSON.parse(data);
    }
  }
}

export class Modern {
  inbox = new Inbox();
  #ids = 0;
  #listening = new Set();

  /** `answers` holds what to reply to each method that may be asked of the client. */
  static async connect(url, token, { capabilities, answers }) {
    const one = new Modern();
    Object.assign(one, { url, token, capabilities, answers });
    const { supportedVersions } = await one.once("server/discover");
    one.protocol = supportedVersions.find((version) => version === VERSION);
    return one;
  }

  async #post(id, method, params, { signal, meta = {} }) {
    const _meta = {
      [`${PREFIX}protocolVersion`]: VERSION,
      [`${PREFIX}clientInfo`]: { name: "drawgate-client-tests", version: "1.0.0" },
      [`${PREFIX}clientCapabilities`]: this.capabilities,
      ...meta,
    };
    return fetch(this.url, {
      method: "POST",
      signal,
      headers: {
        authorization: `Bearer ${this.token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": method,
        ...(method in NAMED_BY && { "Mcp-Name": params[NAMED_BY[method]] }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta } }),
    });
  }

  /** One request and its one result, whatever that is. */
  async once(method, params = {}, { signal, onprogress, logLevel } = {}) {
    const id = ++this.#ids;
    const meta = {
      ...(onprogress && { progressToken: `progress-${id}` }),
      ...(logLevel && { [`${PREFIX}logLevel`]: logLevel }),
    };
    const response = await this.#post(id, method, params, { signal, meta });
    for await (const message of messagesOf(response)) {
      if (message.error) throw new Refusal(message.error);
      if (message.id === id) return message.result;
      if (message.method === "notifications/progress") {
        if (message.params.progressToken === meta.progressToken) onprogress?.(message.params);
      } else {
        this.inbox.put(message);
      }
    }
    throw new Error(`\`${method}\` got no result`);
  }

  /** One request, with answers to all that is asked before its result. */
  async request(method, params = {}, options = {}) {
    let round = {};
    for (;;) {
      const result = await this.once(method, { ...params, ...round }, options);
      if (result.resultType !== "input_required") return result;
      round = await this.#answer(result);
    }
  }

  async #answer({ inputRequests = {}, requestState }) {
    const answers = Object.entries(inputRequests).map(async ([key, { method, params }]) => {
      return [key, await this.answers[method](params)];
    });
    const inputResponses = Object.fromEntries(await Promise.all(answers));
    return { inputResponses, ...(requestState !== undefined && { requestState }) };
  }

  /** Listens for changes; what comes is in the inbox of what is returned. */
  async watch({ kinds = [], uris = [] }) {
    const id = ++this.#ids;
    const wanted = Object.fromEntries(kinds.map((kind) => [`${kind}ListChanged`, true]));
    const notifications = { ...wanted, ...(uris.length > 0 && { resourceSubscriptions: uris }) };
    const end = new AbortController();
    const options = { signal: end.signal };
    const response = await this.#post(id, "subscriptions/listen", { notifications }, options);
    const messages = messagesOf(response);
    const { value: first } = await messages.next();
    const inbox = new Inbox();
    const listening = { first, inbox, id, end: () => end.abort() };
    this.#listening.add(listening);
    takeAll(messages, inbox);
    return listening;
  }

  close() {
    for (const { end } of this.#listening) end();
  }
}

async function takeAll(messages, inbox) {
  try {
    for await (const message of messages) inbox.put(message);
  } catch (error) {
    if (error.name !== "AbortError") inbox.put({ method: "lost", params: { reason: error.message } });
  }
}
