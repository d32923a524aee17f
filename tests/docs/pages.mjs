// What pages need of their surroundings; one that is not here needs nothing but a gateway. Of a page:
//
//   before      what its reader has already, made before the gateway starts
//   gateway     `false`: the page starts it
//   fetches     `true`: what it gets from package registries is really fetched, in the network of this machine; the port of
//               the gateway must be free there
//   applies     `true`: its configurations are put in force, one after the other; otherwise each is checked alone
//   blocks      what becomes of a kind of block (`toml`), of the first, second, … of it (`json 2`), or of one with these
//               words (`sh with …`): a file to write it to, or a function
//   elsewhere   kinds of blocks that another test uses, and which one
//   after       what must be so in the end

import assert from "node:assert/strict";
import { mkdirSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { python, servers } from "../clients/lib/paths.mjs";
import { until } from "../clients/lib/until.mjs";
import { here } from "./lib/paths.mjs";
import { startModels } from "../clients/lib/fake_models.mjs";

const table = (name, { command, args }, more = "") =>
  `[servers.${name}]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n${more}\n`;

/** Models that write a haiku when they are asked for one. */
const HAIKU = [
  { when: { turn: 0, has_tool: "vfs_write" }, reply: { calls: [{ name: "vfs_write", arguments: { path: "haiku.txt", content: "An open gate waits" } }] } },
  { reply: { text: "Done." } },
];

const withModels = async (reader, text) => {
  reader.check(text);
  const models = await startModels(HAIKU);
  reader.atEnd(() => models.stop());
  await reader.apply(text.replace('kind = "anthropic"', `kind = "anthropic"\nurl = "${models.url}"`));
};

const keys = (reader) => mkdirSync(join(reader.home, ".ssh"), { recursive: true, mode: 0o700 });

/** An OpenAPI document with the operations that the guide to toolpacks names. */
const operation = (operationId) => ({
  operationId,
  tags: ["pets"],
  parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
  responses: { 200: { description: "Done" } },
});
const PETS = {
  openapi: "3.0.3",
  info: { title: "Pets", version: "1" },
  paths: { "/pets/{id}": { get: operation("getPetById"), delete: operation("deletePetAsAdmin") } },
};

export const PAGES = {
  "README.md": {
    gateway: false,
    fetches: true,
    before: (reader) => ["uv", "uvx"].forEach((name) => symlinkSync(join(dirname(python), name), join(reader.folder, "bin", name))),
    elsewhere: { ts: "tests/node/package.test.mjs" },
    after: (reader) => assert.match(reader.read(".mcp.json"), /"mcp"/),
  },
  "docs/install.md": {
    gateway: false,
    before: (reader) => reader.program("systemctl", "#!/bin/sh\n"),
    after: (reader) => reader.ok("bash", "-n", join(reader.home, ".local/share/bash-completion/completions/drawgate")),
  },
  "docs/servers.md": {
    applies: true,
    before: (reader) => Object.assign(reader.env, { EVERYTHING_KEY: "not a secret" }),
  },
  "docs/access.md": {
    applies: true,
    // However slow this machine is, the call must not be answered before it is approved.
    before: (reader) => reader.apply("[approvals]\nhold_seconds = 300\n"),
    after: (reader) => until("the approved call has succeeded", () =>
      reader.json("audit", "search", "--tool", "vfs_delete", "--code", "OK").length === 1),
  },
  "docs/audit.md": { applies: true },
  "docs/operating.md": { gateway: false },
  "docs/agents.md": {
    before: async (reader) => {
      keys(reader);
      await reader.apply(table("time", servers.time));
    },
    elsewhere: { "rust,no_run": "crates/drawgate/src/lib.rs" },
  },
  "docs/calls.md": { before: (reader) => void reader.ok("drawgate", "agents", "add", "research-bot") },
  "docs/packs.md": { before: keys },
  "examples/packs/hello/README.md": {},
  "examples/packs/mcp-bridge/README.md": {},
  "docs/plugins.md": {
    blocks: {
      "json 1": "notes/drawgate-plugin.json",
      "ts 1": "notes/main.ts",
      "python 1": "shout/main.py",
      "json 2": "shout/drawgate-plugin.json",
    },
  },
  "docs/profiles.md": {
    blocks: {
      "markdown 1": (reader, text) => {
        mkdirSync(join(reader.home, ".config/drawgate/agents"), { recursive: true });
        reader.write("../home/.config/drawgate/agents/research-agent.md", text);
      },
    },
  },
  "docs/runs.md": {
    before: (reader) => Object.assign(reader.env, { ANTHROPIC_API_KEY: "not a secret" }),
    blocks: { "toml 1": withModels },
  },
  "docs/toolpacks.md": {
    before: (reader) => {
      Object.assign(reader.env, { GITHUB_TOKEN: "not a secret" });
      reader.program("gh", "#!/bin/sh\necho \"$@\"\n");
    },
    blocks: {
      "json 1": (reader, text) => {
        reader.write("my-pack/toolpack.json", text);
        reader.write("my-pack/spec/petstore.json", JSON.stringify(PETS));
        reader.ok("drawgate", "toolpacks", "validate", "./my-pack");
      },
      "json 2": (reader, text) => {
        const pack = JSON.parse(reader.read("my-pack/toolpack.json"));
        pack.tools.push(JSON.parse(text));
        reader.write("my-pack/toolpack.json", JSON.stringify(pack));
        reader.ok("drawgate", "toolpacks", "validate", "./my-pack");
      },
    },
  },
  "docs/sandbox.md": {
    before: (reader) => void reader.write("Makefile", "all:\n\techo made\n"),
  },
  "docs/configuration.md": {
    before: async (reader) => {
      const files = { command: "python3", args: [join(here, "servers/files.py")] };
      await reader.apply(table("files", files, 'trust = "review"'));
      reader.ok("drawgate", "agents", "add", "research-bot");
    },
    blocks: {
      "sh with Refuses calls that name": async (reader, text) => {
        const args = JSON.stringify([reader.write("no-env.sh", text)]);
        await reader.apply(`[[hooks]]\nname = "no-env"\non = "before_call"\ncommand = "sh"\nargs = ${args}\ntools = ["vfs_*"]\n`);
        reader.ok("drawgate", "tools", "call", "vfs_write", "path=notes.txt", "content=x");
        assert.throws(() => reader.ok("drawgate", "tools", "call", "vfs_write", "path=.env", "content=x"), /not that file/);
      },
    },
  },
  "docs/node.md": { elsewhere: { ts: "tests/node/package.test.mjs" }, gateway: false },
};
