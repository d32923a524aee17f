// The end of the process: nothing keeps it alive, and no child survives it.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { until } from "../clients/lib/until.mjs";
import { everything } from "./lib/paths.mjs";
import { processesWith, start } from "./lib/program.mjs";

/** A server whose process can be told from all others by a word in its command line. */
function marked(sandbox) {
  const word = randomUUID();
  return { word, server: { serverId: "everything", transport: "stdio", ...everything, args: [...everything.args, word], sandbox } };
}

const gone = (word) => until("no process is left", () => processesWith(word).length === 0, 20_000);

/** A program that the command line of its own does not betray: the word is in its standard input. */
function begin(t, server, ending) {
  const program = start(t, "forgets.mjs");
  program.child.stdin.end(JSON.stringify({ server, ending }));
  return program;
}

describe("a program that forgets to close", { timeout: 120_000 }, () => {
  for (const sandbox of ["workspace", "none"]) {
    test(`exits by itself, with a server in the sandbox \`${sandbox}\``, async (t) => {
      const { word, server } = marked(sandbox);
      const { exited, next } = begin(t, server, "return");
      assert.equal((await next()).text, "Echo: hello");
      const { code, signal, stderr } = await exited;
      assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: "" });
      await gone(word);
    });

    test(`leaves nothing behind after kill -9, with the sandbox \`${sandbox}\``, async (t) => {
      const { word, server } = marked(sandbox);
      const { child, exited, next } = begin(t, server, "stay");
      assert.equal((await next()).text, "Echo: hello");
      assert.notEqual(processesWith(word).length, 0, "the server runs");
      child.kill("SIGKILL");
      assert.equal((await exited).signal, "SIGKILL");
      await gone(word);
    });
  }

  for (const [ending, wanted] of Object.entries({
    exit: { code: 7, signal: null },
    throw: { code: 1, signal: null },
    hang: { code: 0, signal: null },
  })) {
    test(`ends as it wants to: ${ending}`, async (t) => {
      const { word, server } = marked("workspace");
      const { exited, next } = begin(t, server, ending);
      assert.equal((await next()).text, "Echo: hello");
      const { code, signal } = await exited;
      assert.deepEqual({ code, signal }, wanted);
      await gone(word);
    });
  }
});

describe("a program with nothing to wait for", { timeout: 60_000 }, () => {
  test("is kept alive by a call under way, and not by a listener", async (t) => {
    const { exited, next } = start(t, "waits.mjs");
    assert.equal((await next()).text, "after a while");
    assert.equal((await exited).code, 0);
  });
});
