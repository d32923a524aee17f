// Servers that are programs: in the sandbox, without the launcher, and beside processes of the program itself.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { asksInBothOrders, call, folder, manifest, open, spec, text } from "./lib/gateway.mjs";
import { everything, npm } from "./lib/paths.mjs";
import { run, start } from "./lib/program.mjs";

/** A program that answers one call: it runs the shell command in the arguments. */
const SHELL = `
import json, subprocess, sys
call = json.load(sys.stdin)
done = subprocess.run(["/bin/sh", "-c", call["arguments"]["command"]], capture_output=True, text=True)
json.dump({"success": True, "content": [{"type": "text", "text": done.stdout + done.stderr}]}, sys.stdout)
`;

/** The server of that program. */
const shell = (more = {}) => ({
  serverId: "shell",
  transport: "stdio",
  command: "/usr/bin/python3",
  args: ["-c", SHELL],
  manifest: manifest("shell", [spec("run")]),
  ...more,
});

describe("a server that is a program", { timeout: 120_000 }, () => {
  test("is called over MCP, in the sandbox", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerServer({ serverId: "everything", transport: "stdio", ...everything });
    await gateway.ready("everything");
    const listed = gateway.listTools().map((entry) => entry.toolId);
    assert.ok(listed.includes("everything:echo"), listed.join());
    const result = await call(gateway, "everything:echo", { message: "hello" });
    assert.equal(text(result), "Echo: hello");
    assert.equal(result.meta.sandboxed, true);
    const sum = await call(gateway, "everything:get-sum", { a: 19, b: 23 });
    assert.match(text(sum), /42/);
  });

  test("is held to a manifest, which holds for what it lists", async (t) => {
    const server = { serverId: "everything", transport: "stdio", protocol: "mcp", ...everything };
    await asksInBothOrders(t, "everything", "echo", { message: "hello" }, (gateway) => gateway.registerServer(server));
    const gateway = open(t, { capabilities: ["notes", "source.everything"] });
    const narrow = { type: "object", properties: { message: { const: "hello" } }, required: ["message"] };
    const echo = { ...spec("echo", { requiredScopes: ["notes"] }), inputSchema: narrow };
    gateway.registerServer({ ...server, manifest: manifest("everything", [echo, spec("no-such-tool")]) });
    await gateway.ready("everything");
    const listed = gateway.listTools();
    const entry = listed.find((one) => one.toolId === "everything:echo");
    assert.deepEqual(entry.requires, ["notes"]);
    assert.equal(entry.tool.description, "The tool echo.");
    assert.ok(!listed.some((one) => one.toolId === "everything:no-such-tool"));
    assert.equal(text(await call(gateway, "everything:echo", { message: "hello" })), "Echo: hello");
    const other = await call(gateway, "everything:echo", { message: "other" });
    assert.equal(other.error?.code, "INVALID_ARGUMENTS");
    assert.match(text(await call(gateway, "everything:get-sum", { a: 19, b: 23 })), /42/);
  });

  test("that answers one call has a manifest, and takes no second one", async (t) => {
    const { manifest: declared, ...server } = shell();
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerManifest(declared);
    gateway.registerServer(server);
    assert.match(text(await call(gateway, "shell:run", { command: "echo fine" })), /fine/);
    assert.throws(() => gateway.registerManifest(declared), (error) => error.code === "CONFLICT");
  });

  test("that answers one call is started for each, in the sandbox", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerServer(shell());
    await gateway.ready("shell");
    const place = folder(t);
    writeFileSync(join(place, "secret"), "the secret");
    const result = await call(gateway, "shell:run", { command: `echo hello; cat ${place}/secret; echo x > ${place}/new` });
    assert.equal(result.success, true, result.error?.message);
    assert.match(text(result), /^hello\n/);
    assert.doesNotMatch(text(result), /the secret/);
    assert.ok(!existsSync(join(place, "new")));
    assert.equal(result.meta.sandboxed, true);
  });

  test("gets variables of the options, and not those of this process", async (t) => {
    process.env.DRAWGATE_TEST_LEAK = "leaked";
    t.after(() => delete process.env.DRAWGATE_TEST_LEAK);
    const gateway = open(t, { capabilities: ["*"], env: { PATH: process.env.PATH, GIVEN: "from the options" } });
    gateway.registerServer(shell({ env: { SEEN: "env:GIVEN" } }));
    const seen = text(await call(gateway, "shell:run", { command: "echo $SEEN; env" }));
    assert.doesNotMatch(seen, /leaked/);
    assert.match(seen, /^(from the options|\*\*\*\*|\[REDACTED)/);
  });

  test("that can't be started is told by `ready`, and the others work", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerServer({ serverId: "gone", transport: "stdio", command: "/no/such/program" });
    await assert.rejects(gateway.ready("gone", 5000), (error) => /no\/such\/program/.test(error.message));
    await assert.rejects(gateway.ready("never-registered", 100), (error) => typeof error.code === "string");
    gateway.registerServer(shell());
    assert.match(text(await call(gateway, "shell:run", { command: "echo fine" })), /fine/);
  });

  test("that is switched off offers nothing", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerServer(shell({ enabled: false }));
    assert.deepEqual(gateway.listTools(), []);
  });

  test("with a mistake in its description is refused, and the mistake is named", (t) => {
    const gateway = open(t);
    const wrong = {
      carrier: { serverId: "a", transport: "carrier_pigeon", url: "http://127.0.0.1:1" },
      url: { serverId: "a", transport: "http" },
      command: { serverId: "a", transport: "stdio" },
      comand: { serverId: "a", transport: "stdio", command: "x", comand: "y" },
      "no spaces": { serverId: "no spaces", command: "x" },
      other: { ...shell(), manifest: manifest("other", [spec("run")]) },
    };
    for (const [word, config] of Object.entries(wrong)) {
      const named = (error) => typeof error.code === "string" && error.message.includes(word);
      assert.throws(() => gateway.registerServer(config), named, word);
    }
    gateway.registerServer(shell());
    assert.throws(() => gateway.registerServer(shell()), (error) => error.code === "CONFLICT");
  });
});

describe("without the launcher", { timeout: 120_000 }, () => {
  /** The native library alone in a folder. */
  function alone(t) {
    const place = folder(t);
    const library = join(place, "drawgate.node");
    copyFileSync(join(npm, `prebuilds/linux-${process.arch}-gnu/drawgate.node`), library);
    return library;
  }

  test("programs are refused, and the error says what to do", async (t) => {
    const { next } = start(t, "sandboxed.mjs", { server: shell() }, { env: { ...process.env, DRAWGATE_NATIVE_PATH: alone(t) } });
    const { result } = await next();
    assert.equal(result.success, false);
    assert.match(result.error.message, /launch/);
    assert.match(result.error.message, /helper/);
  });

  test("one that is trusted with everything runs all the same", async (t) => {
    const server = shell({ sandbox: "none" });
    const { next } = start(t, "sandboxed.mjs", { server }, { env: { ...process.env, DRAWGATE_NATIVE_PATH: alone(t) } });
    const { result } = await next();
    assert.match(text(result), /fine/);
    assert.equal(result.meta.sandboxed, false);
  });

  test("a launcher that is not there, or that others may write, is refused", (t) => {
    assert.throws(() => open(t, { helper: "/no/such/launcher" }), (error) => error.message.includes("/no/such/launcher"));
    const place = folder(t);
    const program = join(place, "launch");
    writeFileSync(program, "#!/bin/sh\n", { mode: 0o777 });
    run("chmod", ["777", program]);
    assert.throws(() => open(t, { helper: program }), (error) => error.message.includes(program));
  });
});

describe("processes of the program itself", { timeout: 120_000 }, () => {
  test("end as they should beside sandboxed calls", async (t) => {
    const gateway = open(t, { capabilities: ["*"] });
    gateway.registerServer(shell());
    await gateway.ready("shell");
    const own = promisify(execFile);
    const rounds = Array.from({ length: 25 }, async (_, round) => {
      const [boxed, plain, failed] = await Promise.all([
        call(gateway, "shell:run", { command: `echo ${round}` }),
        own("/bin/echo", [String(round)]),
        own("/bin/sh", ["-c", `exit ${round + 1}`]).catch((error) => error.code),
      ]);
      assert.equal(text(boxed), `${round}\n`, JSON.stringify(boxed));
      assert.equal(plain.stdout, `${round}\n`);
      assert.equal(failed, round + 1);
    });
    await Promise.all(rounds);
  });

  test("keep their signal handlers, and the process its own", async (t) => {
    const { child, exited, next } = start(t, "signals.mjs");
    assert.equal((await next()).ready, true);
    child.kill("SIGTERM");
    assert.equal((await next()).signal, "SIGTERM");
    child.kill("SIGINT");
    assert.deepEqual(await exited.then(({ code, signal }) => ({ code, signal })), { code: null, signal: "SIGINT" });
  });
});
