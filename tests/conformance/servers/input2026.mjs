// The tools of the 2026-07-28 server that need input from the client: each answers with what it
// asks for until the client has sent it.

import { NO_ARGUMENTS, text } from "./fixtures.mjs";
import { lacking, seal, unseal } from "./protocol2026.mjs";

const string = { type: "string" };
const boolean = { type: "boolean" };

/** Asks the user to fill in a form. */
export const elicit = (message, properties) => ({
  method: "elicitation/create",
  params: {
    message,
    requestedSchema: { type: "object", properties, required: Object.keys(properties) },
  },
});

const sample = (prompt, maxTokens = 100) => ({
  method: "sampling/createMessage",
  params: { messages: [{ role: "user", content: { type: "text", text: prompt } }], maxTokens },
});

const listRoots = { method: "roots/list", params: {} };

/** The result that asks for input, with state to carry if there is some. */
export const ask = (inputRequests, state) => ({
  resultType: "input_required",
  inputRequests,
  ...(state !== undefined && { requestState: seal(state) }),
});

/** Which capability of the client a request needs. */
const NEEDED = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/**
 * A function that returns the client's answer to a request. Where there is none yet it throws, with
 * the result that asks for it as `question`; the state keeps the answers of earlier rounds.
 */
export function asking({ capabilities, inputs, state }) {
  let earlier;
  return (key, request) => {
    earlier ??= state === undefined ? {} : unseal(state);
    const needed = NEEDED[request.method];
    if (!capabilities[needed]) throw lacking({ [needed]: {} });
    if (inputs?.[key] && !(key in earlier)) earlier[key] = inputs[key];
    if (key in earlier) return earlier[key];
    throw Object.assign(new Error("needs input"), { question: ask({ [key]: request }, earlier) });
  };
}

/** One field of an accepted form, or undefined. */
export function field(inputs, key, name) {
  const answer = inputs?.[key];
  return answer?.action === "accept" ? answer.content?.[name] : undefined;
}

const askName = () => ask({ user_name: elicit("What is your name?", { name: string }) });
const confirm = () => ({ confirm: elicit("Please confirm", { ok: boolean }) });

function byElicitation(_args, { inputs }) {
  const name = field(inputs, "user_name", "name");
  return typeof name === "string" ? text(`Hello, ${name}!`) : askName();
}

function bySampling(_args, { inputs }) {
  const content = inputs?.capital_question?.content;
  if (!content) return ask({ capital_question: sample("What is the capital of France?") });
  return text(`Model said: ${content.text ?? JSON.stringify(content)}`);
}

function byRoots(_args, { inputs }) {
  const roots = inputs?.client_roots?.roots;
  if (!Array.isArray(roots)) return ask({ client_roots: listRoots });
  return text(`Roots: ${roots.map(({ uri, name }) => `${uri} ${name ?? ""}`).join(", ")}`);
}

function withState(_args, { inputs, state }) {
  if (field(inputs, "confirm", "ok") === undefined || !state) return ask(confirm(), { step: 1 });
  unseal(state);
  return text("state-ok");
}

function multiple(_args, { inputs, state }) {
  if (state && inputs?.user_name && inputs?.greeting && inputs?.client_roots) {
    unseal(state);
    return text(`all inputs received for ${field(inputs, "user_name", "name")}`);
  }
  const requests = {
    user_name: elicit("What is your name?", { name: string }),
    greeting: sample("Generate a greeting", 50),
    client_roots: listRoots,
  };
  return ask(requests, { n: 3 });
}

function rounds(_args, { inputs, state }) {
  const { round, name: known } = state ? unseal(state) : { round: 0 };
  const name = field(inputs, "step1", "name");
  const color = field(inputs, "step2", "color");
  if (round === 1 && name !== undefined) {
    const next = { step2: elicit("Step 2: What is your favorite color?", { color: string }) };
    return ask(next, { round: 2, name });
  }
  if (round === 2 && color !== undefined) return text(`${known} likes ${color}`);
  return ask({ step1: elicit("Step 1: What is your name?", { name: string }) }, { round: 1 });
}

function tampered(_args, { state }) {
  if (!state) return ask(confirm(), { secret: "level-1" });
  unseal(state);
  return text("state verified");
}

/** Asks only for what the client can do. */
function byCapability(_args, { capabilities, inputs }) {
  if (inputs) return text("done");
  const requests = {
    ...(capabilities.sampling && { sampled: sample("hi") }),
    ...(capabilities.elicitation && { elicited: elicit("hi?", { answer: string }) }),
  };
  return Object.keys(requests).length > 0 ? ask(requests) : text("client declared nothing");
}

function streaming(_args, { inputs }) {
  if (field(inputs, "question", "ok") !== undefined) return text("done");
  return ask({ question: elicit("ok?", { ok: boolean }) });
}

function needsSampling(_args, { capabilities }) {
  if (!capabilities.sampling) throw lacking({ sampling: {} });
  return text("has sampling");
}

const tool = (run) => ({ inputSchema: NO_ARGUMENTS, run });

export const inputTools = {
  test_missing_capability: tool(needsSampling),
  test_streaming_elicitation: tool(streaming),
  test_input_required_result_elicitation: tool(byElicitation),
  test_input_required_result_sampling: tool(bySampling),
  test_input_required_result_list_roots: tool(byRoots),
  test_input_required_result_request_state: tool(withState),
  test_input_required_result_multiple_inputs: tool(multiple),
  test_input_required_result_multi_round: tool(rounds),
  test_input_required_result_tampered_state: tool(tampered),
  test_input_required_result_capabilities: tool(byCapability),
};

/** A prompt that needs input before it can be rendered. */
export const inputPrompts = {
  test_input_required_result_prompt: {
    args: [],
    render(_args, { inputs }) {
      const context = field(inputs, "user_context", "context");
      if (context === undefined) {
        const question = elicit("What context should the prompt use?", { context: string });
        return ask({ user_context: question });
      }
      return [{ role: "user", content: { type: "text", text: `Use ${context}` } }];
    },
  },
};
