// Opens one data folder in two workers at a time, and again when the first has ended.

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { ToolGateway, say } from "./lib.mjs";

if (isMainThread) {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-node-"));
  const open = async () => {
    const worker = new Worker(new URL(import.meta.url), { workerData: join(folder, "data"), argv: ["{}"] });
    const [said] = await once(worker, "message");
    return { worker, said };
  };
  const first = await open();
  const second = await open();
  await first.worker.terminate();
  const after = await open();
  await Promise.all([second, after].map(({ worker }) => worker.terminate()));
  rmSync(folder, { recursive: true });
  say({ first: first.said, second: second.said, after: after.said });
} else {
  try {
    new ToolGateway({ dataDir: workerData });
    parentPort.postMessage("opened");
  } catch (error) {
    parentPort.postMessage(error.code);
  }
  setInterval(() => {}, 1000);
}
