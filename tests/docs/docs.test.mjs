// Every block of README and docs, in the order in which it stands: commands are run, configurations checked, manifests
// validated, programs used. `rules.mjs` lists what can't be, and why.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { describe, test } from "node:test";
import { drawgate } from "../clients/lib/paths.mjs";
import { blocks, commands, unfenced } from "./lib/blocks.mjs";
import { manualOf, unknown } from "./lib/manual.mjs";
import * as network from "./lib/network.mjs";
import { here, top } from "./lib/paths.mjs";
import { PAGES } from "./pages.mjs";
import { LEFT_OUT, STAND_INS } from "./rules.mjs";

const text = (name) => readFileSync(join(top, name), "utf8");
/** A page without its blocks. */
const prose = (name) => text(name).replace(/^\s*```[\s\S]*?^\s*```/gm, "");
/** What every page may have: commands, configurations and JSON, and what is only shown. */
const USED = ["sh", "toml", "json", "", "text"];
const guides = readdirSync(join(top, "docs")).filter((file) => file.endsWith(".md")).map((file) => `docs/${file}`);
const names = [...new Set(["README.md", "SECURITY.md", "CONTRIBUTING.md", ...guides, ...Object.keys(PAGES)])];

test("every block is used", () => {
  for (const name of names) {
    const { blocks: uses = {}, elsewhere = {} } = PAGES[name] ?? {};
    const seen = {};
    for (const { language, line } of blocks(text(name))) {
      seen[language] = (seen[language] ?? 0) + 1;
      const isUsed = USED.includes(language) || `${language} ${seen[language]}` in uses || language in uses;
      assert.ok(isUsed || language in elsewhere, `${name}, line ${line}: nothing uses this block of \`${language}\``);
    }
    for (const [language, file] of Object.entries(elsewhere)) {
      assert.ok(text(file).includes(name), `${file} does not name ${name}, whose blocks of \`${language}\` it is said to use`);
    }
  }
});

test("commands stand in blocks", () => {
  for (const name of names) assert.deepEqual(unfenced(text(name)), [], name);
});

test("what is left out or replaced is there", () => {
  const shell = (name) => blocks(text(name)).filter(({ language }) => language === "sh").flatMap((block) => commands(block.text));
  for (const [name, start] of LEFT_OUT) {
    assert.ok(shell(name).some((command) => command.startsWith(start)), `${name} has no command that begins with \`${start}\``);
  }
  const all = names.map(text).join("\n");
  for (const [from] of STAND_INS) assert.ok(all.includes(from), `no page has \`${from}\``);
});

test("links lead somewhere", () => {
  // As GitHub makes them: lower case, without punctuation, dashes for spaces.
  const anchor = (title) => title.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-");
  const anchors = (name) => prose(name).split("\n")
    .filter((line) => /^#+ /.test(line)).map((line) => anchor(line.replace(/^#+ /, "")));
  const wrong = [];
  for (const name of [...names, "ARCHITECTURE.md"]) {
    for (const [, link] of prose(name).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue;
      const [path, place] = link.split("#");
      const target = path === "" ? name : posix.join(posix.dirname(name), path);
      const isThere = existsSync(join(top, target)) && (place === undefined || anchors(target).includes(place));
      if (!isThere) wrong.push(`${name}: ${link}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("commands and options that are named in a text exist", () => {
  const manual = manualOf(drawgate);
  assert.deepEqual(["drawgate audit tail --fellow", "drawgate audit tale", "drawgate servers add X -- npx --yes", "drawgate serve"]
    .map((words) => unknown(manual, words)), ["--fellow", "tale", undefined, undefined]);
  const named = (name) => [...prose(name).matchAll(/`(drawgate [^`]*)`/g)].map(([, words]) => words);
  const wrong = names.flatMap((name) => named(name)
    .filter((words) => unknown(manual, words) !== undefined).map((words) => `${name}: ${words}`));
  assert.deepEqual(wrong, []);
});

test("the pictures can be made", { concurrency: true }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-pictures-"));
  const { code, output } = await network.apart("python3", [join(top, "docs/images/make.py"), drawgate, folder], { env: { ...process.env, DRAWGATE_PICTURES: "here" } });
  assert.equal(code, 0, output);
  for (const file of readdirSync(join(top, "docs/images")).filter((name) => !name.endsWith(".py"))) {
    assert.ok(readFileSync(join(folder, file)).length > 1000, file);
  }
  rmSync(folder, { recursive: true });
});

describe("pages", { concurrency: 2 }, () => {
  for (const name of names.filter((it) => blocks(text(it)).some(({ language }) => language !== ""))) {
    test(name, async () => {
      const run = PAGES[name]?.fetches ? network.here : network.apart;
      const { code, output } = await run(process.execPath, [join(here, "play.mjs"), name]);
      assert.equal(code, 0, `\n${output}`);
    });
  }
});

test("what stands for `cargo run` is what cargo would run", () => {
  const metadata = execFileSync("cargo", ["metadata", "--locked", "--no-deps", "--format-version", "1"], { cwd: top, encoding: "utf8", maxBuffer: 1 << 26 });
  const { packages } = JSON.parse(metadata);
  const programs = (found) => {
    const chosen = found.flatMap((one) => one.default_run ?? []);
    const all = found.flatMap((one) => one.targets.filter(({ kind }) => kind.includes("bin")).map(({ name }) => name));
    return chosen.length > 0 ? chosen : all;
  };
  const rows = STAND_INS.filter(([text]) => text.startsWith("cargo run "));
  assert.ok(rows.length > 2);
  for (const [text, standIn] of rows) {
    const [, name] = / -p (\S+)/.exec(text) ?? [];
    const run = programs(packages.filter((one) => !name || one.name === name));
    assert.deepEqual(run, [posix.basename(standIn.split(" ")[0])], text);
  }
});
