// What authors of plugins install: each package is packed, installed from the archive into an empty folder, and used.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { clients, node } from "./lib/paths.mjs";

const root = join(clients, "../..");
const tsc = join(clients, "node_modules/typescript/bin/tsc");
const examples = join(root, "examples/plugins");

/** Runs a command, and returns what it prints. */
function run(command, args, options = {}) {
  const { expect = 0, ...rest } = options;
  const done = spawnSync(command, args, { encoding: "utf8", ...rest });
  assert.equal(done.status, expect, `${command} ${args.join(" ")}\n${done.stdout}\n${done.stderr}`);
  return done.stdout;
}

function emptyFolder() {
  return mkdtempSync(join(tmpdir(), "plugin-package-"));
}

describe("@drawgate/plugin", { timeout: 120_000 }, () => {
  const folder = emptyFolder();
  after(() => rmSync(folder, { recursive: true }));

  before(() => {
    const packed = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: join(root, "packages/plugin") }));
    const files = packed[0].files.map((file) => file.path).sort();
    assert.deepEqual(files, ["README.md", "index.d.ts", "index.js", "package.json"]);
    writeFileSync(join(folder, "package.json"), `{"private": true, "type": "module"}`);
    run("npm", ["install", "--offline", "--no-audit", "--no-fund", join(folder, packed[0].filename)], { cwd: folder });
  });

  const check = (files, options) =>
    run(node, [tsc, "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", ...files], {
      cwd: folder,
      ...options,
    });

  test("it has no dependencies", () => {
    assert.deepEqual(readdirSync(join(folder, "node_modules")).sort(), [".package-lock.json", "@drawgate"]);
  });

  test("its types fit the example plugins, with and without those of the DOM", () => {
    const files = [];
    for (const [name, main] of [["notes", "main.ts"], ["delegation", "index.ts"], ["validation", "index.ts"]]) {
      mkdirSync(join(folder, name));
      cpSync(join(examples, name, main), join(folder, name, main));
      files.push(join(name, main));
    }
    const fixtures = join(root, "crates/drawgate-agents/tests/fixtures/plugins");
    cpSync(join(fixtures, "everything/index.ts"), join(folder, "everything.ts"));
    check([...files, "everything.ts"]);
    // Without the DOM there is no `console`, which one of them uses.
    check(["--lib", "es2022", ...files]);
  });

  test("mistakes are found", () => {
    const register = "register: () => ({})";
    const mistakes = {
      "missing handler": `${register}, tools: [{ name: 'a', description: 'b', schema: {} }]`,
      "handler that returns a number": `${register}, tools: [{ name: 'a', description: 'b', schema: {}, handler: () => 7 }]`,
      "missing register": "tools: []",
      "wrong verdict": "register: () => ({ onTaskComplete: () => ({ accepted: 'yes' }) })",
      "unknown hook": "register: () => ({ onMesage: () => {} })",
    };
    const definitions = { "no mistake": register, ...mistakes };
    const files = Object.entries(definitions).map(([name, definition]) => {
      const text = `export const plugin: PluginDefinition = { name: 'a', version: '1', ${definition} };`;
      const file = `${name.replaceAll(" ", "-")}.ts`;
      writeFileSync(join(folder, file), `import type { PluginDefinition } from '@drawgate/plugin';\n${text}\n`);
      return file;
    });
    const errors = check(files, { expect: 2 });
    const wrong = files.filter((file) => errors.includes(`${file}(2,`));
    assert.deepEqual(wrong, files.slice(1), errors);
  });

  test("its helpers are calls on the context", () => {
    const script = `
      import { handleCheckin, runDelegationLoop } from '@drawgate/plugin';
      const asked = [];
      const tasks = { delegate: async (task) => asked.push(task), checkIn: async (...args) => asked.push(args) };
      await runDelegationLoop({ tasks }, [], { prompt: 'p', parentThreadId: 't', maxIterations: 2 });
      await handleCheckin({ tasks }, 't', 'm');
      console.log(JSON.stringify(asked));`;
    const asked = run(node, ["--input-type=module", "--eval", script], { cwd: folder });
    assert.deepEqual(JSON.parse(asked), [{ prompt: "p", parentThreadId: "t", maxIterations: 2 }, ["t", "m"]]);
  });
});

describe("drawgate_plugin", { timeout: 120_000 }, () => {
  const folder = emptyFolder();
  const python = join(folder, "venv/bin/python");
  after(() => rmSync(folder, { recursive: true }));

  before(() => {
    const source = join(folder, "source");
    cpSync(join(root, "packages/python"), source, { recursive: true });
    run("python3", ["-m", "venv", join(folder, "venv")]);
    const pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"];
    run(python, [...pip, "wheel", "--no-index", "--no-deps", "--wheel-dir", folder, source]);
    const wheel = readdirSync(folder).find((name) => name.endsWith(".whl"));
    assert.equal(wheel, "drawgate_plugin-0.1.0-py3-none-any.whl");
    run(python, [...pip, "install", "--no-index", join(folder, wheel)]);
    rmSync(source, { recursive: true });
  });

  test("a plugin runs with the installed module", () => {
    const params = { protocolVersion: "2025-11-25", capabilities: { extensions: { "dev.drawgate/plugin": { settings: {} } } } };
    const call = { name: "up", arguments: { text: "hey" }, _meta: { "dev.drawgate/threadId": "t" } };
    const messages = [["initialize", params], ["tools/list", {}], ["tools/call", call], ["ping", {}]];
    // One after the other: requests at once may be answered in any order.
    const script = `
      import json, subprocess, sys
      plugin = subprocess.Popen([sys.executable, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
      for id, (method, params) in enumerate(json.loads(sys.argv[2])):
          plugin.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\\n")
          plugin.stdin.flush()
          print(plugin.stdout.readline().decode(), end="")
      plugin.stdin.close()
      sys.exit(plugin.wait())`.replaceAll("\n      ", "\n");
    const main = join(examples, "shout/main.py");
    const lines = run(python, ["-c", script, main, JSON.stringify(messages)], { cwd: folder }).trim().split("\n");
    const [initialized, listed, called, pinged] = lines.map((line) => JSON.parse(line).result);
    assert.deepEqual(initialized.serverInfo, { name: "shout", version: "1.0.0" });
    assert.deepEqual(initialized.capabilities.extensions["dev.drawgate/plugin"], { hooks: ["beforeCall"] });
    assert.equal(listed.tools[0].name, "up");
    assert.deepEqual(called, { content: [{ type: "text", text: "HEY" }] });
    assert.deepEqual(pinged, {});
  });

  test("the wheel says what it is", () => {
    const shown = run(python, ["-m", "pip", "--disable-pip-version-check", "show", "--files", "drawgate-plugin"]);
    assert.match(shown, /Version: 0\.1\.0/);
    assert.match(shown, /Requires: *\n/);
    assert.match(shown, /drawgate_plugin\.py/);
    const version = run(python, ["-c", "import drawgate_plugin; print(drawgate_plugin.__version__)"]);
    assert.equal(version.trim(), "0.1.0");
  });
});
