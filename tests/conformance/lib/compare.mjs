// Compares what was measured with what is expected.

/** What is wrong with a table: lost on the way without a reason, or a reason without a loss. */
export function* problemsOf({ revision, fixtures, rows }) {
  for (const { scenario, cells, known = {} } of rows) {
    for (const [column, { state }] of Object.entries(cells)) {
      const where = [revision, fixtures, column, scenario].filter(Boolean).join(" ");
      const expected = cells.direct?.state ?? "passes";
      const lost = state !== "passes" && state !== expected;
      // What an independent server can't do itself is its own business.
      if (column === "direct" && state === "fails" && fixtures !== "independent") yield `${where}: the server itself fails`;
      if (lost && !known[column]) yield `${where}: ${state}, and known.json has no reason`;
      if (!lost && known[column]) yield `${where}: ${state}; remove it from known.json`;
    }
  }
}
