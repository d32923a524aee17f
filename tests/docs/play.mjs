// Follows one page from its beginning to its end: `node play.mjs PAGE`. It is started in the network that the page needs.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { blocks, commands } from "./lib/blocks.mjs";
import { top } from "./lib/paths.mjs";
import { Scenario } from "./lib/scenario.mjs";
import { PAGES } from "./pages.mjs";
import { LEFT_OUT, STAND_INS } from "./rules.mjs";

const name = process.argv[2];
const page = PAGES[name] ?? {};
const scenario = new Scenario(page);
const seen = {};

// What a page fetches is fetched; only what cargo would build stands in.
const standIns = STAND_INS.filter(([from]) => !page.fetches || from.startsWith("cargo run "));
const standIn = (text) => standIns.reduce((before, [from, to]) => before.replaceAll(from, to), text);

async function shell(text) {
  for (const command of commands(text)) {
    if (LEFT_OUT.some(([where, start]) => where === name && command.startsWith(start))) continue;
    try {
      await scenario.command(standIn(command));
    } catch (error) {
      throw new Error(`\`${command}\`: ${error.message}`, { cause: error });
    }
  }
}

async function follow({ language, text }) {
  seen[language] = (seen[language] ?? 0) + 1;
  const key = `${language} ${seen[language]}`;
  const isMeant = (it) => it === key || it === language || (it.startsWith(`${language} with `) && text.includes(it.slice(language.length + 6)));
  const use = Object.entries(page.blocks ?? {}).find(([it]) => isMeant(it))?.[1];
  if (typeof use === "function") return use(scenario, standIn(text));
  if (typeof use === "string") return void scenario.write(use, text);
  if (language === "sh") return shell(text);
  if (language === "json") return void JSON.parse(text);
  if (language === "toml") {
    scenario.check(text);
    if (page.applies) await scenario.apply(standIn(text));
  }
  return undefined;
}

try {
  await page.before?.(scenario);
  if (page.gateway !== false) await scenario.serve();
  for (const block of blocks(readFileSync(join(top, name), "utf8"))) {
    try {
      await follow(block);
    } catch (error) {
      throw new Error(`${name}, the block of line ${block.line}: ${error.message}${error.cause ? `\n${error.cause.cause ?? ""}` : ""}`);
    }
  }
  await page.after?.(scenario);
  await scenario.stop();
} catch (error) {
  console.error(error.message);
  if (scenario.gateway) console.error(`the gateway says:\n${scenario.gateway.printed}`);
  process.exitCode = 1;
} finally {
  await scenario.end();
}
