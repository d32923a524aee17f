// A server of 2025-11-25 over stdio, without an SDK, whose definitions and results have members of the wrong
// type: each thing that it offers has one of them, and is otherwise in order.

import { createInterface } from "node:readline";

const ICON = { src: "data:image/png;base64,AAAA" };

/** Members that tools, resources, templates and prompts share, by the name of what has them. */
const ANYWHERE = {
  title_null: { title: null },
  title_number: { title: 5 },
  description_list: { description: ["text"] },
  icons_null: { icons: null },
  icons_text: { icons: "icon" },
  icon_without_src: { icons: [{ mimeType: "image/png" }] },
  icon_among_others: { icons: [ICON, 7, { ...ICON, theme: "red", sizes: "any", mimeType: null }] },
  meta_null: { _meta: null },
  meta_list: { _meta: [] },
  unknown: { later: null, "x-odd": [{}] },
};
const CONTENT = {
  annotations_null: { annotations: null },
  annotations_text: { annotations: "none" },
  audience_odd: { annotations: { audience: ["user", "everybody"] } },
  priority_odd: { annotations: { priority: 7 } },
  time_odd: { annotations: { lastModified: "yesterday" } },
  type_null: { mimeType: null },
  name_null: { name: null },
};

export const TOOLS = {
  ...ANYWHERE,
  annotations_null: { annotations: null },
  hint_text: { annotations: { readOnlyHint: "yes", title: null, own: null } },
  execution_null: { execution: null },
  execution_odd: { execution: { taskSupport: 7 } },
  output_null: { outputSchema: null },
};
export const RESOURCES = { ...ANYWHERE, ...CONTENT, size_text: { size: "7" }, size_fraction: { size: 1.5 } };
export const TEMPLATES = { ...ANYWHERE, ...CONTENT };
export const PROMPTS = {
  ...ANYWHERE,
  arguments_null: { arguments: null },
  argument_odd: { arguments: [{ name: "a", required: "yes", description: null }, { required: true }] },
};

/** What lacks what it must have. */
const BROKEN = {
  resources: [{ uri: "no scheme", name: "n" }, { name: "n" }, null],
  resourceTemplates: [{ name: "n" }],
  prompts: [{ title: "nameless" }],
};

const each = (all, make) => Object.entries(all).map(([name, odd]) => ({ ...make(name), ...odd }));
const block = (text) => ({ type: "text", text, annotations: null, _meta: null });

const methods = {
  initialize: () => ({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} },
    serverInfo: { name: "odd-shapes", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({
    tools: each(TOOLS, (name) => ({ name, description: name, inputSchema: { type: "object" } })),
  }),
  "resources/list": () => ({
    resources: [...each(RESOURCES, (name) => ({ name, uri: `odd://${name}` })), ...BROKEN.resources],
  }),
  "resources/templates/list": () => ({
    resourceTemplates: [
      ...each(TEMPLATES, (name) => ({ name, uriTemplate: `odd://${name}/{x}` })),
      ...BROKEN.resourceTemplates,
    ],
  }),
  "prompts/list": () => ({ prompts: [...each(PROMPTS, (name) => ({ name })), ...BROKEN.prompts] }),
  "tools/call": ({ name }) => ({
    content: [
      block(name),
      { type: "resource_link", uri: `odd://${name}`, name, title: null, size: "1", icons: null },
      { type: "resource", resource: { uri: `odd://${name}`, text: name, blob: null, mimeType: null } },
    ],
    structuredContent: null,
    isError: null,
    _meta: { progressToken: {}, "io.modelcontextprotocol/related-task": null },
  }),
  "resources/read": ({ uri }) => ({ contents: [{ uri, text: uri, blob: null, mimeType: null, _meta: 7 }] }),
  "prompts/get": ({ name }) => ({
    description: null,
    messages: [{ role: "user", content: block(name) }],
    _meta: null,
  }),
  "completion/complete": () => ({ completion: { values: ["one", null], total: null, hasMore: "no" } }),
};

function answer({ id, method, params }) {
  if (!(method in methods)) return { error: { code: -32601, message: "no such method" }, id };
  return { id, result: methods[method](params) };
}

if (process.argv[1] === import.meta.filename) {
  createInterface({ input: process.stdin }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.id === undefined) return;
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...answer(message) })}\n`);
  });
}
