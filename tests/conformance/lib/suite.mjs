// Runs the official suite and reads what it found.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { client, node, suite } from "./paths.mjs";
import { run } from "./process.mjs";

/** Longest time for one scenario. */
const SCENARIO_MS = 180_000;

/** What a revision requires: each scenario with its leg, and why it is not scored if it is not. */
export async function requirements(revision) {
  const { said } = await run(node, [suite, "list", "--requirements", revision]);
  const scenarios = [];
  let leg;
  let reason;
  for (const line of said.split("\n")) {
    leg = /^(Server|Client) scenarios/.exec(line)?.[1].toLowerCase() ?? leg;
    reason = /^  (\S+) \(\d+\):/.exec(line)?.[1] ?? reason;
    const [, scenario, unscoredLeg] = /^ +- (\S+)(?: \[(\w+)\])?$/.exec(line) ?? [];
    if (!scenario) continue;
    const unscored = unscoredLeg ? reason : undefined;
    scenarios.push({ scenario, leg: unscoredLeg ?? leg, unscored });
  }
  return scenarios;
}

/** In one word; the suite scores a warning as a pass, for it is about what SHOULD be. */
function stateOf(failed, warned, passed) {
  if (failed > 0) return "fails";
  if (warned > 0) return "warns";
  return passed > 0 ? "passes" : "skipped";
}

/** Why a check turned out as it did. */
const explain = ({ id, errorMessage, details, description }) =>
  `${id}: ${errorMessage ?? details?.message ?? description}`;

/** The outcome of one scenario: how many checks passed and failed, and what is to say about it. */
function outcome(checks) {
  const of = (status) => checks.filter((check) => check.status === status);
  const [passed, failures, warnings] = [of("SUCCESS").length, of("FAILURE"), of("WARNING")];
  const state = stateOf(failures.length, warnings.length, passed);
  const excuses = state === "skipped" ? checks.filter(({ details }) => details?.message) : [];
  return {
    state,
    passed,
    failed: failures.length,
    remarks: [...failures, ...warnings, ...excuses].map(explain),
  };
}

/** A scenario of which the suite left no result. */
export const missing = (why) => ({ state: "fails", passed: 0, failed: 1, remarks: [why] });

/** Runs the suite with a folder for its results, and reads the checks in them by scenario. */
async function collect(args, prefix, options) {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-conformance-results-"));
  try {
    const { said } = await run(node, [suite, ...args, "--output-dir", folder], options);
    const files = readdirSync(folder, { recursive: true }).filter((path) => {
      return path.endsWith("checks.json");
    });
    const found = new Map();
    for (const file of files) {
      const scenario = file.replace(/-\d{4}-\d\d-\d\dT[\d-]+Z[/\\]checks\.json$/, "");
      const checks = JSON.parse(readFileSync(join(folder, file)));
      found.set(scenario.replace(prefix, ""), checks);
    }
    return { found, said };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The server scenarios of a revision against `url`: outcomes by scenario. */
export async function serverScenarios(revision, url) {
  const args = ["server", "--url", url, "--requirements", revision, "--timeout", SCENARIO_MS];
  const { found, said } = await collect(args.map(String), "server-");
  demandFixtures(found, url, said);
  return new Map([...found].map(([scenario, checks]) => [scenario, outcome(checks)]));
}

/** Without the fixtures in the list, several scenarios pass and have tested nothing. */
function demandFixtures(found, url, said) {
  const tools = found.get("tools-list")?.flatMap(({ details }) => details?.tools ?? []) ?? [];
  if (!tools.includes("test_simple_text")) {
    throw new Error(`${url} does not list \`test_simple_text\`; the run means nothing\n${said}`);
  }
}

/** The checks alone do not see a client that gave up, except where the suite wants it to. */
function withExit(result, said) {
  const trouble = /CLIENT (?:EXITED WITH ERROR|TIMED OUT).*/.exec(said)?.[0];
  if (!trouble) return result;
  const failed = result.failed + 1;
  return { ...result, state: "fails", failed, remarks: [...result.remarks, trouble] };
}

/** One client scenario with Drawgate as the client. */
export async function clientScenario(revision, scenario) {
  const args = [
    "client", "--command", `"${node}" "${client}"`, "--scenario", scenario,
    "--spec-version", revision, "--force", "--timeout", String(SCENARIO_MS),
  ];
  const { found, said } = await collect(args, "");
  const checks = found.get(scenario);
  if (!checks) return missing(`the suite left no result: ${said.trim().split("\n").at(-1)}`);
  return { ...withExit(outcome(checks), said), said };
}
