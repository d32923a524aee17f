// The score as text: a table for the terminal, and the document that is kept in the repository. The
// document holds no number that differs from run to run.

import { columnsOf } from "./legs.mjs";
import { suiteVersion } from "./paths.mjs";

const noteOf = ({ unscored, known }) => [
  ...(unscored ? [`not scored: ${unscored}`] : []),
  ...(known ? ["see below"] : []),
].join("; ");

/** `passed of all` for one column; what was skipped counts in neither. */
function score(rows, column) {
  const states = rows.map(({ cells }) => cells[column].state);
  const passed = states.filter((state) => state === "passes" || state === "warns").length;
  return `${passed} of ${states.filter((state) => state !== "skipped").length}`;
}

/** What a table is about. */
export const titleOf = ({ revision, leg, fixtures }) => {
  const by = { own: "", independent: " with independently written fixtures" }[fixtures] ?? "";
  return `${revision}, ${leg} scenarios${by}`;
};

function totals({ leg, rows }) {
  const scored = rows.filter(({ unscored }) => !unscored);
  return Object.entries(columnsOf(leg)).map(([column, { title }]) => {
    return `${title}: ${score(scored, column)} scored, ${score(rows, column)} in all`;
  });
}

/** The table for the terminal, with the number of checks that passed of those that were made. */
export function terminal(table) {
  const { leg, rows } = table;
  const columns = Object.entries(columnsOf(leg));
  const cell = ({ state, passed, failed }) => `${state} ${passed}/${passed + failed}`;
  const lines = [
    [titleOf(table), ...columns.map(([, { title }]) => title), ""],
    ...rows.map((row) => [
      row.scenario, ...columns.map(([column]) => cell(row.cells[column])), noteOf(row),
    ]),
  ];
  const widths = lines[0].map((_, index) => Math.max(...lines.map((line) => line[index].length)));
  const padded = lines.map((line) => {
    return line.map((word, index) => word.padEnd(widths[index])).join("  ").trimEnd();
  });
  return [...padded, ...totals(table)].join("\n");
}

function section(table) {
  const { leg, rows } = table;
  const columns = Object.entries(columnsOf(leg));
  const line = (words) => `| ${words.join(" | ")} |`;
  return [
    `## ${titleOf(table)}`,
    "",
    ...totals(table).map((total) => `- ${total}`),
    "",
    line(["scenario", ...columns.map(([, { title }]) => title), "note"]),
    line(["---", ...columns.map(() => "---"), "---"]),
    ...rows.map((row) => line([
      `\`${row.scenario}\``, ...columns.map(([column]) => row.cells[column].state), noteOf(row),
    ])),
    "",
  ];
}

function exceptions(tables) {
  const entries = tables.flatMap((table) =>
    table.rows.flatMap(({ scenario, known }) =>
      Object.entries(known ?? {}).map(([column, reason]) => {
        return `- ${titleOf(table)}, \`${scenario}\` (${columnsOf(table.leg)[column].title}): ${reason}`;
      }),
    ),
  );
  if (entries.length === 0) return [];
  return ["## Scenarios that do not pass", "", ...entries, ""];
}

const INTRODUCTION = `# Conformance

<!-- Written by \`tests/conformance/run.mjs --write\`. Do not edit. -->

The official suite, \`@modelcontextprotocol/conformance\` ${suiteVersion}, with Drawgate in the
middle. \`./test conformance\` repeats it and fails when the result is not the one below.

Server scenarios run against a server that has all that the suite calls: directly, with Drawgate in
front of it over HTTP, and with Drawgate in front of it over stdio. They run twice: with servers that
belong to this project, and with servers that others wrote from the suite's descriptions, without regard
to Drawgate (\`tests/conformance/servers/independent\`). What those do not pass directly says something
about them alone; what they pass directly must pass through Drawgate. In client scenarios Drawgate is the
client of the suite's own server.

- A scenario passes when none of its checks fails. It warns when it passes but leaves out something
  that the specification only recommends; the suite counts that as passed, and so do the sums.
- It is skipped when the suite checks nothing, for instance because something optional is not there.
- A scenario that is not scored belongs to an extension, is newer than the revision, or does not yet
  pass with the suite's own server.
`;

/** The document. */
export const markdown = (tables) => [
  INTRODUCTION,
  ...tables.flatMap(section),
  ...exceptions(tables),
].join("\n");
