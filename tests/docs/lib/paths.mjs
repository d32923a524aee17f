// Where the pages are.

import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const here = resolve(dirname(fileURLToPath(import.meta.url)), "..");
export const top = resolve(here, "../..");
