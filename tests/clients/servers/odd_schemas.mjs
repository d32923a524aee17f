// A server of 2026-07-28 over stdio, without an SDK, whose tools have every kind of output schema: those
// that only this revision allows, and those that no client can use. Each tool answers with a fitting value.

import { createInterface } from "node:readline";

const VERSION = "2026-07-28";

/** Schema and result of each tool. */
export const TOOLS = {
  absent: [undefined, { any: 1 }],
  object: [{ type: "object", properties: { n: { type: "integer" } }, required: ["n"] }, { n: 1 }],
  array: [{ type: "array", items: { type: "string" } }, ["a", "b"]],
  string: [{ type: "string" }, "text"],
  number: [{ type: "number" }, 1.5],
  boolean: [{ type: "boolean" }, true],
  null_value: [{ type: "null" }, null],
  empty: [{}, { any: 1 }],
  empty_list: [{}, [1]],
  nullable_object: [{ type: ["object", "null"] }, { any: 1 }],
  one_of: [{ oneOf: [{ type: "object" }, { type: "array" }] }, [1]],
  any_of_object: [{ anyOf: [{ type: "object" }] }, { any: 1 }],
  reference: [{ $ref: "#/$defs/list", $defs: { list: { type: "array" } } }, [1]],
  constant: [{ const: "fixed" }, "fixed"],
  choice: [{ enum: ["a", 1] }, "a"],
  boolean_property: [{ type: "object", properties: { any: true } }, { any: 1 }],
  true_itself: [true, { any: 1 }],
  false_itself: [false, { any: 1 }],
  null_itself: [null, { any: 1 }],
  list_itself: [[], { any: 1 }],
  text_itself: ["object", { any: 1 }],
  unknown_type: [{ type: "thing" }, { any: 1 }],
  remote: [{ $ref: "https://schemas.invalid/thing.json" }, { any: 1 }],
  dangling: [{ type: "object", properties: { a: { $ref: "#/nowhere" } } }, { any: 1 }],
  recursive: [{ type: "object", properties: { next: { $ref: "#" } } }, { next: {} }],
  dialect: [{ $schema: "https://json-schema.org/draft/2020-12/schema", type: "object" }, { any: 1 }],
  odd_dialect: [{ $schema: 7, type: "object" }, { any: 1 }],
  old_dialect: [
    { type: "object", properties: { n: { type: "number", minimum: 0, exclusiveMinimum: true } } },
    { n: 1 },
  ],
  bad_pattern: [{ type: "object", properties: { s: { type: "string", pattern: "(" } } }, { s: "(" }],
  odd_pattern: [{ type: "object", properties: { s: { type: "string", pattern: "\\_" } } }, { s: "_" }],
  nullable: [{ type: "object", properties: { s: { nullable: true } } }, { s: null }],
  format: [{ type: "object", properties: { s: { type: "string", format: "odd" } } }, { s: "x" }],
  required_text: [{ type: "object", required: "n" }, { n: 1 }],
  deep: [Array.from({ length: 40 }).reduce((items) => ({ items }), {}), { any: 1 }],
  named: [{ $id: "urn:example:same", type: "object", required: ["n"] }, { n: 1 }],
  namesake: [{ $id: "urn:example:same", type: "object", required: ["s"] }, { s: "x" }],
};

const methods = {
  "server/discover": () => ({
    supportedVersions: [VERSION],
    capabilities: { tools: {} },
    serverInfo: { name: "odd-schemas", version: "1.0.0" },
  }),
  "tools/list": () => ({
    tools: Object.entries(TOOLS).map(([name, [outputSchema]]) => ({
      name,
      description: `Answers with a result of the kind ${name}.`,
      inputSchema: { type: "object" },
      ...(outputSchema !== undefined && { outputSchema }),
    })),
    ttlMs: 60_000,
    cacheScope: "public",
  }),
  "tools/call": ({ name }) => {
    const structuredContent = TOOLS[name][1];
    // Some leave the text to the client, as the revision allows.
    const content = name.length % 2 === 0 ? [] : [{ type: "text", text: JSON.stringify(structuredContent) }];
    return { content, structuredContent };
  },
};

function answer({ id, method, params }) {
  if (!(method in methods)) return { error: { code: -32601, message: "no such method" }, id };
  return { id, result: { resultType: "complete", ...methods[method](params) } };
}

if (process.argv[1] === import.meta.filename) {
  createInterface({ input: process.stdin }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.id === undefined) return;
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...answer(message) })}\n`);
  });
}
