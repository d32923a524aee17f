// Drawgate on a data folder of its own, with one server behind it. This is the only place that knows
// what a configuration looks like.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../../clients/lib/until.mjs";
import { drawgate } from "./paths.mjs";
import { Program, run } from "./process.mjs";

/** The name of the one server in the configuration. */
export const SERVER = "upstream";

/** What the server's table holds in every run: the suite asks for tools by their own names, and
 * changes them. */
const OPTIONS = {
  names: "flat",
  trust: "follow",
  client_requests: ["elicitation", "elicitation_url", "roots", "sampling"],
};

/** Time between two looks at the server's state. */
const POLL_MS = 100;

/** The identity that the suite expects of a client that has a document about itself. */
const CLIENT_METADATA = "https://conformance-test.local/client-metadata.json";

/** How to log in at the server: as the client that the scenario registered beforehand, if it did, and
 * without a person if the scenario is about that. */
export function oauthFor(context, { unattended }) {
  const { client_id: id, client_secret: secret, private_key_pem: key, issuer } = context;
  if (!id) return { oauth: { client_metadata_url: CLIENT_METADATA } };
  const oauth = {
    client_id: id,
    ...(unattended && { grant: "client_credentials" }),
    ...(secret && { client_secret: "env:CONFORMANCE_SECRET" }),
    ...(key && { private_key: "env:CONFORMANCE_KEY" }),
    ...(issuer && { issuer }),
  };
  return { oauth, env: { CONFORMANCE_SECRET: secret ?? "", CONFORMANCE_KEY: key ?? "" } };
}

/** JSON's strings, numbers and lists are also TOML's; objects are inline tables. */
function toml(value) {
  if (typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value);
  return `{ ${Object.entries(value).map(([key, item]) => `${key} = ${toml(item)}`).join(", ")} }`;
}

/** The whole configuration. */
function configuration({ server, oauth }) {
  const table = (name, entries) => [
    `[${name}]`,
    ...Object.entries(entries).map(([key, value]) => `${key} = ${toml(value)}`),
    "",
  ];
  return [
    ...table("builtin", { enabled: false }),
    // The suite's authorization servers listen on ports of their own.
    ...table("egress", { allow: ["localhost:*", "127.0.0.1:*"] }),
    ...table(`servers.${SERVER}`, { ...server, ...OPTIONS }),
    ...(oauth ? table(`servers.${SERVER}.oauth`, oauth) : []),
  ].join("\n");
}

/** A running Drawgate in front of one server. */
export class Gateway {
  /** `server` holds `url`, or `command` and `args`; `oauth` the keys of its table, if it has one. */
  static async start({ server, oauth, env = {} }) {
    const gateway = new Gateway();
    gateway.home = mkdtempSync(join(tmpdir(), "drawgate-conformance-"));
    gateway.env = { ...process.env, ...env };
    writeFileSync(join(gateway.home, "drawgate.toml"), configuration({ server, oauth }));
    const args = ["serve", "--listen", "127.0.0.1:0", ...gateway.where];
    gateway.program = new Program(drawgate, args, { cwd: gateway.home, env: gateway.env });
    try {
      [, gateway.url] = await gateway.program.line(/Drawgate serves MCP at (\S+)/);
    } catch (error) {
      await gateway.stop();
      throw error;
    }
    return gateway;
  }

  get where() {
    return ["--config", join(this.home, "drawgate.toml"), "--data", join(this.home, "data")];
  }

  get token() {
    return readFileSync(join(this.home, "data/admin.token"), "utf8").trim();
  }

  /** A command that goes on until it is done or ended. */
  command(...args) {
    return new Program(drawgate, [...args, ...this.where], { cwd: this.home, env: this.env });
  }

  /** Another command on the same data folder, run to its end. */
  cli(...args) {
    return run(drawgate, [...args, ...this.where], { cwd: this.home, env: this.env });
  }

  /** Waits until the server behind it is connected. */
  async ready(deadlineMs) {
    await until("the server is ready", async () => {
      const { said } = await this.cli("servers", "list", "--json");
      // A warning about the configuration may stand before it.
      const servers = JSON.parse(said.slice(said.search(/^\[/m)));
      const ready = servers.every(({ state }) => state === "ready");
      if (!ready) await pause(POLL_MS);
      return ready;
    }, deadlineMs);
  }

  async stop() {
    await this.program.stop();
    rmSync(this.home, { recursive: true, force: true });
  }
}
