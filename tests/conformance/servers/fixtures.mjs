// What both upstream servers offer under the names that the suite asks for: contents, prompts,
// resources and completions that do not depend on the era of the protocol.

import { setTimeout as pause } from "node:timers/promises";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

const image = { type: "image", data: PNG, mimeType: "image/png" };
const audio = { type: "audio", data: WAV, mimeType: "audio/wav" };
const string = { type: "string" };

/** The schema of a tool without arguments. */
export const NO_ARGUMENTS = { type: "object", properties: {} };

/** A result of one text block. */
export const text = (value, more = {}) => ({ content: [{ type: "text", text: value }], ...more });

const embedded = (uri, mimeType, value) => ({
  type: "resource",
  resource: { uri, mimeType, text: value },
});

/** A schema with the keywords of JSON Schema 2020-12 that must arrive as they were written. */
const SCHEMA_2020_12 = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: string, city: string },
    },
  },
  properties: {
    name: string,
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: string,
    email: string,
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

/** A tool: what it takes, and what it does with that and with what is known about the request. */
const tool = (run, inputSchema = NO_ARGUMENTS) => ({ inputSchema, run });

/** Reports 0, 50 and 100 of 100, if the caller asked for progress. */
async function withProgress(_args, { progressToken, notify }) {
  for (const progress of [0, 50, 100]) {
    if (progress > 0) await pause(50);
    if (progressToken === undefined) continue;
    const params = { progressToken, progress, total: 100, message: `step ${progress}` };
    await notify("notifications/progress", params);
  }
  return text("Tool with progress executed");
}

/** The tools that are the same in both eras. */
export const commonTools = {
  test_simple_text: tool(() => text("This is a simple text response for testing.")),
  test_image_content: tool(() => ({ content: [image] })),
  test_audio_content: tool(() => ({ content: [audio] })),
  test_embedded_resource: tool(() => ({
    content: [
      embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
    ],
  })),
  test_multiple_content_types: tool(() => ({
    content: [
      { type: "text", text: "Multiple content types test:" },
      image,
      embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
  })),
  test_error_handling: tool(() => {
    return text("This tool intentionally returns an error for testing", { isError: true });
  }),
  test_tool_with_progress: tool(withProgress),
  json_schema_2020_12_tool: tool((args) => text(`args: ${JSON.stringify(args)}`), SCHEMA_2020_12),
};

/** How a tool stands in `tools/list`. */
export const definitions = (tools) =>
  Object.entries(tools).map(([name, { inputSchema }]) => ({
    name,
    description: `conformance fixture ${name}`,
    inputSchema,
  }));

const user = (content) => ({ role: "user", content });
const says = (value) => user({ type: "text", text: value });

/** The prompts: the arguments of each, and its messages. */
export const commonPrompts = {
  test_simple_prompt: {
    args: [],
    render: () => [says("This is a simple prompt for testing.")],
  },
  test_prompt_with_arguments: {
    args: ["arg1", "arg2"],
    render: ({ arg1, arg2 }) => [says(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  },
  test_prompt_with_embedded_resource: {
    args: ["resourceUri"],
    render: ({ resourceUri }) => [
      user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
      says("Please process the embedded resource above."),
    ],
  },
  test_prompt_with_image: {
    args: [],
    render: () => [user(image), says("Please analyze the image above.")],
  },
};

/** How prompts stand in `prompts/list`. */
export const promptList = (prompts) =>
  Object.entries(prompts).map(([name, { args }]) => ({
    name,
    description: `conformance fixture ${name}`,
    arguments: args.map((arg) => ({ name: arg, description: arg, required: true })),
  }));

const RESOURCES = {
  "test://static-text": {
    mimeType: "text/plain",
    text: "This is the content of the static text resource.",
  },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};

/** What stands in `resources/list`. */
export const resources = Object.entries(RESOURCES).map(([uri, { mimeType }]) => ({
  uri,
  name: uri.replace("test://", ""),
  description: `conformance fixture ${uri}`,
  mimeType,
}));

/** What stands in `resources/templates/list`. */
export const resourceTemplates = [
  {
    uriTemplate: "test://template/{id}/data",
    name: "template",
    description: "conformance fixture template",
    mimeType: "application/json",
  },
];

/** Gives a text resource other contents; makes it when there is none. */
export function rewrite(uri, value) {
  RESOURCES[uri] = { mimeType: "text/plain", text: value };
}

/** The contents of a resource, or undefined when there is none of that name. */
export function readResource(uri) {
  if (uri in RESOURCES) return [{ uri, ...RESOURCES[uri] }];
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id === undefined) return undefined;
  const data = { id, templateTest: true, data: `Data for ID: ${id}` };
  return [{ uri, mimeType: "application/json", text: JSON.stringify(data) }];
}

/** The answer to `completion/complete`. */
export function complete({ argument }) {
  const values = ["paris", "park", "party"].filter((word) => word.startsWith(argument?.value ?? ""));
  return { completion: { values, total: values.length, hasMore: false } };
}
