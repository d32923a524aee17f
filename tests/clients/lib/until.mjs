// Waiting for a condition with a deadline, never for a length of time.

import { setTimeout as pause } from "node:timers/promises";

/** Polls `probe` until it returns something truthy, which is the result. */
export async function until(what, probe, deadlineMs = 60_000) {
  const end = Date.now() + deadlineMs;
  let last;
  while (Date.now() < end) {
    try {
      const value = await probe();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    await pause(25);
  }
  throw new Error(`gave up waiting until ${what}`, { cause: last });
}
