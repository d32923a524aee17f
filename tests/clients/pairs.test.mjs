// Every pair of a client and a server of either era, through the gateway: one list of checks that must
// pass for each of them.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { upstream } from "../conformance/lib/paths.mjs";
import { Program } from "../conformance/lib/process.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { Modern } from "./lib/modern.mjs";
import { CHECKS, FOR_ALL_CLIENTS, SERVER } from "./lib/pair_checks.mjs";
import { PythonClient } from "./lib/pair_python.mjs";
import { TypeScriptClient } from "./lib/pair_typescript.mjs";
import { drawgate, node } from "./lib/paths.mjs";
import { WIRE_CHECKS } from "./lib/wire_checks.mjs";

const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };
const PATIENCE = { timeout: 300_000 };

/** The clients, how each of them connects as an agent, and the code by which it is told that a resource
 * is not there. */
const CLIENTS = {
  "TypeScript": {
    revision: "2025-11-25",
    notFound: -32002,
    connect: ({ url }, { token }, options) => TypeScriptClient.connect(url, token, options),
  },
  "TypeScript stdio": {
    revision: "2025-11-25",
    notFound: -32002,
    connect({ config, data }, { agent }, options) {
      const args = ["mcp", "--config", config, "--data", data, ...(agent ? ["--agent", agent] : [])];
      return TypeScriptClient.start(drawgate, args, options);
    },
  },
  "Python": {
    revision: "2026-07-28",
    notFound: -32602,
    connect: ({ url }, { token }, options) => PythonClient.connect(url, token, options),
  },
  "plain HTTP": {
    revision: "2026-07-28",
    notFound: -32602,
    connect: ({ url }, { token }, options) => Modern.connect(url, token, options),
    checks: { ...CHECKS, ...WIRE_CHECKS },
  },
};

/** The servers. Over HTTP, and where each client has a process of its own, it is plain for which call
 * a server asks something. */
const SERVERS = {
  "2025-11-25 over stdio": { revision: "2025-11-25", stdio: true, tellsApart: false },
  "2025-11-25 over stdio, one for each client": {
    revision: "2025-11-25", stdio: true, tellsApart: true, perClient: true,
  },
  "2025-11-25 over HTTP": { revision: "2025-11-25", tellsApart: true },
  "2026-07-28 over HTTP": { revision: "2026-07-28", tellsApart: true },
};

const OPTIONS = {
  names: "qualified",
  trust: "follow",
  client_requests: ["elicitation", "sampling", "roots"],
  // Further agents call it too.
  capabilities: ["public"],
};

/** JSON's strings and lists are also TOML's. */
const table = (name, entries) => [
  `[servers.${name}]`,
  ...Object.entries(entries).map(([key, value]) => `${key} = ${JSON.stringify(value)}`),
  "",
].join("\n");

/** A gateway in front of one server; `stop` ends both. */
async function behindGateway({ revision, stdio, perClient }) {
  const script = upstream.own[revision];
  const program = stdio ? undefined : new Program(node, [script, "--http", "0"]);
  const reached = stdio
    ? { command: node, args: [script, "--stdio"] }
    : { url: (await program.line(/http:\S+/))[0] };
  const sessions = perClient ? "per_client" : "shared";
  const tables = table(SERVER, { ...reached, ...OPTIONS, sessions });
  const gateway = await startGatewayWith(tables, [`${SERVER}__test_simple_text`]);
  const stop = async () => {
    await gateway.stop();
    await program?.stop();
  };
  return { gateway, stop };
}

for (const [title, server] of Object.entries(SERVERS)) {
  describe(`a server of ${title}`, PATIENCE, () => {
    for (const [name, { revision, notFound, connect, checks = CHECKS }] of Object.entries(CLIENTS)) {
      describe(`and the ${name} client of ${revision}`, () => {
        let running, client;
        const label = name.toLowerCase().replaceAll(" ", "-");
        const open = (capabilities, as = { token: running.gateway.adminToken }) =>
          connect(running.gateway, as, { capabilities, answers: {} });
        let others = 0;
        const openOther = async (capabilities) => {
          const agent = `${label}-${++others}`;
          const token = await running.gateway.cli("agents", "add", agent, "--quiet");
          return open(capabilities, { agent, token: token.trim() });
        };
        // One for each client: what another has cancelled there keeps a server from asking for a while.
        before(async () => {
          running = await behindGateway(server);
          client = await open(CAPABILITIES);
        });
        after(async () => {
          await client?.close();
          await running?.stop();
        });

        const about = {
          label, notFound, connect: open, connectOther: openOther, tellsApart: server.tellsApart,
          server: server.revision,
        };
        for (const [what, check] of Object.entries(checks)) {
          // A process of its own has nobody else to tell, and the list is that of another process.
          if (server.perClient && FOR_ALL_CLIENTS.has(what)) continue;
          test(what, () => check(client, about));
        }

        test("speaks its own revision", () => {
          assert.equal(client.protocol, revision);
        });
      });
    }
  });
}
