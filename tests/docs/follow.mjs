// Follows some pages with what is built: `node follow.mjs PAGE [PAGE ...]`.

import { join } from "node:path";
import { apart } from "./lib/network.mjs";
import { here } from "./lib/paths.mjs";

for (const page of process.argv.slice(2)) {
  const { code, output } = await apart(process.execPath, [join(here, "play.mjs"), page]);
  console.log(`${page}: ${code === 0 ? "passed" : `failed\n${output}`}`);
  process.exitCode ||= code === 0 ? 0 : 1;
}
