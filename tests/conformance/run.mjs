// Runs the official MCP conformance suite directly against a server and through Drawgate, prints the
// score, and compares it with what is expected.
//
//   node run.mjs            fails when a scenario is lost on the way, or the document is out of date
//   node run.mjs --write    writes docs/conformance.md
//   node run.mjs --why      also says why each check failed
//   node run.mjs --log      the same, and all output of client scenarios that fail
//
// DRAWGATE_BIN names the program under test.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { problemsOf } from "./lib/compare.mjs";
import { clientLeg, columnsOf } from "./lib/legs.mjs";
import * as paths from "./lib/paths.mjs";
import { markdown, terminal } from "./lib/report.mjs";
import { missing, requirements } from "./lib/suite.mjs";

const FIXTURES = Object.keys(paths.upstream);
const REVISIONS = Object.keys(paths.upstream.own);
const options = process.argv.slice(2);
const started = Date.now();

function progress(text) {
  console.log(`${String(Math.round((Date.now() - started) / 1000)).padStart(4)} s  ${text}`);
}

const known = JSON.parse(readFileSync(paths.known));

/** The rows of one table: each scenario with its outcome in each column. */
function rowsOf({ revision, leg, fixtures }, scenarios, outcomes) {
  return scenarios.filter((entry) => entry.leg === leg).map(({ scenario, unscored }) => {
    const columns = Object.keys(columnsOf(leg));
    const cells = Object.fromEntries(columns.map((column) => {
      return [column, outcomes[column].get(scenario) ?? missing("the suite left no result")];
    }));
    const reasons = columns.flatMap((column) => {
      // A reason holds for both kinds of fixtures, or for one of them by name.
      const given = known[revision]?.[column]?.[scenario];
      const reason = typeof given === "object" ? given[fixtures] : given;
      return reason ? [[column, reason]] : [];
    });
    return {
      scenario, unscored, cells, known: reasons.length > 0 ? Object.fromEntries(reasons) : undefined,
    };
  });
}

async function serverTable(revision, fixtures, scenarios) {
  const columns = Object.entries(columnsOf("server"));
  const runs = columns.map(async ([column, { title, run }]) => {
    const outcomes = await run(revision, fixtures);
    progress(`${revision} server scenarios with ${fixtures} fixtures, ${title}: done`);
    return [column, outcomes];
  });
  const outcomes = Object.fromEntries(await Promise.all(runs));
  const table = { revision, leg: "server", fixtures };
  return { ...table, rows: rowsOf(table, scenarios, outcomes) };
}

async function clientTable(revision, scenarios) {
  const wanted = scenarios.filter(({ leg }) => leg === "client").map(({ scenario }) => scenario);
  const width = availableParallelism();
  const client = await clientLeg(revision, wanted, width, (scenario, { state }) => {
    progress(`${revision} client scenario ${scenario}: ${state}`);
  });
  const table = { revision, leg: "client" };
  return { ...table, rows: rowsOf(table, scenarios, { client }) };
}

async function clientTables(sets) {
  const tables = [];
  for (const [revision, scenarios] of sets) tables.push(await clientTable(revision, scenarios));
  return tables;
}

function printRemarks({ revision, fixtures = "", rows }) {
  for (const { scenario, cells } of rows) {
    for (const [column, { state, remarks, said }] of Object.entries(cells)) {
      for (const remark of remarks) console.log(`  ${revision} ${fixtures} ${column} ${scenario}: ${remark}`);
      if (state === "fails" && said && options.includes("--log")) console.log(said);
    }
  }
}

function documentProblem(tables) {
  const measured = markdown(tables);
  if (options.includes("--write")) {
    writeFileSync(paths.document, measured);
    return [];
  }
  let kept = "";
  try {
    kept = readFileSync(paths.document, "utf8");
  } catch {
    // A document that is not there differs from any.
  }
  return kept === measured
    ? []
    : ["docs/conformance.md differs from what was measured; run with `--write`"];
}

async function main() {
  const sets = new Map();
  for (const revision of REVISIONS) sets.set(revision, await requirements(revision));
  // The server scenarios mostly wait. The client scenarios do not, and each has a time limit.
  const servers = [];
  for (const fixtures of FIXTURES) {
    const runs = REVISIONS.map((revision) => serverTable(revision, fixtures, sets.get(revision)));
    servers.push(...await Promise.all(runs));
  }
  const clients = await clientTables(sets);
  const tables = REVISIONS.flatMap((wanted) => {
    return [...servers, ...clients].filter(({ revision }) => revision === wanted);
  });
  for (const table of tables) console.log(`\n${terminal(table)}`);
  if (options.includes("--why") || options.includes("--log")) tables.forEach(printRemarks);
  const problems = tables.flatMap((table) => [...problemsOf(table)]);
  problems.push(...documentProblem(tables));
  console.log("");
  progress(`conformance: ${problems.length} problems`);
  for (const problem of problems) console.log(`  ${problem}`);
  return problems.length > 0 ? 1 : 0;
}

// The suite needs a newer Node than distributions have.
if (process.execPath === paths.node) {
  process.exit(await main());
} else {
  const args = [fileURLToPath(import.meta.url), ...options];
  process.exit(spawnSync(paths.node, args, { stdio: "inherit" }).status ?? 1);
}
