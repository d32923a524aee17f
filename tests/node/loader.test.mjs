// How the native library is found, and what is said where it is not.

import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, test } from "node:test";
import { folder } from "./lib/gateway.mjs";
import { npm } from "./lib/paths.mjs";
import { run } from "./lib/program.mjs";

const LOOK = `
  const { ToolGateway, getNativeToolGateway, getNativeToolGatewayError } = require(process.argv[1]);
  let thrown;
  try { new ToolGateway().close(); } catch (error) { thrown = { code: error.code, message: error.message }; }
  const error = getNativeToolGatewayError();
  const found = getNativeToolGateway();
  console.log(JSON.stringify({ found: found && Object.keys(found), error: error && error.message, code: error && error.code, thrown }));
`;

/** What a program sees with these variables. */
function look(env, entry = npm) {
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(DRAWGATE|KU0)_/.test(name)));
  const { status, stdout, stderr } = run(process.execPath, ["-e", LOOK, entry], { env: { ...clean, ...env } });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/** There is no gateway, and each of these words is in the error. */
function absent(seen, code, ...words) {
  assert.equal(seen.found, null);
  for (const word of words) assert.ok(seen.error.includes(word), `${seen.error}\ndoes not name ${word}`);
  assert.equal(seen.code, code);
  assert.deepEqual(seen.thrown, { code, message: seen.error });
}

describe("the loader", { timeout: 60_000 }, () => {
  test("finds the library of the package", () => {
    const seen = look({});
    assert.ok(seen.found.includes("ToolGateway"), JSON.stringify(seen));
    assert.equal(seen.error, null);
    assert.equal(seen.thrown, undefined);
    assert.ok(look({}, join(npm, "index.cjs")).found);
  });

  for (const name of ["DRAWGATE_DISABLE_NATIVE", "KU0_TOOL_GATEWAY_DISABLE_NATIVE"]) {
    test(`is switched off by ${name}`, () => {
      for (const value of ["1", "true", "yes"]) absent(look({ [name]: value }), "DRAWGATE_NATIVE_DISABLED", name);
      for (const value of ["", "0", "no", "false"]) assert.ok(look({ [name]: value }).found, `${name}=${value}`);
    });
  }

  for (const name of ["DRAWGATE_NATIVE_PATH", "KU0_TOOL_GATEWAY_NATIVE_PATH"]) {
    test(`tries nothing but ${name}`, (t) => {
      absent(look({ [name]: "/no/such/library.node" }), "DRAWGATE_NATIVE_UNAVAILABLE", "/no/such/library.node");
      const file = join(folder(t), "library.node");
      writeFileSync(file, "this is no library");
      absent(look({ [name]: file }), "DRAWGATE_NATIVE_UNAVAILABLE", file);
    });
  }

  test("refuses a library of another version", (t) => {
    const copy = join(folder(t), "package");
    cpSync(npm, copy, { recursive: true });
    const file = join(copy, "package.json");
    const { version, ...rest } = JSON.parse(readFileSync(file, "utf8"));
    writeFileSync(file, JSON.stringify({ ...rest, version: "9.9.9" }));
    absent(look({}, copy), "DRAWGATE_NATIVE_UNAVAILABLE", version, "9.9.9");
  });

  test("names every path that it tried", (t) => {
    const copy = join(folder(t), "package");
    cpSync(npm, copy, { recursive: true, filter: (from) => !from.includes("prebuilds") });
    absent(look({}, copy), "DRAWGATE_NATIVE_UNAVAILABLE", join(copy, "prebuilds"));
  });

  test("is the same for `import`, `require` and `./node`", async () => {
    const require = createRequire(import.meta.url);
    const required = require(npm);
    const imported = await import(join(npm, "index.mjs"));
    assert.equal(imported.ToolGateway, required.ToolGateway);
    assert.deepEqual(Object.keys(imported).filter((name) => name !== "default").sort(), Object.keys(required).sort());
  });
});
