// Large files through the official filesystem server, whose tools have output schemas: what clients that
// validate results get, and what they get beyond the limits.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { claudeCalls } from "./lib/claude.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { OFFICIAL } from "./lib/official.mjs";
import { clients, node } from "./lib/paths.mjs";

const script = join(clients, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");

/** 359 KB as a source file has it, and 10 KB in 5,200 lines. */
const LARGE = Array.from({ length: 8_200 }, (_, at) => `line ${at} of a file that somebody wants read\n`)
  .join("").slice(0, 359 * 1024);
const LINES = Array.from({ length: 5_200 }, (_, at) => `${at % 10}\n`).join("").slice(0, 10_400);

const table = (name, folder, rest = "") =>
  `[servers.${name}]\ncommand = ${JSON.stringify(node)}\nargs = ${JSON.stringify([script, folder])}\n${rest}`;

describe("large results of a tool with an output schema", { timeout: 240_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-files-"));
  const [large, lines] = ["large.txt", "lines.txt"].map((name) => join(folder, name));
  let gateway;
  before(async () => {
    writeFileSync(large, LARGE);
    writeFileSync(lines, LINES);
    const tables = [table("files", folder), table("tight", folder, "max_output_bytes = 4096\n")];
    const expected = ["files__read_text_file", "tight__read_text_file"];
    gateway = await startGatewayWith(tables.join("\n"), expected);
  });
  after(async () => {
    await gateway?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  for (const [name, converse] of Object.entries(OFFICIAL)) {
    test(`${name} reads large files whole`, async () => {
      const calls = [large, lines].map((path) => ["files__read_text_file", { path }]);
      const { results } = await converse(gateway.url, gateway.adminToken, calls);
      for (const [at, text] of [LARGE, LINES].entries()) {
        assert.ok(!results[at].isError);
        assert.equal(results[at].content[0].text, text);
        assert.deepEqual(results[at].structuredContent, { content: text });
      }
    });

    test(`${name} gets an error that it can use beyond the limit`, async () => {
      const calls = [["tight__read_text_file", { path: large }]];
      const { results: [result] } = await converse(gateway.url, gateway.adminToken, calls);
      assert.equal(result.isError, true);
      assert.equal(result.structuredContent, undefined);
      const [{ text }, link] = result.content;
      for (const part of [LARGE.slice(0, 100), LARGE.slice(-100), link.uri]) {
        assert.ok(text.includes(part.trimEnd()), text);
      }
      const client = await gateway.connect();
      const { contents } = await client.readResource({ uri: link.uri });
      await client.close();
      assert.equal(contents[0].text, LARGE);
    });
  }

  describe("Claude Code", () => {
    const direct = { command: node, args: [script, folder] };
    const through = () => {
      const headers = { authorization: `Bearer ${gateway.adminToken}` };
      return { type: "http", url: gateway.url, headers };
    };
    const ask = (server, tool, path) => claudeCalls("gate", server, tool, { path }, folder);

    test("tells the model of a file with many lines what it does without a gateway", async () => {
      const got = await ask(through(), "files__read_text_file", lines);
      assert.deepEqual(got, await ask(direct, "read_text_file", lines));
      assert.deepEqual(JSON.parse(got.text), { content: LINES });
    });

    test("saves a large file for the model, as it does without a gateway", async () => {
      const got = await ask(through(), "files__read_text_file", large);
      const control = await ask(direct, "read_text_file", large);
      assert.deepEqual(JSON.parse(got.saved), { content: LARGE });
      assert.deepEqual([got.saved, got.isError], [control.saved, control.isError]);
    });

    test("tells the model where the rest is, beyond the limit", async () => {
      const { text } = await ask(through(), "tight__read_text_file", large);
      for (const part of [LARGE.slice(0, 100), LARGE.slice(-100).trimEnd(), "drawgate://artifacts/"]) {
        assert.ok(text.includes(part), text);
      }
    });
  });
});
