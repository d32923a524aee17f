// What programs install: the package is packed, installed from the archive into an empty folder, and used there.

import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { here, npm, root, tsc } from "./lib/paths.mjs";
import { run } from "./lib/program.mjs";

/** Runs a command that must succeed, and returns what it prints. */
function output(command, args, options = {}) {
  const { status, stdout, stderr } = run(command, args, options);
  assert.equal(status, 0, `${command} ${args.join(" ")}\n${stdout}\n${stderr}`);
  return stdout;
}

describe("@drawgate/gateway", { timeout: 300_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-package-"));
  after(() => rmSync(folder, { recursive: true }));
  const installed = join(folder, "node_modules/@drawgate/gateway");

  before(() => {
    const [packed] = JSON.parse(output("npm", ["pack", "--json", "--pack-destination", folder], { cwd: npm }));
    const prebuilt = `prebuilds/linux-${process.arch}-gnu`;
    assert.deepEqual(packed.files.map((file) => file.path).sort(), [
      "README.md", "index.cjs", "index.d.ts", "index.mjs", "loader.cjs", "package.json",
      `${prebuilt}/drawgate-launch`, `${prebuilt}/drawgate.node`, "support.cjs", "types.d.ts",
    ]);
    writeFileSync(join(folder, "package.json"), `{"private": true, "type": "module"}`);
    const args = ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", join(folder, packed.filename)];
    output("npm", args, { cwd: folder });
    // What a developer installs beside it.
    for (const name of ["@types", "undici-types"]) symlinkSync(join(here, "node_modules", name), join(folder, "node_modules", name));
  });

  const check = (...args) => run(process.execPath, [tsc, ...args], { cwd: folder });

  test("it has no dependencies and no scripts", () => {
    const own = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
    for (const key of ["dependencies", "optionalDependencies", "peerDependencies", "scripts"]) assert.equal(own[key], undefined, key);
    assert.ok(!readdirSync(installed).includes("node_modules"));
  });

  test("it works there, a sandboxed program included", () => {
    cpSync(join(here, "programs/smoke.mjs"), join(folder, "smoke.mjs"));
    const printed = output(process.execPath, ["smoke.mjs"], { cwd: folder });
    assert.deepEqual(JSON.parse(printed), { js: "from JavaScript", shell: "from a program", sandboxed: true });
    const required = `const { ToolGateway } = require("@drawgate/gateway/node"); new ToolGateway().close().then(() => console.log("closed"))`;
    writeFileSync(join(folder, "required.cjs"), required);
    assert.equal(output(process.execPath, ["required.cjs"], { cwd: folder }), "closed\n");
  });

  test("its types accept the uses and reject the mistakes", () => {
    cpSync(join(here, "types"), join(folder, "types"), { recursive: true });
    const { status, stdout } = check("-p", "types");
    assert.equal(status, 0, stdout);
    const expected = readFileSync(join(here, "types/mistakes.ts"), "utf8").match(/@ts-expect-error/g);
    assert.ok(expected.length >= 10);
  });

  test("a mistake that the types no longer reject is noticed", () => {
    const text = `import { ToolGateway } from "@drawgate/gateway";\n// @ts-expect-error\nnew ToolGateway();\n`;
    mkdirSync(join(folder, "noticed"));
    writeFileSync(join(folder, "noticed/right.ts"), text);
    cpSync(join(here, "types/tsconfig.json"), join(folder, "noticed/tsconfig.json"));
    assert.match(check("-p", "noticed").stdout, /TS2578/);
  });

  test("the example compiles and does what it says", () => {
    cpSync(join(root, "examples/node"), join(folder, "example"), { recursive: true });
    const { status, stdout } = check("-p", "example");
    assert.equal(status, 0, stdout);
    const lines = output(process.execPath, ["example/dist/main.js"], { cwd: folder }).trim().split("\n");
    assert.equal(lines.length, 4, lines.join("\n"));
    assert.match(lines[0], /^20\d\d$/);
    assert.equal(lines[1], "Hello, Ada!");
    assert.match(lines[2], /^\d+ clock:year true [0-9a-f]{64}$/);
    assert.match(lines[3], /^\d+ greeter:greet true [0-9a-f]{64}$/);
  });

  for (const [document, printed] of Object.entries({
    "docs/node.md": /^deleted$/m,
    "README.md": /^Hello, Ada!$/m,
    "crates/drawgate-node/npm/README.md": /^Hello, Ada! [1-9]/m,
  })) {
    test(`the blocks of ${document} are a program that compiles and runs`, () => {
      const blocks = [...readFileSync(join(root, document), "utf8").matchAll(/```ts\n([\s\S]*?)```/g)];
      const place = mkdtempSync(join(folder, "guide-"));
      writeFileSync(join(place, "main.ts"), blocks.map(([, block]) => block).join("\n"));
      cpSync(join(root, "examples/node/tsconfig.json"), join(place, "tsconfig.json"));
      const { status, stdout } = check("-p", place);
      assert.equal(status, 0, stdout);
      assert.match(output(process.execPath, ["dist/main.js"], { cwd: place }), printed);
    });
  }

  test("its declarations have the names of the class", async () => {
    const declared = readFileSync(join(installed, "index.d.ts"), "utf8");
    const body = /declare class ToolGateway \{([\s\S]*?)\n\}/.exec(declared)[1];
    const methods = [...body.matchAll(/^ {2}(\w+)[(<]/gm)].map(([, name]) => name).sort();
    const own = await import(join(npm, "index.mjs"));
    assert.deepEqual(methods, Object.getOwnPropertyNames(own.ToolGateway.prototype).sort());
    const exported = [...declared.matchAll(/^export declare (?:class|function|const) (\w+)/gm)].map(([, name]) => name);
    assert.deepEqual(exported.sort(), Object.keys(own).filter((name) => name !== "default").sort());
  });
});
