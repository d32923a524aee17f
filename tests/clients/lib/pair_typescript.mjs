// The official TypeScript client, of 2025-11-25, with the same few methods as the other clients of
// the pairs.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema,
  ProgressNotificationSchema, ResultSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { Inbox } from "./inbox.mjs";

const ASKED = {
  elicitation: ["elicitation/create", ElicitRequestSchema],
  sampling: ["sampling/createMessage", CreateMessageRequestSchema],
  roots: ["roots/list", ListRootsRequestSchema],
};

export class TypeScriptClient {
  inbox = new Inbox();
  #watching = new Set();
  #reports = new Map();

  /** Over HTTP. */
  static connect(url, token, options) {
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    return this.#over(new StreamableHTTPClientTransport(new URL(url), { requestInit }), options);
  }

  /** Over the standard input and output of a program. */
  static start(command, args, options) {
    return this.#over(new StdioClientTransport({ command, args, stderr: "ignore" }), options);
  }

  static async #over(transport, { capabilities, answers }) {
    const one = new TypeScriptClient();
    const info = { name: "drawgate-client-tests", version: "1.0.0" };
    const client = new Client(info, { capabilities });
    Object.assign(one, { client, answers });
    for (const [capability, [method, schema]] of Object.entries(ASKED)) {
      if (!(capability in capabilities)) continue;
      client.setRequestHandler(schema, ({ params }) => one.answers[method](params));
    }
    client.fallbackNotificationHandler = async (message) => {
      for (const inbox of [one.inbox, ...one.#watching]) inbox.put(message);
    };
    // Its own way with progress loses a report that comes together with the result.
    client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => {
      one.#reports.get(params.progressToken)?.(params);
    });
    const tell = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (version) => {
      one.protocol = version;
      tell?.(version);
    };
    await client.connect(transport);
    return one;
  }

  async request(method, params = {}, { signal, onprogress, logLevel } = {}) {
    const send = (method, params, options) =>
      this.client.request({ method, params }, ResultSchema, options);
    if (logLevel) await send("logging/setLevel", { level: logLevel });
    if (!onprogress) return send(method, params, { signal });
    const progressToken = `progress-${this.#reports.size}`;
    this.#reports.set(progressToken, onprogress);
    return send(method, { ...params, _meta: { progressToken } }, { signal });
  }

  /** Watches resources. A session hears of changed lists in any case. */
  async watch({ uris = [] }) {
    const inbox = new Inbox();
    this.#watching.add(inbox);
    for (const uri of uris) await this.request("resources/subscribe", { uri });
    const end = async () => {
      this.#watching.delete(inbox);
      for (const uri of uris) await this.request("resources/unsubscribe", { uri });
    };
    return { inbox, end };
  }

  close() {
    return this.client.close();
  }
}
