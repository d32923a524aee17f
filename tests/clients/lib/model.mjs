// A model that calls one tool and then says that it is done, over Anthropic's messages API on this machine.
// It keeps the results that it was sent.

import { createServer } from "node:http";

const bodyOf = async (request) => {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text === "" ? {} : JSON.parse(text);
};

const resultsIn = ({ messages = [] }) => messages
  .flatMap(({ content }) => (Array.isArray(content) ? content : []))
  .filter((block) => block.type === "tool_result");

/** The events of a streamed answer with one block. */
function* events(message, block) {
  const isTool = block.type === "tool_use";
  yield { type: "message_start", message: { ...message, content: [] } };
  const start = isTool ? { ...block, input: {} } : { type: "text", text: "" };
  yield { type: "content_block_start", index: 0, content_block: start };
  const delta = isTool
    ? { type: "input_json_delta", partial_json: JSON.stringify(block.input) }
    : { type: "text_delta", text: block.text };
  yield { type: "content_block_delta", index: 0, delta };
  yield { type: "content_block_stop", index: 0 };
  const stop_reason = isTool ? "tool_use" : "end_turn";
  yield { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 1 } };
  yield { type: "message_stop" };
}

function answer(response, asked, block) {
  const message = {
    id: `msg_${Date.now()}`,
    type: "message",
    role: "assistant",
    model: asked.model,
    content: [block],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  if (!asked.stream) {
    const stop_reason = block.type === "tool_use" ? "tool_use" : "end_turn";
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ...message, stop_reason }));
    return;
  }
  response.setHeader("content-type", "text/event-stream");
  for (const event of events(message, block)) {
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }
  response.end();
}

/** Starts a model that calls the tool `name` with `input`. `paths` and `results` hold what it was asked. */
export async function startModel(name, input) {
  const model = { paths: [], results: [] };
  const server = createServer(async (request, response) => {
    const asked = await bodyOf(request);
    const path = new URL(request.url, "http://model").pathname;
    model.paths.push(`${request.method} ${path}`);
    if (path.endsWith("/count_tokens")) {
      // About four bytes to a token.
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ input_tokens: Math.ceil(JSON.stringify(asked).length / 4) }));
      return;
    }
    if (path !== "/v1/messages") {
      response.statusCode = 404;
      response.end("{}");
      return;
    }
    const results = resultsIn(asked);
    model.results.push(...results);
    const knowsTool = asked.tools?.some((tool) => tool.name === name);
    const calls = knowsTool && results.length === 0;
    answer(response, asked, calls
      ? { type: "tool_use", id: "toolu_1", name, input }
      : { type: "text", text: "done" });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  model.url = `http://127.0.0.1:${server.address().port}`;
  model.stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return model;
}
