// Puts the built library and its launcher into the package: `node stage.mjs [PROFILE]`, `debug` by default. Run
// `cargo build -p drawgate-node -p drawgate-host` first.

import { chmodSync, copyFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../../..");
const target = resolve(root, process.env.CARGO_TARGET_DIR ?? "target", process.argv[2] ?? "debug");
const folder = join(here, "prebuilds", `linux-${process.arch}-gnu`);

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const [from, to] of [["libdrawgate_node.so", "drawgate.node"], ["drawgate-launch", "drawgate-launch"]]) {
  copyFileSync(join(target, from), join(folder, to));
  chmodSync(join(folder, to), 0o755);
}
