// The tools of the 2025-11-25 server that speak to the client while they run: log messages,
// sampling, elicitation, and a stream that is closed half-way.

import { CreateMessageResultSchema, ElicitResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { setTimeout as pause } from "node:timers/promises";
import { commonTools, NO_ARGUMENTS, text } from "./fixtures.mjs";

/** How much is logged, from all to least. */
export const LEVELS = [
  "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
];

/** The schema of a tool with one text argument. */
const one = (name) => ({
  type: "object",
  properties: { [name]: { type: "string" } },
  required: [name],
});

async function withLogging(_args, { state, notify }) {
  const wanted = LEVELS.indexOf("info") >= LEVELS.indexOf(state.level);
  const lines = ["Tool execution started", "Tool processing data", "Tool execution completed"];
  for (const [index, data] of lines.entries()) {
    if (index > 0) await pause(50);
    const params = { level: "info", logger: "conformance", data };
    if (wanted) await notify("notifications/message", params);
  }
  return text("Tool with logging executed successfully");
}

async function sampling({ prompt }, { request }) {
  const messages = [{ role: "user", content: { type: "text", text: prompt } }];
  const params = { messages, maxTokens: 100 };
  const answer = await request("sampling/createMessage", params, CreateMessageResultSchema);
  return text(`LLM response: ${answer.content?.text ?? JSON.stringify(answer.content)}`);
}

async function elicit(request, message, properties, required = []) {
  const params = { message, requestedSchema: { type: "object", properties, required } };
  const { action, content } = await request("elicitation/create", params, ElicitResultSchema);
  return text(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
}

function elicitation({ message }, { request }) {
  const properties = {
    username: { type: "string", description: "User's response" },
    email: { type: "string", description: "User's email address" },
  };
  return elicit(request, message, properties, ["username", "email"]);
}

function defaults(_args, { request }) {
  return elicit(request, "Please check the defaults", {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  });
}

function enums(_args, { request }) {
  const plain = ["option1", "option2", "option3"];
  const titled = (noun) => ["First", "Second", "Third"].map((ordinal, index) => ({
    const: `value${index + 1}`,
    title: `${ordinal} ${noun}`,
  }));
  return elicit(request, "Please choose", {
    untitledSingle: { type: "string", enum: plain },
    titledSingle: { type: "string", oneOf: titled("Option") },
    legacyEnum: {
      type: "string",
      enum: ["opt1", "opt2", "opt3"],
      enumNames: ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti: { type: "array", items: { type: "string", enum: plain } },
    titledMulti: { type: "array", items: { anyOf: titled("Choice") } },
  });
}

/** Closes its stream; the client resumes it and finds the result there. */
async function reconnection(_args, { closeStream }) {
  await pause(50);
  closeStream?.();
  await pause(150);
  return text("Reconnection test completed");
}

export const tools = {
  ...commonTools,
  test_tool_with_logging: { inputSchema: NO_ARGUMENTS, run: withLogging },
  test_sampling: { inputSchema: one("prompt"), run: sampling },
  test_elicitation: { inputSchema: one("message"), run: elicitation },
  test_elicitation_sep1034_defaults: { inputSchema: NO_ARGUMENTS, run: defaults },
  test_elicitation_sep1330_enums: { inputSchema: NO_ARGUMENTS, run: enums },
  test_reconnection: { inputSchema: NO_ARGUMENTS, run: reconnection },
};
