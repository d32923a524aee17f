// What must work between any client and any server, whichever era each of them is of. A check gets a
// client with `request`, `watch`, `answers` and `inbox`, and what the server itself says of its things.

import assert from "node:assert/strict";
import { commonTools, resources, resourceTemplates } from "../../conformance/servers/fixtures.mjs";
import { until } from "./until.mjs";

/** The name of the server in the gateway's configuration. */
export const SERVER = "up";
const shown = (name) => `${SERVER}__${name}`;
const WATCHED = "test://watched-resource";

const call = (client, name, args = {}, options = undefined) =>
  client.request("tools/call", { name: shown(name), arguments: args }, options);

/** The one text of a result that is no error. */
async function said(pending) {
  const result = await pending;
  assert.notEqual(result.isError, true, JSON.stringify(result));
  assert.equal(result.content.length, 1);
  return result.content[0].text;
}

const named = (list, key, value) => list.find((entry) => entry[key] === value);

/** Every member of `expected` stands in `listed` as it is there. */
function holdsAll(listed, expected, key) {
  for (const entry of expected) assert.deepEqual(named(listed, key, entry[key]), entry);
}

/** Answers for as long as `work` runs; returns what was asked. */
async function answering(client, method, reply, work) {
  const asked = [];
  const before = client.answers;
  const answer = (params) => {
    asked.push(params);
    return reply(params);
  };
  client.answers = { ...before, [method]: answer };
  try {
    await work();
  } finally {
    client.answers = before;
  }
  return asked;
}

const accept = (content) => () => ({ action: "accept", content });

// --- tools ---

async function listsTools(client) {
  const { tools } = await client.request("tools/list");
  for (const [name, { inputSchema }] of Object.entries(commonTools)) {
    const tool = named(tools, "name", shown(name));
    assert.ok(tool, `\`${shown(name)}\` is not listed`);
    assert.equal(tool.description, `conformance fixture ${name}`);
    assert.deepEqual(tool.inputSchema, inputSchema);
  }
}

async function callsTools(client) {
  for (const name of ["test_simple_text", "test_image_content", "test_multiple_content_types"]) {
    const { content } = await call(client, name);
    assert.deepEqual(content, commonTools[name].run().content);
  }
}

async function tellsErrors(client) {
  const { isError, content } = await call(client, "test_error_handling");
  assert.equal(isError, true);
  assert.equal(content[0].text, "This tool intentionally returns an error for testing");
  await assert.rejects(call(client, "no_such_tool"), { code: -32602 });
}

/**
 * Only servers of the newer era refuse a call that its caller could not follow as a task. A client of that era hears the
 * refusal; the gateway follows the task for older ones.
 */
async function demandsTasks(client, { server }) {
  if (server !== "2026-07-28") return;
  const done = async () => {
    const { isError, content } = await call(client, "failing_job");
    assert.deepEqual([isError, content[0].text], [true, "the job failed"]);
  };
  if (client.protocol === "2026-07-28") await assert.rejects(call(client, "failing_job"), /required client capability/i);
  else await done();
}

// --- resources ---

async function listsResources(client) {
  const listed = await client.request("resources/list");
  holdsAll(listed.resources, resources, "uri");
  const families = await client.request("resources/templates/list");
  holdsAll(families.resourceTemplates, resourceTemplates, "uriTemplate");
}

async function readsResources(client) {
  const read = async (uri) => (await client.request("resources/read", { uri })).contents;
  const [text] = await read("test://static-text");
  assert.equal(text.uri, "test://static-text");
  assert.equal(text.text, "This is the content of the static text resource.");
  const [binary] = await read("test://static-binary");
  assert.equal(binary.mimeType, "image/png");
  assert.equal(Buffer.from(binary.blob, "base64").subarray(1, 4).toString(), "PNG");
  const [member] = await read("test://template/41/data");
  assert.equal(JSON.parse(member.text).id, "41");
}

async function missesResources(client, { notFound }) {
  const uri = "test://nothing-here";
  await assert.rejects(client.request("resources/read", { uri }), { code: notFound, data: { uri } });
}

async function watchesResources(client, { label }) {
  const watching = await client.watch({ uris: [WATCHED] });
  const watchers = async () => Number(await said(call(client, "pair_watchers", { uri: WATCHED })));
  await until("the server knows of it", async () => (await watchers()) === 1);
  const content = `written for ${label}`;
  await said(call(client, "pair_write", { uri: WATCHED, content }));
  await watching.inbox.next("notifications/resources/updated", ({ uri }) => uri === WATCHED);
  const { contents } = await client.request("resources/read", { uri: WATCHED });
  assert.equal(contents[0].text, content);
  await watching.end();
  await until("nobody watches any more", async () => (await watchers()) === 0);
}

async function watchesItsOwn(client, { connect, label }) {
  const other = await connect({});
  const OTHER = `test://watched-by-${label}`;
  const UPDATED = "notifications/resources/updated";
  const write = (uri) => said(call(client, "pair_write", { uri, content: "new" }));
  try {
    await write(OTHER);
    const [mine, theirs] = await Promise.all([
      client.watch({ uris: [WATCHED] }),
      other.watch({ uris: [OTHER] }),
    ]);
    await write(WATCHED);
    await mine.inbox.next(UPDATED);
    await write(OTHER);
    await theirs.inbox.next(UPDATED, ({ uri }) => uri === OTHER);
    // What came to the other came in the order of the writes.
    const heard = ({ inbox }) => inbox.all(UPDATED).map(({ uri }) => uri);
    assert.deepEqual([heard(mine), heard(theirs)], [[WATCHED], [OTHER]]);
    await Promise.all([mine.end(), theirs.end()]);
  } finally {
    await other.close();
  }
}

// --- prompts and completion ---

async function getsPrompts(client) {
  const { prompts } = await client.request("prompts/list");
  const prompt = named(prompts, "name", shown("test_prompt_with_arguments"));
  assert.deepEqual(prompt.arguments.map(({ name }) => name), ["arg1", "arg2"]);
  const args = { arg1: "grüße", arg2: "世界" };
  const { messages } = await client.request("prompts/get", { name: prompt.name, arguments: args });
  assert.equal(messages.length, 1);
  assert.equal(messages[0].content.text, "Prompt with arguments: arg1='grüße', arg2='世界'");
  const image = await client.request("prompts/get", { name: shown("test_prompt_with_image") });
  assert.equal(image.messages[0].content.mimeType, "image/png");
}

async function completes(client) {
  const refs = [
    { type: "ref/prompt", name: shown("test_prompt_with_arguments") },
    { type: "ref/resource", uri: resourceTemplates[0].uriTemplate },
  ];
  for (const ref of refs) {
    const argument = { name: "id", value: "par" };
    const { completion } = await client.request("completion/complete", { ref, argument });
    assert.deepEqual(completion.values, ["paris", "park", "party"]);
  }
}

// --- what servers ask of clients ---

async function asksForms(client) {
  const message = "Who are you, grüße?";
  const asked = await answering(client, "elicitation/create", accept({ name: "Ada" }), async () => {
    assert.equal(await said(call(client, "pair_ask_user", { message })), "accept Ada");
  });
  assert.equal(asked.length, 1);
  assert.equal(asked[0].message, `[${SERVER}] ${message}`, "a person sees who asks");
  assert.deepEqual(asked[0].requestedSchema.properties, { name: { type: "string" } });
}

async function takesNo(client) {
  for (const action of ["decline", "cancel"]) {
    await answering(client, "elicitation/create", () => ({ action }), async () => {
      assert.equal(await said(call(client, "pair_ask_user", { message: "?" })), action);
    });
  }
}

async function asksTwice(client) {
  const reply = ({ message }) =>
    ({ action: "accept", content: message.includes("name") ? { name: "Ada" } : { colour: "blue" } });
  const asked = await answering(client, "elicitation/create", reply, async () => {
    assert.equal(await said(call(client, "pair_ask_twice")), "Ada likes blue");
  });
  assert.deepEqual(asked.map(({ message }) => message), [`[${SERVER}] Your name?`, `[${SERVER}] Your colour?`]);
}

async function asksForPrompts(client) {
  await answering(client, "elicitation/create", accept({ name: "Ada" }), async () => {
    const params = { name: shown("pair_ask"), arguments: { greeting: "Hello" } };
    const { messages } = await client.request("prompts/get", params);
    assert.equal(messages[0].content.text, "Hello accept Ada");
  });
}

async function asksModels(client) {
  const reply = () => ({
    role: "assistant", content: { type: "text", text: "Paris" }, model: "m-1", stopReason: "endTurn",
  });
  const asked = await answering(client, "sampling/createMessage", reply, async () => {
    const prompt = "What is the capital of France?";
    assert.equal(await said(call(client, "pair_ask_model", { prompt })), "m-1: Paris");
  });
  assert.equal(asked.length, 1);
  assert.equal(asked[0].maxTokens, 100);
  assert.equal(asked[0].messages[0].content.text, "What is the capital of France?");
}

async function asksRoots(client) {
  const reply = () => ({ roots: [{ uri: "file:///home/ada", name: "home" }] });
  const asked = await answering(client, "roots/list", reply, async () => {
    assert.equal(await said(call(client, "pair_ask_roots")), "file:///home/ada home");
  });
  assert.equal(asked.length, 1);
}

/** One that declared nothing is not asked, and the tool is told so. */
async function asksNobody(_client, { connect }) {
  const silent = await connect({});
  try {
    const calls = [
      ["pair_ask_user", { message: "?" }],
      ["pair_ask_model", { prompt: "?" }],
      ["pair_ask_roots", {}],
    ];
    for (const [name, args] of calls) {
      const failed = await call(silent, name, args).then(({ isError }) => isError, () => true);
      assert.equal(failed, true, `\`${name}\` got an answer from one who can't give any`);
    }
    assert.equal(await said(call(silent, "pair_steps")), "three steps");
  } finally {
    await silent.close();
  }
}

/**
 * While one client thinks about a question, that of another agent is asked too, and each call gets the
 * answer of its own client. A server that can't say for which call it asks gets no answer instead.
 */
async function asksEach(client, { connectOther, tellsApart }) {
  const other = await connectOther({ elicitation: {} });
  other.answers = { "elicitation/create": accept({ name: "Bob" }) };
  const { promise: thinking, resolve: think } = Promise.withResolvers();
  const { promise: decided, resolve: decide } = Promise.withResolvers();
  const reply = async () => {
    think();
    await decided;
    return { action: "accept", content: { name: "Ada" } };
  };
  try {
    const asked = await answering(client, "elicitation/create", reply, async () => {
      const first = call(client, "pair_ask_user", { message: "?" });
      await Promise.race([thinking, first]);
      const second = await call(other, "pair_ask_user", { message: "?" });
      decide();
      assert.equal(await said(first), "accept Ada");
      if (tellsApart) assert.equal(await said(second), "accept Bob");
      else assert.equal(second.isError, true, JSON.stringify(second));
    });
    assert.equal(asked.length, 1);
  } finally {
    decide();
    await other.close();
  }
}

// --- while a call runs ---

async function logs(client) {
  const LOGGED = "notifications/message";
  const count = (level) => client.inbox.all(LOGGED).filter((one) => one.level === level).length;
  assert.equal(await said(call(client, "pair_speak", {}, { logLevel: "warning" })), "spoken");
  const warning = await client.inbox.next(LOGGED, ({ level }) => level === "warning");
  assert.deepEqual(warning.data, { about: "a problem" });
  assert.equal(count("debug"), 0, "nothing below the level that was asked for");
  await said(call(client, "pair_speak", {}, { logLevel: "debug" }));
  const debug = await client.inbox.next(LOGGED, ({ level }) => level === "debug");
  assert.equal(debug.data, "a detail");
}

async function progresses(client) {
  const seen = [];
  const onprogress = ({ progress, total }) => seen.push([progress, total]);
  assert.equal(await said(call(client, "pair_steps", {}, { onprogress })), "three steps");
  assert.deepEqual(seen, [[1, 3], [2, 3], [3, 3]]);
}

async function cancels(client) {
  const waits = async () => JSON.parse(await said(call(client, "pair_waits")));
  const before = await waits();
  const abort = new AbortController();
  const options = { signal: abort.signal, onprogress: () => abort.abort() };
  await assert.rejects(call(client, "pair_wait", {}, options));
  const { begun } = await waits();
  assert.equal(begun, before.begun + 1);
  await until("the server has seen it", async () => {
    return (await waits()).cancelled === before.cancelled + 1;
  });
  assert.equal(await said(call(client, "pair_steps")), "three steps");
}

// --- lists that change ---

const KINDS = {
  tools: {
    list: "tools/list",
    has: ({ tools }, name) => named(tools, "name", shown(name)),
    use: async (client, name) => assert.equal(await said(call(client, name)), `called ${name}`),
  },
  prompts: {
    list: "prompts/list",
    has: ({ prompts }, name) => named(prompts, "name", shown(name)),
    async use(client, name) {
      const { messages } = await client.request("prompts/get", { name: shown(name) });
      assert.equal(messages[0].content.text, `prompt ${name}`);
    },
  },
  resources: {
    list: "resources/list",
    has: ({ resources }, name) => named(resources, "uri", `test://added/${name}`),
    async use(client, name) {
      const read = { uri: `test://added/${name}` };
      const { contents } = await client.request("resources/read", read);
      assert.equal(contents[0].text, `resource ${name}`);
    },
  },
};

const changes = (kind) => async (client, { label }) => {
  const { list, has, use } = KINDS[kind];
  const name = `added_for_${label}`;
  assert.equal(has(await client.request(list), name), undefined);
  const watching = await client.watch({ kinds: [kind] });
  await said(call(client, "pair_add", { kind, name }));
  await watching.inbox.next(`notifications/${kind}/list_changed`);
  await until("the new one is listed", async () => has(await client.request(list), name));
  await use(client, name);
  await watching.end();
};

/** Checks that change what the server tells all of its clients. */
export const FOR_ALL_CLIENTS = new Set([
  "hears of no resource that another watches",
  "hears of a new tool",
  "hears of a new prompt",
  "hears of a new resource",
]);

/** The checks in the order in which they run, by what they show. */
export const CHECKS = {
  "lists tools as they are defined": listsTools,
  "calls tools": callsTools,
  "tells that a tool failed, and that there is none": tellsErrors,
  "calls a tool that works as a task only": demandsTasks,
  "lists resources and families of them": listsResources,
  "reads resources": readsResources,
  "tells that a resource is not there": missesResources,
  "hears of a changed resource": watchesResources,
  "hears of no resource that another watches": watchesItsOwn,
  "gets prompts": getsPrompts,
  "completes arguments": completes,
  "fills in a form": asksForms,
  "declines and cancels a form": takesNo,
  "fills in two forms of one call": asksTwice,
  "fills in a form of a prompt": asksForPrompts,
  "answers as a model": asksModels,
  "tells its roots": asksRoots,
  "is not asked for what it can't do": asksNobody,
  "is asked for its own calls only": asksEach,
  "gets log messages of the level it asked for": logs,
  "gets progress": progresses,
  "cancels a call": cancels,
  "hears of a new tool": changes("tools"),
  "hears of a new prompt": changes("prompts"),
  "hears of a new resource": changes("resources"),
};
