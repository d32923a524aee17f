// The client that the suite tests: Drawgate in front of the suite's server, and a client of the same
// era that makes Drawgate do what the scenario is about. The suite starts it with the address of its
// server as the last argument.

import { act } from "./lib/actions.mjs";
import { connect } from "./lib/connect.mjs";
import { Gateway, oauthFor } from "./lib/gateway.mjs";
import { useProtected, useUnattended } from "./lib/login.mjs";

/** A little less than the suite waits, so that Drawgate is ended in any case. */
const DEADLINE_MS = 170_000;

/** How long the suite's server may take to be connected. */
const READY_MS = 60_000;

const url = process.argv.at(-1);
const {
  MCP_CONFORMANCE_SCENARIO: scenario,
  MCP_CONFORMANCE_PROTOCOL_VERSION: revision,
  MCP_CONFORMANCE_CONTEXT: given = "{}",
} = process.env;
const context = JSON.parse(given);

const isProtected = scenario.startsWith("auth/");
const unattended = scenario.startsWith("auth/client-credentials-");
const gateway = await Gateway.start({
  server: { url },
  ...(isProtected && oauthFor(context, { unattended })),
});
const end = async (code) => {
  await gateway.stop();
  process.exit(code);
};
process.on("SIGTERM", () => end(1));
setTimeout(() => end(1), DEADLINE_MS).unref();

try {
  if (unattended) {
    await useUnattended(gateway, revision);
  } else if (isProtected) {
    await useProtected(gateway, revision);
  } else {
    await gateway.ready(READY_MS);
    const client = await connect(revision, gateway);
    await act(scenario, client, context);
  }
  await end(0);
} catch (error) {
  console.error(`${error.stack}\n${gateway.program.said}`);
  await end(1);
}
