// Where the package under test, the program and the interpreters are. Everything is inside the repository.

import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const here = resolve(dirname(fileURLToPath(import.meta.url)), "..");
export const root = resolve(here, "../..");
export const programs = join(here, "programs");

/** The package under test, with the library that `stage.mjs` has put into it. */
export const npm = join(root, "crates/drawgate-node/npm");

const target = resolve(root, process.env.CARGO_TARGET_DIR ?? "target");
export const drawgate = resolve(root, process.env.DRAWGATE_BIN ?? join(target, "debug/drawgate"));
export const tsc = join(here, "node_modules/typescript/bin/tsc");

const modules = join(root, "tests/clients/node_modules");

/** The current Node of the client tests. */
const current = join(modules, `node-linux-${process.arch}/bin/node`);

/** The Node that any program finds, and the current one. */
export const nodes = ["node", ...(existsSync(current) ? [current] : [])];

/** A real MCP server over stdio. */
export const everything = {
  command: existsSync(current) ? current : process.execPath,
  args: [join(modules, "@modelcontextprotocol/server-everything/dist/index.js"), "stdio"],
};
