// Tools and a prompt that use every way in which a server and its client speak to each other, written
// once for both eras. What differs between the eras is in the `context` that a server gives them:
//
//   ask(key, request)        the client's answer to a request
//   log(level, data)         a log message to the one who called
//   report(progress, total)  progress to the one who called
//   signal                   aborted when the call is cancelled
//   updated(uri)             tells those who watch a resource
//   changed(kind)            tells all that `tools`, `prompts` or `resources` have changed
//   watchers(uri)            how many watch a resource
//   lists                    what the server offers, to be added to

import { rewrite, text } from "./fixtures.mjs";

const string = { type: "string" };
const says = (value) => ({ role: "user", content: { type: "text", text: value } });

/** A tool with text arguments. */
const tool = (names, run) => ({
  inputSchema: {
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, string])),
    required: names,
  },
  run,
});

const form = (message, field) => ({
  method: "elicitation/create",
  params: {
    message,
    requestedSchema: { type: "object", properties: { [field]: string }, required: [field] },
  },
});

const sample = (prompt) => ({
  method: "sampling/createMessage",
  params: { messages: [says(prompt)], maxTokens: 100 },
});

const spoken = ({ action, content }, field) =>
  action === "accept" ? `accept ${content[field]}` : action;

async function askUser({ message }, { ask }) {
  return text(spoken(await ask("name", form(message, "name")), "name"));
}

async function askTwice(_args, { ask }) {
  const first = await ask("name", form("Your name?", "name"));
  const second = await ask("colour", form("Your colour?", "colour"));
  return text(`${first.content.name} likes ${second.content.colour}`);
}

async function askModel({ prompt }, { ask }) {
  const { model, content } = await ask("model", sample(prompt));
  return text(`${model}: ${content.text}`);
}

async function askRoots(_args, { ask }) {
  const { roots } = await ask("roots", { method: "roots/list", params: {} });
  return text(roots.map(({ uri, name }) => `${uri} ${name}`).join(", "));
}

async function speak(_args, { log }) {
  await log("debug", "a detail");
  await log("warning", { about: "a problem" });
  return text("spoken");
}

// --- calls that go on until they are cancelled ---

const waits = { begun: 0, cancelled: 0 };

async function wait(_args, { signal, report }) {
  waits.begun += 1;
  const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
  await report(1, 2);
  await aborted;
  waits.cancelled += 1;
  return text("cancelled");
}

async function steps(_args, { report }) {
  for (const step of [1, 2, 3]) await report(step, 3);
  return text("three steps");
}

// --- what changes while the server runs ---

async function write({ uri, content }, { updated }) {
  rewrite(uri, content);
  await updated(uri);
  return text("written");
}

/** The entry of a new thing in its list, by kind. */
const ADDED = {
  tools: (lists, name) => {
    lists.tools[name] = tool([], () => text(`called ${name}`));
  },
  prompts: (lists, name) => {
    lists.prompts[name] = { args: [], render: () => [says(`prompt ${name}`)] };
  },
  resources: (lists, name) => {
    const uri = `test://added/${name}`;
    rewrite(uri, `resource ${name}`);
    lists.resources.push({ uri, name });
  },
};

async function add({ kind, name }, { lists, changed }) {
  ADDED[kind](lists, name);
  await changed(kind);
  return text(`added ${name}`);
}

export const pairTools = {
  pair_ask_user: tool(["message"], askUser),
  pair_ask_twice: tool([], askTwice),
  pair_ask_model: tool(["prompt"], askModel),
  pair_ask_roots: tool([], askRoots),
  pair_speak: tool([], speak),
  pair_steps: tool([], steps),
  pair_wait: tool([], wait),
  pair_waits: tool([], () => text(JSON.stringify(waits))),
  pair_write: tool(["uri", "content"], write),
  pair_watchers: tool(["uri"], ({ uri }, { watchers }) => text(String(watchers(uri)))),
  pair_add: tool(["kind", "name"], add),
};

export const pairPrompts = {
  pair_ask: {
    args: ["greeting"],
    async render({ greeting }, { ask }) {
      const answer = await ask("name", form("Whom shall I greet?", "name"));
      return [says(`${greeting} ${spoken(answer, "name")}`)];
    },
  },
};
