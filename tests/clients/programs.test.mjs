// Claude Code, Codex, Gemini CLI and OpenCode as workers: each in its sandbox, with the gateway as its only
// network, before models of this machine.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startModels } from "./lib/fake_models.mjs";
import { clients } from "./lib/paths.mjs";
import { until } from "./lib/until.mjs";
import { KEY, WORKERS, WorkerGateway } from "./lib/workers.mjs";

const text = (answer, when = {}) => ({ when, reply: { text: answer } });
const calls = (name, args, when = {}) => ({ when: { has_tool: name, ...when }, reply: { calls: [{ name, arguments: args }] } });

/** What the models answer to one program: what comes first counts. */
function rulesFor({ tool, own }) {
  return [
    text("I can do little.", { system: "You are narrow." }),
    // What is delegated is done by the same program, in a run of its own.
    text("I have the result.", { contains: "job result 7" }),
    text("job result 7", { contains: "Do the job" }),
    calls(tool("delegation__delegate"), { prompt: "Do the job" }, { contains: "delegate it", results: 0 }),
    text("Delegated.", { contains: "delegate it", results: 1 }),
    calls(tool("shout__up"), { text: "quiet" }, { contains: "shout it", results: 0 }),
    text("I shouted.", { contains: "shout it", results: 1 }),
    calls(own.calls, own.args("printf 'found %d' 42"), { contains: "look around", results: 0 }),
    text("I looked around.", { contains: "look around", results: 1 }),
    text("I remember.", { contains: "Earlier in this conversation" }),
    // A message of the helper, a restart: the last words of the user.
    text("I heard the news.", { contains: "news 42" }),
    text("I went on.", { contains: "The gateway was restarted" }),
    text("I went on.", { contains: "that conversation is lost" }),
    // The poor worker never ends by itself.
    calls(tool("vfs_list"), { prefix: "" }, { system: "You are poor." }),
    calls(tool("vfs_write"), { path: "note.txt", content: "written by the worker" }, { contains: "write", results: 0 }),
    text("It is written.", { contains: "write", results: 1 }),
    calls(tool("spawn_agent"), { agent: "helper", prompt: "tell" }, { contains: "ask the helper", results: 0 }),
    text("Asked.", { contains: "ask the helper", results: 1 }),
    calls(tool("spawn_agent"), { agent: "helper", prompt: "dawdle" }, { contains: "wait for the helper", results: 0 }),
    calls(tool("vfs_list"), { prefix: "" }, { contains: "get stuck", results: 0 }),
    { when: { has_tool: tool("vfs_list"), contains: "get stuck", results: 1 }, reply: "hang" },
  ];
}

const HELPER = [
  { when: { system: "You are the helper.", contains: "dawdle" }, reply: "hang" },
  calls("signal_parent", { message: "news 42" }, { system: "You are the helper.", results: 0 }),
  text("told", { system: "You are the helper.", results: 1 }),
];

const read = (folder, name) => readFileSync(join(folder, name), "utf8");

/** The files below a folder, with what is in them. */
function* files(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile()) yield readFileSync(join(entry.parentPath, entry.name), "latin1");
  }
}

for (const [name, worker] of Object.entries(WORKERS)) {
  describe(`${name} as a worker`, { timeout: 900_000 }, () => {
    let models;
    let gateway;
    before(async () => {
      models = await startModels([...HELPER, ...rulesFor(worker)]);
      gateway = new WorkerGateway(models);
      await gateway.start();
      await gateway.accept();
      await gateway.cli("plugins", "enable", "delegation");
      await gateway.cli("plugins", "add", join(clients, "../../examples/plugins/shout"), "--yes");
    });
    after(async () => {
      await gateway?.stop();
      models?.stop();
    });

    const asked = async (words) => {
      const requests = await models.requests();
      return requests.filter(({ body }) => JSON.stringify(body).includes(words));
    };
    const tokenOf = (folder) => /^DRAWGATE_RUN_TOKEN=(.*)$/m.exec(read(folder, "environment"))[1];

    test("calls a tool of the gateway as its own, and answers", async () => {
      const id = await gateway.begin(name, "Please write a note.");
      const run = await gateway.ended(id);
      assert.deepEqual([run.ending, run.text], ["done", "It is written."], JSON.stringify(run));
      assert.equal(readFileSync(join(gateway.data, "workspace/note.txt"), "utf8"), "written by the worker");
      const steps = run.steps.map(({ body }) => Object.keys(body)[0]);
      assert.deepEqual(steps.filter((kind) => kind !== "model"), ["message", "turn", "call"]);
      assert.ok(run.used.tokens > 0 && run.used.toolCalls === 1, JSON.stringify(run.used));
      const outcomes = (await gateway.audit()).filter((event) => event.runId === id || event.event?.runId === id);
      const seen = JSON.stringify(outcomes);
      assert.ok(seen.includes("vfs_write") && seen.includes("run_started") && seen.includes("run_ended"), seen);
    });

    test("is shown the tools that its profile names, and no others", async () => {
      const run = await gateway.ended(await gateway.begin(`${name}-narrow`, "What can you do?"));
      assert.deepEqual([run.ending, run.text], ["done", "I can do little."], JSON.stringify(run));
      const [{ body }] = await asked("What can you do?");
      const shown = JSON.stringify(body.tools);
      assert.ok(shown.includes("vfs_list"), shown);
      for (const other of ["vfs_write", "vfs_read", "spawn_agent", "Bash", "shell"]) {
        assert.ok(!shown.includes(`"${other}"`) && !shown.includes(`"${worker.tool(other)}"`), `${other}: ${shown}`);
      }
    });

    test("uses a tool of its own that the operator allows, in the sandbox", async () => {
      const id = await gateway.begin(name, "Please look around.");
      const run = await gateway.ended(id);
      assert.deepEqual([run.ending, run.text], ["done", "I looked around."], JSON.stringify(run));
      assert.equal(run.used.toolCalls, 0);
      assert.ok((await asked("found 42")).length > 0, "its model sees the result");
      const [started] = (await gateway.audit()).filter((event) => event.runId === id);
      assert.deepEqual([started.invoker, started.ungatedTools], [name, worker.own.name], JSON.stringify(started));
    });

    test("asks its model with the real key, which it never sees", async () => {
      const id = await gateway.begin(name, "Please write a note.");
      await gateway.ended(id);
      const [folder] = gateway.lookedAround(id);
      const token = tokenOf(folder);
      for (const { headers } of await asked("Please write a note.")) {
        const shown = JSON.stringify(headers);
        assert.ok(shown.includes(KEY) && !shown.includes(token), shown);
      }
      for (const file of ["environment", "environments", "arguments", "processes"]) {
        assert.ok(!read(folder, file).includes(KEY), `the key is in \`${file}\``);
      }
      for (const file of ["arguments", "processes"]) {
        assert.ok(!read(folder, file).includes(token), `the token is in \`${file}\``);
      }
      assert.ok(!existsSync(join(gateway.data, "runs", id)), "its folder is gone with it");
      for (const content of files(gateway.data)) {
        assert.ok(!content.includes(token), "the token outlives the run in a file");
      }
    });

    test("reaches nothing but the gateway", async () => {
      const stuck = await gateway.begin(name, "Please get stuck.");
      await until("it is stuck", async () => (await asked("get stuck")).some(({ body }) => JSON.stringify(body).includes("note.txt")));
      const [first] = gateway.lookedAround(stuck);
      const foreign = tokenOf(first);
      for (const content of files(join(gateway.data, "runs", stuck))) {
        assert.ok(!content.includes(KEY), "the key is in a file of the sandbox");
      }
      writeFileSync(join(gateway.seen, "foreign"), foreign);
      const id = await gateway.begin(name, "Please write a note.");
      await gateway.ended(id);
      const [folder] = gateway.lookedAround(id);
      const reached = Object.fromEntries(read(folder, "reached").trim().split("\n").map((line) => line.split(" ")));
      assert.deepEqual(reached, {
        // The path and the token are right, and there is no session to end.
        "own-token": "405",
        "no-token": "401",
        forged: "401",
        foreign: "401",
        "other-path": "404",
        "other-port": "403",
        "relay-without-token": "401",
        "relay-forged": "401",
        "relay-other-provider": "403",
        "relay-other-path": worker.model.startsWith("anthropic/") ? "404" : "403",
        internet: "000",
        "this-machine": "403",
        "no-proxy": "000",
      });
      const elsewhere = await fetch(gateway.url, { method: "DELETE", headers: { authorization: `Bearer ${foreign}` } });
      assert.equal(elsewhere.status, 401, "a run's token is worth nothing outside of its sandbox");
      const began = Date.now();
      await gateway.cli("runs", "cancel", stuck);
      const run = await gateway.ended(stuck);
      assert.ok(Date.now() - began < 5_000, "cancelling takes too long");
      assert.equal(run.ending, "cancelled");
      assert.ok(!existsSync(join(gateway.data, "runs", stuck)));
    });

    test("calls a tool of a plugin as its own", async () => {
      const run = await gateway.ended(await gateway.begin(name, "Please shout it."));
      assert.deepEqual([run.ending, run.text], ["done", "I shouted."], JSON.stringify(run));
      assert.ok((await asked("QUIET")).length > 0, "its model sees the result");
    });

    test("delegates, and is resumed with the result", async () => {
      const id = await gateway.begin(name, "Please delegate it.");
      const run = await gateway.ended(id);
      assert.deepEqual([run.ending, run.text], ["done", "I have the result."], JSON.stringify(run));
      const turns = run.steps.filter(({ body }) => body.turn).map(({ body }) => body.turn);
      assert.ok(turns.length >= 2 && turns.every(({ session }) => session === turns[0].session), JSON.stringify(turns));
      assert.deepEqual(run.below.map(({ ending }) => ending), ["done"]);
      const tasks = JSON.parse(await gateway.cli("tasks", "list", "--json"));
      const [task] = tasks.filter(({ parentThreadId }) => parentThreadId === run.thread);
      assert.deepEqual([task.state, task.result], ["complete", "job result 7"], JSON.stringify(tasks));
    });

    test("is resumed with a message that came while it worked", async () => {
      const id = await gateway.begin(name, "Please ask the helper.");
      const run = await gateway.ended(id);
      assert.deepEqual([run.ending, run.text], ["done", "I heard the news."], JSON.stringify(run));
      const turns = run.steps.filter(({ body }) => body.turn).map(({ body }) => body.turn);
      assert.equal(turns.length, 2);
      assert.equal(turns[0].session, turns[1].session, "it is the same conversation");
      const last = (await asked("news 42")).filter(({ body }) => JSON.stringify(body).includes("Please ask the helper."));
      assert.ok(last.length > 0, "the model sees the whole conversation");
      assert.equal(gateway.lookedAround(id).length, 2);
    });

    test("ends when its budget is used up", async () => {
      const { input: before, output: earlier } = await models.served();
      const id = await gateway.begin(`${name}-poor`, "Go on for ever.");
      const run = await gateway.ended(id);
      assert.equal(run.ending, "budget", JSON.stringify(run));
      // The last request may write what is left. A provider stops there; the fake writes a call to its end.
      const most = 9_000 + 200;
      assert.ok(run.used.tokens <= most, JSON.stringify(run.used));
      const { input, output } = await models.served();
      assert.ok(input + output - before - earlier <= most);
    });

    test("goes on after the gateway was killed", async () => {
      const already = (await asked("get stuck")).length;
      const id = await gateway.begin(name, "Please get stuck.");
      await until("it is stuck", async () => (await asked("get stuck")).length >= already + 2);
      await gateway.kill();
      await gateway.start();
      const run = await gateway.ended(id);
      assert.deepEqual([run.ending, run.text], ["done", "I went on."], JSON.stringify(run));
      const turns = run.steps.filter(({ body }) => body.turn).map(({ body }) => body.turn);
      assert.equal(turns[0].outcome, "interrupted");
      assert.equal(turns[0].session, turns[1].session, "it is the same conversation");
      // A program that had not kept its conversation yet begins once more.
      assert.ok(turns.length === 2 || turns[1].outcome.failed && turns.length === 3, JSON.stringify(turns));
    });

    test("is told when nobody knows what became of a call", async () => {
      const id = await gateway.begin(name, "Please wait for the helper.");
      await until("the helper dawdles", async () => (await asked('"dawdle"')).length > 0);
      await gateway.kill();
      await gateway.start();
      const run = await gateway.ended(id);
      assert.deepEqual([run.ending, run.text], ["done", "I went on."], JSON.stringify(run));
      const [call] = run.steps.filter(({ body }) => body.call).map(({ body }) => body.call);
      assert.equal(call.outcome.error, "UNAVAILABLE", JSON.stringify(call));
      assert.equal(run.below[0].ending, "cancelled", "what it had started ends with it");
    });
  });
}

describe("workers", { timeout: 120_000 }, () => {
  let models;
  let gateway;
  before(async () => {
    models = await startModels([...HELPER, ...rulesFor(WORKERS.claude)]);
    gateway = new WorkerGateway(models);
    await gateway.start();
    await gateway.accept();
  });
  after(async () => {
    await gateway?.stop();
    models?.stop();
  });
  const refusal = (...args) => gateway.cli("run", ...args).then(() => assert.fail("it ran"), (error) => error.stderr);

  test("go on with a thread in a conversation of their own", async () => {
    const first = await gateway.ended(await gateway.begin("claude", "Please write a note."));
    const second = await gateway.ended(await gateway.begin("claude", "And now?", "--thread", first.thread));
    assert.deepEqual([second.thread, second.text], [first.thread, "I remember."]);
    const requests = JSON.stringify((await models.requests()).at(-1).body);
    assert.ok(requests.includes("It is written.") && requests.includes("And now?"), requests);
  });

  test("are refused a model of another API", async () => {
    assert.match(await refusal("claude", "Hello", "--model", "gemini/fake"), /kind `gemini`; it needs `anthropic`/);
  });

  test("are refused where no gateway runs", async () => {
    await gateway.kill();
    const said = await refusal("claude", "Hello");
    await gateway.start();
    assert.match(said, /through a gateway that runs; .*`drawgate serve` starts/s);
  });
});
