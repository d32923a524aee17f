// Where the suite, the servers behind Drawgate and the documents are. Node and the program under test
// are those of the client tests.

import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export { drawgate, node } from "../../clients/lib/paths.mjs";

const here = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const suiteFolder = join(here, "node_modules/@modelcontextprotocol/conformance");

export const suite = join(suiteFolder, "dist/index.js");
export const suiteVersion = JSON.parse(readFileSync(join(suiteFolder, "package.json"))).version;
export const client = join(here, "client.mjs");
export const known = join(here, "known.json");
export const document = resolve(here, "../../docs/conformance.md");

/** The servers with the suite's fixtures, of the same revision as the requirements: those of this
 * project, and those that others wrote from the suite's descriptions alone. */
export const upstream = {
  own: {
    "2025-11-25": join(here, "servers/server2025.mjs"),
    "2026-07-28": join(here, "servers/server2026.mjs"),
  },
  independent: {
    "2025-11-25": join(here, "servers/independent/server2025.mjs"),
    "2026-07-28": join(here, "servers/independent/server2026.mjs"),
  },
};

/** Where the independent servers look for the SDK. */
export const upstreamEnvironment = { MODULES_DIR: here };
