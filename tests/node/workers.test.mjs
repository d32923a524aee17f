// Gateways in worker threads that are terminated while they work.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { start } from "./lib/program.mjs";

const ROUNDS = 20;

describe("worker threads", { timeout: 600_000 }, () => {
  test(`8 that make 1,000 calls each are ended half-way, ${ROUNDS} times, and nothing crashes`, async (t) => {
    const { exited, next } = start(t, "worker_rounds.mjs", { rounds: ROUNDS, workers: 8, calls: 1000 });
    for (let round = 1; round <= ROUNDS; round++) {
      const told = await next();
      assert.equal(told.round, round);
      assert.deepEqual(told.reached, Array(8).fill(500));
    }
    assert.deepEqual(await next(), { whole: Array(8).fill(1000) });
    const { code, signal, stderr } = await exited;
    assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: "" });
  });

  test("each have their own tools, and a folder has one owner among them", async (t) => {
    const { exited, next } = start(t, "worker_owners.mjs");
    assert.deepEqual(await next(), { first: "opened", second: "CONFLICT", after: "opened" });
    assert.equal((await exited).code, 0);
  });
});
