// What a gateway must not change: a server's definitions but for the name, and its answers.

import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { call, listTools, names, overStdio } from "./connect.mjs";
import { servers } from "./paths.mjs";
import { until } from "./until.mjs";

/** What Drawgate declares to servers on behalf of its callers, unless it is configured otherwise. */
export const DECLARED = { elicitation: { form: {} }, roots: {} };

/** The official client connected to a server with nothing in between. */
export function direct(server) {
  const { command, args } = servers[server];
  return overStdio(command, args, DECLARED);
}

/** Calls whose answers depend on nothing but the arguments. */
export const STEADY_CALLS = {
  everything: [
    ["echo", { message: "grüße, 世界 \u{1f980} \"quoted\" \\ \n" }],
    ["get-sum", { a: 19, b: 23.5 }],
    ["get-tiny-image", {}],
    ["get-structured-content", { location: "Chicago" }],
    ["get-annotated-message", { messageType: "error", includeImage: true }],
    ["get-resource-reference", { resourceType: "Text", resourceId: 1 }],
    ["get-resource-links", { count: 2 }],
  ],
  time: [
    ["convert_time", { source_timezone: "Asia/Tokyo", time: "16:30", target_timezone: "Asia/Kolkata" }],
    ["convert_time", { source_timezone: "Not/AZone", time: "16:30", target_timezone: "Asia/Kolkata" }],
  ],
};

/** Replaces what differs between two honest runs: dates, clock times and days of the week. */
export function steady(value) {
  const moment = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\b\d{1,2}:\d\d:\d\d(\s[AP]M)?|\b[A-Z][a-z]+day\b/g;
  return JSON.parse(JSON.stringify(value).replace(moment, "MOMENT"));
}

/** A tool that works as a task is called like any other through the gateway, which makes the task. */
export function withoutTasks({ execution, ...tool }) {
  const forbidden = execution?.taskSupport === "forbidden";
  return execution === undefined || forbidden ? { ...tool, ...(forbidden && { execution }) } : tool;
}

/** Every tool of `server` is listed by `through` as the server itself defines it. */
export async function sameDefinitions(control, through, server) {
  const prefix = `${server}__`;
  let expected, listed;
  // A server may add tools by what the client declared, some time after the handshake.
  const agree = async () => {
    expected = (await listTools(control))
      .map((tool) => ({ ...withoutTasks(tool), name: prefix + tool.name }))
      .sort(byName);
    listed = (await listTools(through))
      .filter((tool) => tool.name.startsWith(prefix))
      .sort(byName);
    return isDeepStrictEqual(names(listed), names(expected));
  };
  await until("the same tools are there", agree, 10_000).catch(() => {});
  assert.ok(expected.length > 0, `\`${server}\` itself lists no tools`);
  assert.deepEqual(listed, expected);
}

/** Every steady call answers through the gateway as it does directly. */
export async function sameAnswers(control, through, server) {
  for (const [tool, args] of STEADY_CALLS[server]) {
    const expected = await call(control, tool, args);
    const got = await call(through, `${server}__${tool}`, args);
    assert.deepEqual(steady(got), steady(expected), `${server}: ${tool}`);
  }
}

const byName = (a, b) => (a.name < b.name ? -1 : 1);
