// Arguments that a server accepts although they break its schema: refused by the gateway, unless the operator
// leaves the decision to the server.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { call, overStdio } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { clients, python } from "./lib/paths.mjs";

const args = [join(clients, "servers/lenient.py")];
const table = (name, rest = "") =>
  `[servers.${name}]\ncommand = ${JSON.stringify(python)}\nargs = ${JSON.stringify(args)}\n${rest}`;
const TABLES = [
  table("strict"),
  table("lenient", 'validation = "server"\n'),
  table("guarded", 'validation = "server"\n'),
  '[policy.defaults]\nfallback = "allow"\n',
  '[[policy.rules]]\nid = "no-seven"\naction = "*"\ndecision = "deny"\n',
  'when = { toolId = "guarded:*", arguments = { a = { equals = 7 } } }\n',
].join("\n");

describe("arguments that break the schema", { timeout: 120_000 }, () => {
  let gateway, client, direct;
  before(async () => {
    gateway = await startGatewayWith(TABLES, ["strict__add", "lenient__add", "guarded__add"]);
    client = await gateway.connect();
    direct = await overStdio(python, args);
  });
  after(async () => {
    await client?.close();
    await direct?.close();
    await gateway?.stop();
  });
  const sum = (server, a, b) => call(client, `${server}__add`, { a, b });

  test("are refused with their place", async () => {
    const { isError, content } = await sum("strict", "3", 4);
    assert.equal(isError, true);
    assert.match(content[0].text, /^INVALID_ARGUMENTS: .*`\/a`/);
  });

  test("reach a server that decides by itself", async () => {
    const { content } = await call(direct, "add", { a: "3", b: 4 });
    assert.deepEqual((await sum("lenient", "3", 4)).content, content);
    assert.equal(content[0].text, "7");
    const { isError } = await sum("lenient", "three", 4);
    assert.equal(isError, true, "the server refuses what it can't read");
  });

  test("meet every rule about arguments", async () => {
    assert.equal((await sum("guarded", 3, 4)).content[0].text, "7");
    for (const a of [7, "7", " 7", "seven"]) {
      assert.match((await sum("guarded", a, 4)).content[0].text, /^PERMISSION_DENIED/, String(a));
    }
  });
});
