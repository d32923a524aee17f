// A server with an interactive view, and with names that other servers have too: `apps.mjs NAME`. All
// that it says has its NAME in it. With `--lists-views` it lists its views among its resources.

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import * as types from "@modelcontextprotocol/sdk/types.js";

const name = process.argv[2];
const MEMO = "memo://today";
const FAMILY = "memo://days/{day}";
const SHARED_VIEW = "ui://shared/panel.html";
const OWN_VIEW = `ui://${name}/panel.html`;

const text = (value) => ({ content: [{ type: "text", text: value }] });
const inputSchema = { type: "object", properties: {} };

/** The tools, and what each does. */
const TOOLS = {
  show: {
    _meta: {
      ui: { resourceUri: OWN_VIEW, visibility: ["model", "app"] },
      "ui/resourceUri": OWN_VIEW,
      "example.com/note": { kept: [1, "two", null] },
    },
    run: () => ({ ...text(`${name} shown`), structuredContent: { shown: name } }),
  },
  refresh: {
    _meta: { ui: { resourceUri: OWN_VIEW, visibility: ["app"] } },
    run: () => text(`${name} refreshed`),
  },
  share: {
    _meta: { ui: { resourceUri: SHARED_VIEW } },
    run: () => ({ content: [{ type: "resource_link", uri: MEMO, name: "today" }] }),
  },
  touch: {
    async run() {
      await server.notification({ method: "notifications/resources/updated", params: { uri: MEMO } });
      return text(`${name} touched`);
    },
  },
  capabilities: { run: () => text(JSON.stringify(server.getClientCapabilities())) },
};

/** The name of a tool as it is listed, which no other server has. */
const listedAs = (tool) => `${tool}_${name}`;

const view = (uri) => ({
  uri,
  mimeType: "text/html;profile=mcp-app",
  text: `<!doctype html><title>${name}</title>`,
  _meta: { ui: { csp: { connectDomains: [`https://${name}.example`] }, prefersBorder: true } },
});

function contentsOf(uri) {
  if (uri === OWN_VIEW || uri === SHARED_VIEW) return [view(uri)];
  if (uri === MEMO) return [{ uri, mimeType: "text/plain", text: `${name} today` }];
  const day = /^memo:\/\/days\/([^/]+)$/.exec(uri)?.[1];
  if (day) return [{ uri, mimeType: "text/plain", text: `${name} on ${day}` }];
  throw new types.McpError(-32002, "Resource not found", { uri });
}

const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} };
const server = new Server({ name, version: "1.0.0" }, { capabilities });
const on = (schema, answer) => server.setRequestHandler(schema, ({ params }) => answer(params));
on(types.ListToolsRequestSchema, () => ({
  tools: Object.entries(TOOLS).map(([tool, { _meta }]) => ({
    name: listedAs(tool), description: `${tool} of ${name}`, inputSchema, ...(_meta && { _meta }),
  })),
}));
on(types.CallToolRequestSchema, (params) => {
  const found = Object.entries(TOOLS).find(([tool]) => listedAs(tool) === params.name);
  return found[1].run();
});
on(types.ListResourcesRequestSchema, () => ({
  resources: [
    { uri: MEMO, name: `today of ${name}` },
    ...(process.argv.includes("--lists-views") ? [{ uri: SHARED_VIEW, name: "panel" }] : []),
  ],
}));
on(types.ListResourceTemplatesRequestSchema, () => ({
  resourceTemplates: [{ uriTemplate: FAMILY, name: `days of ${name}` }],
}));
on(types.ReadResourceRequestSchema, ({ uri }) => ({ contents: contentsOf(uri) }));
on(types.SubscribeRequestSchema, () => ({}));
on(types.UnsubscribeRequestSchema, () => ({}));
on(types.ListPromptsRequestSchema, () => ({ prompts: [{ name: "greet", arguments: [{ name: "whom" }] }] }));
on(types.GetPromptRequestSchema, () => ({
  messages: [{ role: "user", content: { type: "text", text: `${name} greets` } }],
}));
on(types.CompleteRequestSchema, ({ ref }) => ({
  completion: { values: [`${name} ${ref.type} ${ref.name ?? ref.uri}`] },
}));
await server.connect(new StdioServerTransport());
