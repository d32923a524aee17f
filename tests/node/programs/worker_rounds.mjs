// Starts workers, terminates all of them when each has made half of its calls, and begins anew; the last round ends by itself.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { args, say } from "./lib.mjs";

const start = (half) => {
  const file = new URL("./worker_calls.mjs", import.meta.url);
  const worker = new Worker(file, { workerData: { calls: args.calls, half } });
  worker.on("error", (error) => { throw error; });
  return worker;
};

for (let round = 1; round <= args.rounds; round++) {
  const workers = Array.from({ length: args.workers }, () => start(args.calls / 2));
  const reached = await Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0]));
  await Promise.all(workers.map((worker) => worker.terminate()));
  say({ round, reached });
}
const workers = Array.from({ length: args.workers }, () => start(args.calls));
const ended = Promise.all(workers.map((worker) => once(worker, "exit")));
say({ whole: await Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0])) });
await ended;
