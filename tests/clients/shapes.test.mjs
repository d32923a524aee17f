// A server with members of the wrong type in every kind of definition and result, beside a good one: twelve
// clients see all that both offer, and can use it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { startModels } from "./lib/fake_models.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { TYPESCRIPT } from "./lib/official.mjs";
import { clients, inspector, node, python, python1, servers } from "./lib/paths.mjs";
import { WORKERS, WorkerGateway } from "./lib/workers.mjs";
import { PROMPTS, RESOURCES, TEMPLATES, TOOLS } from "./servers/odd_shapes.mjs";

const run = promisify(execFile);
const table = (name, command, args) =>
  `[servers.${name}]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`;
const TABLES = [
  table("odd", node, [join(clients, "servers/odd_shapes.mjs")]),
  table("good", servers.everything.command, servers.everything.args),
].join("\n");

const TOOL = "odd__title_null";
const RESOURCE = "odd://title_null";
const PROMPT = "odd__title_null";
const keys = (all, name) => Object.keys(all).map(name).sort();
const ODD = {
  tools: keys(TOOLS, (name) => `odd__${name}`),
  resources: keys(RESOURCES, (name) => `odd://${name}`),
  templates: keys(TEMPLATES, (name) => `odd://${name}/{x}`),
  prompts: keys(PROMPTS, (name) => `odd__${name}`),
};
const NAME = { tools: "name", resources: "uri", templates: "uriTemplate", prompts: "name" };

/** All that a client lists is there, of the good server too. */
function checkLists(lists) {
  for (const [kind, wanted] of Object.entries(ODD)) {
    const names = lists[kind].map((item) => item[NAME[kind]]);
    assert.deepEqual(names.filter((name) => name.startsWith("odd")).sort(), wanted, kind);
    assert.ok(names.some((name) => !name.startsWith("odd")), `${kind} of the good server`);
  }
}

function checkUses({ called, read, got, completed }) {
  assert.ok(!called.isError);
  assert.deepEqual(called.content.map(({ type }) => type), ["text", "resource_link", "resource"]);
  assert.equal(called.content[0].text, "title_null");
  assert.equal(read.contents[0].text, RESOURCE);
  assert.equal(got.messages[0].content.text, "title_null");
  assert.deepEqual(completed.completion.values, ["one"]);
}

async function withTypeScript(make, { url, adminToken }) {
  const [client, transport] = make(url, adminToken);
  await client.connect(transport);
  try {
    return {
      tools: (await client.listTools()).tools,
      resources: (await client.listResources()).resources,
      templates: (await client.listResourceTemplates()).resourceTemplates,
      prompts: (await client.listPrompts()).prompts,
      called: await client.callTool({ name: TOOL, arguments: {} }),
      read: await client.readResource({ uri: RESOURCE }),
      got: await client.getPrompt({ name: PROMPT }),
      completed: await client.complete({
        ref: { type: "ref/prompt", name: PROMPT }, argument: { name: "a", value: "" },
      }),
    };
  } finally {
    await client.close();
  }
}

async function withPython(interpreter, mode, { url, adminToken }) {
  const script = join(clients, "python_lists.py");
  const args = [script, mode, url, adminToken, TOOL, RESOURCE, PROMPT];
  const { stdout } = await run(interpreter, args, { maxBuffer: 64 << 20, timeout: 90_000 });
  return JSON.parse(stdout);
}

async function withInspector(era, gateway) {
  const ask = async (method) => {
    const where = ["--cli", gateway.url, "--transport", "http", "--protocol-era", era];
    const how = ["--header", `Authorization: Bearer ${gateway.adminToken}`, "--stored-auth-only", "--quiet"];
    const env = { ...process.env, HOME: gateway.home };
    const args = [inspector, ...where, ...how, "--format", "json", "--method", method];
    const { stdout } = await run(node, args, { env, timeout: 60_000, maxBuffer: 64 << 20 });
    const answer = JSON.parse(stdout);
    return answer.result ?? answer;
  };
  return {
    tools: (await ask("tools/list")).tools,
    resources: (await ask("resources/list")).resources,
    templates: (await ask("resources/templates/list")).resourceTemplates,
    prompts: (await ask("prompts/list")).prompts,
  };
}

const LIBRARIES = {
  ...Object.fromEntries(Object.entries(TYPESCRIPT).map(([name, make]) =>
    [name, (gateway) => withTypeScript(make, gateway)])),
  "Python v1": (gateway) => withPython(python1, "v1", gateway),
  "Python v2 (2025-11-25)": (gateway) => withPython(python, "legacy", gateway),
  "Python v2 (2026-07-28)": (gateway) => withPython(python, "auto", gateway),
};

describe("odd members of definitions and results", { timeout: 240_000 }, () => {
  let gateway;
  before(async () => {
    gateway = await startGatewayWith(TABLES, [TOOL, "good__echo"]);
  });
  after(() => gateway?.stop());

  for (const [name, use] of Object.entries(LIBRARIES)) {
    test(`${name} has all of both servers`, async () => {
      const seen = await use(gateway);
      checkLists(seen);
      checkUses(seen);
    });
  }

  for (const era of ["legacy", "auto"]) {
    test(`the Inspector (${era}) lists all of both servers`, async () => {
      checkLists(await withInspector(era, gateway));
    });
  }

  test("the rest passes, and doctor says what does not", async () => {
    const { tools } = await withTypeScript(TYPESCRIPT["TypeScript v2 (2025-11-25)"], gateway);
    const tool = (name) => tools.find((one) => one.name === `odd__${name}`);
    assert.equal(tool("icon_among_others").icons.length, 2);
    assert.deepEqual(Object.keys(tool("hint_text").annotations ?? {}).includes("readOnlyHint"), false);
    const said = await gateway.cli("servers", "doctor", "odd");
    for (const line of [
      "not shown to callers: `title` must be a text; in `title_null`, `title_number`",
      "not shown to callers: `icons[0]` has no `src`; in `icon_without_src`",
      "left out: `resources/list`: the entry `no scheme` has a `uri` that must be a URI with a scheme",
      "left out: `prompts/list`: the entry `` has no `name`",
    ]) assert.ok(said.includes(line), `${line}\n${said}`);
  });
});

for (const [name, worker] of Object.entries(WORKERS)) {
  describe(`${name} and odd members`, { timeout: 240_000 }, () => {
    let models;
    let gateway;
    before(async () => {
      const called = worker.tool(TOOL);
      models = await startModels([
        { when: { has_tool: called, results: 0 }, reply: { calls: [{ name: called, arguments: {} }] } },
        { when: { results: 1 }, reply: { text: "It is called." } },
      ]);
      gateway = new WorkerGateway(models, TABLES);
      await gateway.start();
      await gateway.cli("profiles", "accept", name, "--yes");
    });
    after(async () => {
      await gateway?.stop();
      models?.stop();
    });

    test("its model has all tools of both servers, and calls an odd one", async () => {
      const run = await gateway.ended(await gateway.begin(name, "Call the tool."));
      assert.deepEqual([run.ending, run.text], ["done", "It is called."], JSON.stringify(run));
      const asked = JSON.stringify((await models.requests()).map(({ body }) => body));
      // Programs put names of their own in front, some in a place apart.
      for (const tool of [...ODD.tools, "good__echo"]) assert.ok(asked.includes(`${tool}"`), tool);
    });
  });
}
