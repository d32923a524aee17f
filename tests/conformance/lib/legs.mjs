// The runs of the suite: each server scenario directly at the server and through Drawgate, and each
// client scenario with Drawgate as the client.

import { freePort } from "../../clients/lib/gateway.mjs";
import { Gateway } from "./gateway.mjs";
import { node, upstream, upstreamEnvironment } from "./paths.mjs";
import { Program } from "./process.mjs";
import { startProxy } from "./proxy.mjs";
import { clientScenario, serverScenarios } from "./suite.mjs";

/** How long Drawgate may take to connect to the server. */
const READY_MS = 60_000;

/** Runs `use` with the address of the revision's server over HTTP. */
async function withUpstream(revision, fixtures, use) {
  const args = [upstream[fixtures][revision], "--http", String(await freePort())];
  const server = new Program(node, args, { env: { ...process.env, ...upstreamEnvironment } });
  try {
    const [url] = await server.line(/http:\S+/);
    return await use(url);
  } finally {
    await server.stop();
  }
}

/** The server scenarios through Drawgate in front of `server`. */
async function throughGateway(revision, server) {
  const gateway = await Gateway.start({ server });
  let proxy;
  try {
    await gateway.ready(READY_MS);
    proxy = await startProxy(gateway.url, gateway.token);
    return await serverScenarios(revision, proxy.url);
  } catch (error) {
    throw new Error(`${error.message}\n${gateway.program.said}`, { cause: error });
  } finally {
    await proxy?.stop();
    await gateway.stop();
  }
}

const direct = (revision, fixtures) =>
  withUpstream(revision, fixtures, (url) => serverScenarios(revision, url));
const overHttp = (revision, fixtures) =>
  withUpstream(revision, fixtures, (url) => throughGateway(revision, { url }));
const overStdio = (revision, fixtures) => {
  const args = [upstream[fixtures][revision], "--stdio"];
  return throughGateway(revision, { command: node, args, env: upstreamEnvironment });
};

const SERVER_LEGS = {
  direct: { title: "direct", run: direct },
  server: { title: "through Drawgate", run: overHttp },
  stdio: { title: "through Drawgate to stdio", run: overStdio },
};
const CLIENT_LEGS = { client: { title: "Drawgate as the client" } };

/** The columns of the table of server or client scenarios. */
export const columnsOf = (leg) => (leg === "client" ? CLIENT_LEGS : SERVER_LEGS);

/** Runs jobs, a few at a time, and returns their results in order. */
async function pool(jobs, width) {
  const results = [];
  const queue = jobs.entries();
  const worker = async () => {
    for (const [index, job] of queue) results[index] = await job();
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}

/** All client scenarios of a revision, outcomes by scenario. `width` run at the same time. */
export async function clientLeg(revision, scenarios, width, onDone) {
  const jobs = scenarios.map((scenario) => async () => {
    const result = await clientScenario(revision, scenario);
    onDone(scenario, result);
    return [scenario, result];
  });
  return new Map(await pool(jobs, width));
}
