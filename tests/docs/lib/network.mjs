// The networks in which pages are followed.

import { spawn } from "node:child_process";

const LOOPBACK_UP = `
import fcntl, socket, struct
flags = struct.pack("16sH14x", b"lo", 1)
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, flags)
`;

/**
 * Runs a program in a network of its own: nothing but loopback, so that every port is free and nothing leaves the
 * machine. Returns its exit code and all that it printed.
 */
export function apart(program, args, options = {}) {
  const isRoot = process.getuid() === 0;
  const user = isRoot ? [] : ["--user", "--map-current-user", "--keep-caps"];
  const powerless = isRoot ? [] : ["setpriv", "--ambient-caps", "-all", "--inh-caps", "-all"];
  const script = `python3 -c '${LOOPBACK_UP}' && exec "$@"`;
  const words = [...user, "--net", "--", "sh", "-c", script, "sh", ...powerless, program, ...args];
  return here("unshare", words, options);
}

/** Runs a program in the network of this machine, for what comes from package registries. */
export async function here(program, args, options = {}) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => { output += text; });
  const code = await new Promise((done, failed) => child.on("error", failed).on("close", (status, signal) => done(status ?? signal)));
  return { code, output };
}
