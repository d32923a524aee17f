// What a test does otherwise than a reader, for all pages, each with its reason. An entry that no page needs is an error.

import { dirname, join } from "node:path";
import { drawgate, node, python, servers } from "../clients/lib/paths.mjs";
import { until } from "../clients/lib/until.mjs";

const built = dirname(drawgate);
const everything = servers.everything.args[0];
const filesystem = join(dirname(everything), "../../server-filesystem/dist/index.js");
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
  ["cargo run -p mcp-bridge-pack --", join(built, "drawgate-mcp-bridge")],
  ["npx -y @modelcontextprotocol/server-filesystem", `${node} ${filesystem}`],
  ["npx -y @modelcontextprotocol/server-everything", `${node} ${everything}`],
  ["npx @modelcontextprotocol/server-everything", `${node} ${everything}`],
  ["uvx mcp-server-time", time],
  ['command = "npx"\nargs = ["-y", "@modelcontextprotocol/server-everything"]', `command = "${node}"\nargs = ["${everything}"]`],
  ['command = "uvx"\nargs = ["mcp-server-time"]', `command = "${time}"`],
];

/** Commands that want a terminal, and what a person types if they ask. */
export const ANSWERS = [
  [/^drawgate (plugins add|profiles accept)(?!.*--yes)/, "y"],
  [/^drawgate approvals (approve|deny|show)/, "y"],
  [/^drawgate grants add .*--approval/, "y"],
  [/^drawgate sandbox exec .*-- sh\b(?! -c)/, "exit"],
];

/** Commands whose exit code says something else than that all is well. */
export const EXIT_CODES = [
  [/^drawgate servers review files +#.*exits 3 if something waits/, 3],
];

/** Commands that go on until somebody ends them, and what they print when they are at work, or the port that they serve. */
export const KEEP_RUNNING = [
  [/--follow/, /./],
  [/\/(hello-pack|drawgate-mcp-bridge) /, /connected/],
  [/ streamableHttp &$/, 3001],
  [/\/openapi-local\/server\.py &$/, 8087],
];

/** Placeholders, and what they stand for at that point of a page. */
export const FILLS = [
  [/(?<=^drawgate grants revoke )ID/, (reader) => reader.json("grants", "list", "--agent", "research-bot").map(({ grantId }) => grantId).find((id) => id.startsWith("g_"))],
  [/(?<=^drawgate approvals (?:show|approve) )ID/, (reader) => until("a call waits", () => reader.json("approvals", "list")[0]?.id)],
  [/(?<=^drawgate servers review (?:time|files) --accept )DIGEST/, (reader, command) => JSON.parse(reader.said(...command.split(" ").slice(0, 4), "--json")).digest],
  [/REQUEST_ID/, (reader) => reader.json("audit", "search", "--since", "1h", "--tool", "vfs_delete")[0].events[0].requestId],
  [/(?<=^drawgate artifacts get )HASH/, (reader) => reader.json("artifacts", "list")[0].sha256],
  [/PUBLIC_KEY/, (reader) => reader.ok("cat", join(reader.data, "audit.pub")).trim()],
];
