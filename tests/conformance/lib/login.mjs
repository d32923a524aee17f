// Drawgate in front of a protected server: the login, with this program as the browser, and a call
// that needs it.

import { connect } from "./connect.mjs";
import { SERVER } from "./gateway.mjs";

/** How often a person would try before giving up. */
const MAX_LOGINS = 3;
const LOGIN_MS = 20_000;

/** How long a server may take to be there after a login; one that refuses it never is. */
const READY_MS = 20_000;

/** Logs in once, and returns whether Drawgate was content. */
async function logIn(gateway) {
  const login = gateway.command("servers", "login", SERVER);
  try {
    const [, address] = await login.line(/^\s*(https?:\/\/\S+)\s*$/m, LOGIN_MS);
    await (await fetch(address)).text();
  } catch (error) {
    console.error(error.message);
    await login.stop();
    return false;
  }
  const patience = setTimeout(() => login.stop(), LOGIN_MS);
  const code = await login.exited;
  clearTimeout(patience);
  console.error(login.said);
  return code === 0;
}

/** Whether a call of the protected tool succeeds. */
async function call(gateway, revision) {
  try {
    await gateway.ready(READY_MS);
    const client = await connect(revision, gateway);
    await client.listTools();
    return (await client.callTool("test-tool")).isError !== true;
  } catch (error) {
    console.error(error.message);
    return false;
  }
}

/** Uses the protected tool where Drawgate logs in by itself; throws if it can't. */
export async function useUnattended(gateway, revision) {
  if (!(await call(gateway, revision))) throw new Error("the protected tool could not be used");
}

/** Uses the protected tool, and logs in whenever it can't be used; throws if it never can. */
export async function useProtected(gateway, revision) {
  for (let logins = 0; logins < MAX_LOGINS; logins += 1) {
    if (!(await logIn(gateway))) throw new Error("the login failed");
    if (await call(gateway, revision)) return;
  }
  throw new Error("the protected tool could not be used");
}
