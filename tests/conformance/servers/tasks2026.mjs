// The extension `io.modelcontextprotocol/tasks`: tools that go on after the call has been answered,
// and the methods by which a client follows, feeds and ends them.

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { NO_ARGUMENTS, text } from "./fixtures.mjs";
import { ask, elicit, field } from "./input2026.mjs";
import { failure, invalid, lacking, TASKS } from "./protocol2026.mjs";

const TTL_MS = 300_000;
const POLL_MS = 200;

const tasks = new Map();

class Task {
  id = randomUUID();
  createdAt = new Date().toISOString();
  lastUpdatedAt = this.createdAt;
  status = "working";
  pending = new Map();
  ending = new AbortController();

  constructor(work) {
    tasks.set(this.id, this);
    work({ signal: this.ending.signal, input: (requests) => this.input(requests) }).then(
      (result) => this.settle("completed", { result }),
      ({ code = -32603, message }) => this.settle("failed", { error: { code, message } }),
    );
  }

  get settled() {
    return ["completed", "failed", "cancelled"].includes(this.status);
  }

  become(status) {
    this.status = status;
    this.lastUpdatedAt = new Date().toISOString();
  }

  settle(status, outcome) {
    if (this.settled) return;
    this.become(status);
    this.outcome = outcome;
  }

  /** Waits until the client has answered all of the requests, and returns its answers. */
  async input(requests) {
    const answers = Object.entries(requests).map(async ([key, request]) => {
      return [key, await new Promise((resolve) => this.pending.set(key, { request, resolve }))];
    });
    this.become("input_required");
    return Object.fromEntries(await Promise.all(answers));
  }

  answer(responses) {
    for (const [key, response] of Object.entries(responses)) {
      this.pending.get(key)?.resolve(response);
      this.pending.delete(key);
    }
    if (this.pending.size === 0 && this.status === "input_required") this.become("working");
  }

  cancel() {
    this.settle("cancelled", {});
    this.ending.abort();
  }

  get summary() {
    const { id: taskId, status, createdAt, lastUpdatedAt } = this;
    return { taskId, status, createdAt, lastUpdatedAt, ttlMs: TTL_MS, pollIntervalMs: POLL_MS };
  }

  get details() {
    const requests = [...this.pending].map(([key, { request }]) => [key, request]);
    const waiting = this.status === "input_required";
    return {
      ...this.summary,
      ...(waiting && { inputRequests: Object.fromEntries(requests) }),
      ...this.outcome,
    };
  }
}

const speaksTasks = ({ capabilities }) => capabilities.extensions?.[TASKS] !== undefined;

function demandTasks(context) {
  if (!speaksTasks(context)) throw lacking({ extensions: { [TASKS]: {} } });
}

/** A tool whose work becomes a task, for clients that know tasks. */
const required = (work) => ({
  inputSchema: NO_ARGUMENTS,
  run(args, context) {
    demandTasks(context);
    return start((task) => work(args, task));
  },
});

const start = (work) => ({ resultType: "task", ...new Task(work).summary });

async function compute({ seconds = 0, label = "" }, { signal }) {
  await pause(seconds * 1000, undefined, { signal });
  return text(`computed ${label}`);
}

const slowCompute = {
  inputSchema: {
    type: "object",
    properties: { seconds: { type: "number" }, label: { type: "string" } },
  },
  run(args, context) {
    return speaksTasks(context) ? start((task) => compute(args, task)) : compute(args, {});
  },
};

const question = (message) => elicit(message, { confirm: { type: "boolean" } });

const deletion = ({ filename }, answer) =>
  text(`${answer.action === "accept" ? "deleted" : "kept"} ${filename}`);

/** Asks in a task; of clients that know none, in the call itself. */
const confirmDelete = {
  inputSchema: { type: "object", properties: { filename: { type: "string" } } },
  run(args, context) {
    const confirmation = question(`Delete ${args.filename}?`);
    if (speaksTasks(context)) {
      return start(async ({ input }) => {
        const [answer] = Object.values(await input({ [randomUUID()]: confirmation }));
        return deletion(args, answer);
      });
    }
    const answer = context.inputs?.confirmation;
    return answer ? deletion(args, answer) : ask({ confirmation });
  },
};

async function multiInput(_args, { input }) {
  const inputs = await input({
    [randomUUID()]: question("First?"),
    [randomUUID()]: question("Second?"),
  });
  return text(`${Object.keys(inputs).length} answers`);
}

/** Asks first, in the call itself; only then it becomes a task. */
const askThenTask = {
  inputSchema: NO_ARGUMENTS,
  run(_args, context) {
    demandTasks(context);
    const name = field(context.inputs, "user_name", "name");
    if (name === undefined) {
      return ask({ user_name: elicit("What is your name?", { name: { type: "string" } }) });
    }
    return start(async () => text(`Hello, ${name}!`));
  },
};

export const taskTools = {
  greet: {
    inputSchema: { type: "object", properties: { name: { type: "string" } } },
    run: ({ name }) => text(`Hello, ${name}!`),
  },
  slow_compute: slowCompute,
  failing_job: required(async () => text("the job failed", { isError: true })),
  protocol_error_job: required(async () => {
    throw failure(-32603, "the job broke");
  }),
  confirm_delete: confirmDelete,
  multi_input: required(multiInput),
  test_tool_with_task: askThenTask,
};

/** A method on one task, for clients that know tasks. */
const onTask = (run) => (params, context) => {
  demandTasks(context);
  const task = tasks.get(params.taskId);
  if (!task) throw invalid(`Unknown task: ${params.taskId}`);
  return run(task, params) ?? {};
};

export const taskMethods = {
  "tasks/get": onTask((task) => task.details),
  "tasks/update": onTask((task, { inputResponses }) => task.answer(inputResponses ?? {})),
  "tasks/cancel": onTask((task) => task.cancel()),
};
