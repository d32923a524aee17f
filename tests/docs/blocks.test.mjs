// How pages are read.

import assert from "node:assert/strict";
import { test } from "node:test";
import { blocks, commands, unfenced } from "./lib/blocks.mjs";

test("blocks have a language, a line and a text, also those in a list", () => {
  const page = "a\n```sh\nx\n```\n- b\n  ```toml\n  y = 1\n    z\n  ```\n";
  assert.deepEqual(blocks(page), [
    { language: "sh", line: 2, text: "x\n" },
    { language: "toml", line: 6, text: "y = 1\n  z\n" },
  ]);
  assert.throws(() => blocks("```sh\nx\n"), /line 1 does not end/);
});

test("lines that belong together are one command", () => {
  const text = "a \\\n  b   # c\n\n# alone\nd 'e\nf'\ncat <<'END'\nit's\nEND\ng \"don't\"\nh\n";
  assert.deepEqual(commands(text), ["a \\\n  b   # c", "d 'e\nf'", "cat <<'END'\nit's\nEND", 'g "don\'t"', "h"]);
  assert.throws(() => commands("a 'b\n"), /does not end/);
});

test("commands outside of blocks are found", () => {
  assert.deepEqual(unfenced("    drawgate serve --x\n```sh\n    drawgate serve --x\n```\n    a b\n"), ["1: drawgate serve --x"]);
});
