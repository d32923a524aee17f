// Follows some pages with what is built: `node follow.mjs PAGE [PAGE ...]`.

import { join } from "node:path";
import * as network from "./lib/network.mjs";
import { here } from "./lib/paths.mjs";
import { PAGES } from "./pages.mjs";

for (const page of process.argv.slice(2)) {
  const run = PAGES[page]?.fetches ? network.here : network.apart;
  const { code, output } = await run(process.execPath, [join(here, "play.mjs"), page]);
  console.log(`${page}: ${code === 0 ? "passed" : `failed\n${output}`}`);
  process.exitCode ||= code === 0 ? 0 : 1;
}
