// That the comparison finds what it is there to find.

import assert from "node:assert/strict";
import { test } from "node:test";
import { problemsOf } from "./lib/compare.mjs";

const through = (direct, server, known) => ({
  scenario: "ping",
  cells: { direct: { state: direct }, server: { state: server } },
  known: known && { server: known },
});
const asClient = (state, known) => ({
  scenario: "initialize",
  cells: { client: { state } },
  known: known && { client: known },
});

const CASES = [
  ["passes both ways", through("passes", "passes"), undefined],
  ["is lost", through("passes", "fails"), /server ping: fails, and known/],
  ["is lost by a warning", through("passes", "warns"), /server ping: warns, and known/],
  ["is lost because nothing was checked", through("passes", "skipped"), /server ping: skipped, and/],
  ["is lost for a known reason", through("passes", "fails", "because"), undefined],
  ["is known to fail and passes", through("passes", "passes", "because"), /remove it/],
  ["is skipped both ways", through("skipped", "skipped"), undefined],
  ["fails directly", through("fails", "fails"), /direct ping: the server itself fails/],
  ["passes as a client", asClient("passes"), undefined],
  ["is lost as a client", asClient("fails"), /client initialize: fails, and known/],
  ["checks nothing as a client", asClient("skipped"), /client initialize: skipped, and/],
  ["is known to fail as a client", asClient("fails", "because"), undefined],
  ["is known to fail as a client and passes", asClient("passes", "because"), /remove it/],
];

for (const [name, row, expected] of CASES) {
  test(`a scenario that ${name}`, () => {
    const problems = [...problemsOf({ revision: "2025-11-25", fixtures: "own", rows: [row] })];
    assert.equal(problems.length, expected ? 1 : 0, problems.join("; "));
    if (expected) assert.match(problems[0], expected);
  });
}

test("an independent server that fails itself is no problem of Drawgate, what is lost is", () => {
  const problems = (row) => {
    return [...problemsOf({ revision: "2025-11-25", fixtures: "independent", rows: [row] })];
  };
  assert.deepEqual(problems(through("fails", "fails")), []);
  assert.match(problems(through("passes", "fails"))[0], /independent server ping: fails, and known/);
});
