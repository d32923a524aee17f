// What a test does otherwise than a reader, for all pages, each with its reason. An entry that no page needs is an error.

import { dirname, join } from "node:path";
import { drawgate, node, python, servers } from "../clients/lib/paths.mjs";

const built = dirname(drawgate);
const everything = servers.everything.args[0];
const time = join(dirname(python), "mcp-server-time");

/** Commands that are not run: page, how they begin, why. */
export const LEFT_OUT = [
  ["README.md", "./test", "it runs this test"],
  ["README.md", "cargo install", "the program is built already"],
  ["docs/install.md", "cargo install", "the program is built already"],
  ["docs/install.md", "./dist", "tests/dist runs it, and installs what it makes"],
  ["docs/install.md", "sudo apt install", "it would change this machine; tests/dist installs the package into an empty root"],
  ["docs/install.md", "podman", "there is no container engine; tests/dist runs the image's root file system"],
  ["docs/packs.md", "grpcurl", "Debian has no such package; tests of Rust ask for health and reflection"],
  ["docs/node.md", "cargo build --profile dist", "it takes a quarter of an hour; tests/node packs and installs the debug build"],
  ["docs/node.md", "node crates/drawgate-node", "the same"],
  ["docs/node.md", "(cd crates/drawgate-node/npm", "the same"],
];

/** Text that stands for something else here: what would be downloaded or built is there already. */
export const STAND_INS = [
  ["cargo run --release -- serve", "drawgate serve"],
  ["cargo run -p hello-pack --", join(built, "hello-pack")],
  ["npx -y @modelcontextprotocol/server-everything", `${node} ${everything}`],
  ["npx @modelcontextprotocol/server-everything", `${node} ${everything}`],
  ["uvx mcp-server-time", time],
  ['command = "npx"\nargs = ["-y", "@modelcontextprotocol/server-everything"]', `command = "${node}"\nargs = ["${everything}"]`],
  ['command = "uvx"\nargs = ["mcp-server-time"]', `command = "${time}"`],
];

/** Commands that ask, or want a terminal, and what a person types. */
export const ANSWERS = [
  [/^drawgate (plugins add|profiles accept)(?!.*--yes)/, "y"],
  [/^drawgate approvals (approve|show)/, ""],
  [/^drawgate grants add .*--approval/, ""],
  [/^drawgate sandbox exec .*-- sh\b(?! -c)/, "exit"],
];

/** Commands that go on until somebody ends them, and what they print when they are at work. */
export const KEEP_RUNNING = [
  [/--follow/, /./],
  [/\/hello-pack /, /Connected/],
];

/** Placeholders, and what they stand for at that point of a page. */
export const FILLS = [
  [/(?<=^drawgate grants revoke )ID/, (reader) => reader.json("grants", "list", "--agent", "research-bot").map(({ grantId }) => grantId).find((id) => id.startsWith("g_"))],
  [/(?<=^drawgate approvals (?:show|approve) )ID/, (reader) => reader.json("approvals", "list")[0].id],
  [/(?<=^drawgate servers review time --accept )DIGEST/, (reader) => JSON.parse(reader.said("drawgate", "servers", "review", "time", "--json")).digest],
  [/REQUEST_ID/, (reader) => reader.json("audit", "search", "--since", "1h", "--tool", "vfs_delete").find(({ requestId }) => requestId).requestId],
  [/PUBLIC_KEY/, (reader) => reader.ok("cat", join(reader.data, "audit.pub")).trim()],
];
