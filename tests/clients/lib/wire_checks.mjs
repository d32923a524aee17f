// What a client of 2026-07-28 must find on the wire, whichever era the server behind the gateway is of:
// questions as results, state that only its owner can bring back, and marked notifications.

import assert from "node:assert/strict";
import { SERVER } from "./pair_checks.mjs";

const PREFIX = "io.modelcontextprotocol/";
const WATCHED = "test://watched-resource";

const paramsOf = (tool, args = {}) => ({ name: `${SERVER}__${tool}`, arguments: args });
const call = (client, tool, args, more = {}) =>
  client.once("tools/call", { ...paramsOf(tool, args), ...more });

/** A call up to its first question, and the answer to that. */
async function asked(client, message) {
  const result = await call(client, "pair_ask_user", { message });
  const [key] = Object.keys(result.inputRequests);
  const inputResponses = { [key]: { action: "accept", content: { name: "Ada" } } };
  return { result, inputResponses, requestState: result.requestState };
}

async function asksByResult(client) {
  const { result, inputResponses, requestState } = await asked(client, "Who?");
  assert.equal(result.resultType, "input_required");
  assert.equal(typeof requestState, "string");
  assert.equal("content" in result, false);
  const [question, ...others] = Object.values(result.inputRequests);
  assert.deepEqual(others, []);
  assert.deepEqual(Object.keys(question).sort(), ["method", "params"]);
  assert.equal(question.method, "elicitation/create");
  assert.equal(question.params.message, `[${SERVER}] Who?`);
  const answer = { inputResponses, requestState };
  const done = await call(client, "pair_ask_user", { message: "Who?" }, answer);
  assert.equal(done.resultType, "complete");
  assert.equal(done.content[0].text, "accept Ada");
}

async function refusesAlteredState(client) {
  const { inputResponses, requestState } = await asked(client, "Altered?");
  const middle = Math.floor(requestState.length / 2);
  const other = requestState[middle] === "A" ? "B" : "A";
  const altered = requestState.slice(0, middle) + other + requestState.slice(middle + 1);
  const answer = { inputResponses, requestState: altered };
  const pending = call(client, "pair_ask_user", { message: "Altered?" }, answer);
  await assert.rejects(pending, { code: -32602 });
}

async function refusesStateOfAnotherCall(client) {
  const { inputResponses, requestState } = await asked(client, "This?");
  const answer = { inputResponses, requestState };
  const pending = call(client, "pair_ask_user", { message: "That?" }, answer);
  await assert.rejects(pending, { code: -32602 });
}

async function refusesStateOfAnotherAgent(client, { connectOther }) {
  const { inputResponses, requestState } = await asked(client, "Mine?");
  const other = await connectOther({ elicitation: {} });
  const answer = { inputResponses, requestState };
  const pending = call(other, "pair_ask_user", { message: "Mine?" }, answer);
  await assert.rejects(pending, { code: -32602 });
  const own = await call(client, "pair_ask_user", { message: "Mine?" }, answer);
  assert.equal(own.content[0].text, "accept Ada");
}

async function marksNotifications(client) {
  const listening = await client.watch({ kinds: ["tools"], uris: [WATCHED] });
  const { method, params } = listening.first;
  assert.equal(method, "notifications/subscriptions/acknowledged");
  const honoured = { toolsListChanged: true, resourceSubscriptions: [WATCHED] };
  assert.deepEqual(params.notifications, honoured);
  assert.equal(params._meta[`${PREFIX}subscriptionId`], listening.id);
  await call(client, "pair_write", { uri: WATCHED, content: "marked" });
  const updated = await listening.inbox.next("notifications/resources/updated");
  assert.equal(updated._meta[`${PREFIX}subscriptionId`], listening.id);
  listening.end();
}

async function logsOnlyOnRequest(client, { connect }) {
  const quiet = await connect({});
  assert.equal((await call(quiet, "pair_speak")).content[0].text, "spoken");
  assert.deepEqual(quiet.inbox.all("notifications/message"), []);
}

async function saysWhatResultsAre(client) {
  const methods = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
  for (const method of methods) {
    const { resultType, ttlMs, cacheScope } = await client.once(method);
    assert.equal(resultType, "complete", method);
    assert.ok(Number.isInteger(ttlMs) && ttlMs >= 0, method);
    assert.equal(cacheScope, "private", method);
  }
  const { resultType } = await call(client, "pair_steps");
  assert.equal(resultType, "complete");
}

export const WIRE_CHECKS = {
  "asks by a result": asksByResult,
  "refuses state that was altered": refusesAlteredState,
  "refuses state of another call": refusesStateOfAnotherCall,
  "refuses state of another agent": refusesStateOfAnotherAgent,
  "marks the notifications of a subscription": marksNotifications,
  "sends log messages only to those who asked for them": logsOnlyOnRequest,
  "says of results what they are": saysWhatResultsAre,
};
