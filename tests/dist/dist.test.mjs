// The products of `./dist`, each installed into an empty root: the program of that root serves there.
// By default they are packed from the debug program; with DIST_OUT=FOLDER those in that folder are tried.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { until } from "../clients/lib/until.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const top = resolve(here, "../..");
const program = resolve(top, process.env.CARGO_TARGET_DIR ?? "target", "debug/drawgate");
const IMAGE_USER = 65532;

const run = (command, ...args) => execFileSync(command, args, { cwd: top, encoding: "utf8", maxBuffer: 1 << 26 });
const pack = (out, options = {}) =>
  execFileSync(join(top, "dist"), ["--program", program, "--out", out, "--quick"], { cwd: tmpdir(), stdio: ["ignore", "ignore", "inherit"], ...options });

/** The program of a root, serving in there as a user. */
async function serveIn(root, user) {
  const isRoot = process.getuid() === 0;
  const apart = ["--mount", "--propagation", "private", ...(isRoot ? [] : ["--map-root-user"])];
  const args = [...apart, join(here, "enter.sh"), root, String(user)];
  const child = spawn("unshare", [...args, "/usr/bin/drawgate", "serve", "--json", "--listen", "127.0.0.1:0"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text) => { out += text; });
  child.stderr.setEncoding("utf8").on("data", (text) => { err += text; });
  const ended = new Promise((done) => child.on("exit", (code, signal) => done({ code, signal })));
  const line = await Promise.race([
    until("it says where it listens", () => /^.*(?=\n)/.exec(out)?.[0]),
    ended.then(() => assert.fail(`it exited: ${err}`)),
  ]);
  const stop = async () => {
    child.kill("SIGTERM");
    return ended;
  };
  return { endpoint: JSON.parse(line).endpoint, stop };
}

/** One call by revision 2026-07-28, which needs no session. */
async function call(endpoint, token, name, args) {
  const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} };
  const params = { name, arguments: args, _meta: meta };
  const response = await fetch(endpoint, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${token}`,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "tools/call",
      "Mcp-Name": name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });
  return (await response.json()).result;
}

/** Serves in a root, looks at its health, makes a call and ends it. */
async function check(root, user, home) {
  const { endpoint, stop } = await serveIn(root, user);
  try {
    assert.equal((await fetch(new URL("/healthz", endpoint))).status, 200);
    const token = readFileSync(join(root, home, ".local/share/drawgate/admin.token"), "utf8").trim();
    const written = await call(endpoint, token, "vfs_write", { path: "hello.txt", content: "from an empty root" });
    assert.notEqual(written.isError, true, JSON.stringify(written));
    const read = await call(endpoint, token, "vfs_read", { path: "hello.txt" });
    assert.match(JSON.stringify(read.content), /from an empty root/);
  } finally {
    assert.deepEqual(await stop(), { code: 0, signal: null });
  }
}

describe("the products of ./dist", () => {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-dist-"));
  const made = process.env.DIST_OUT;
  const out = made ? resolve(made) : join(folder, "out");
  const product = (ending) => join(out, readdirSync(out).find((name) => name.endsWith(ending)));
  before(() => { if (!made) pack(out); });
  after(() => rmSync(folder, { recursive: true, force: true }));

  test("are all there, with their sums", () => {
    const kinds = readdirSync(out).map((name) => name.replace(/_.*_[a-z0-9]+\./, ".")).sort();
    assert.deepEqual(kinds, ["Containerfile", "SHA256SUMS", "drawgate", "drawgate.deb", "drawgate.rootfs.tar"]);
    execFileSync("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: out });
    assert.match(run(join(out, "drawgate"), "--version"), /^drawgate \d/);
    assert.doesNotMatch(run("readelf", "--sections", join(out, "drawgate")), /\.(symtab|debug_info|debug_line)/);
  });

  test("the image serves, as its own user", async () => {
    const root = join(folder, "image");
    mkdirSync(root);
    run("tar", "--extract", "--numeric-owner", "--same-permissions", "--directory", root, "--file", product(".rootfs.tar"));
    const place = readFileSync(join(out, "Containerfile"), "utf8");
    assert.match(place, new RegExp(`^USER ${IMAGE_USER}:${IMAGE_USER}$`, "m"));
    assert.match(place, /^ENV HOME=\/var\/lib\/drawgate$/m);
    await check(root, IMAGE_USER, "var/lib/drawgate");
  });

  test("the image has Debian's certificate authorities and none of this machine", () => {
    const bundle = (file) => readFileSync(file, "utf8").split("-----BEGIN CERTIFICATE-----").slice(1).map((text) => text.trim());
    const root = join(folder, "image");
    const shipped = bundle(join(root, "etc/ssl/certs/ca-certificates.crt"));
    assert.ok(shipped.length > 50);
    const local = "/usr/local/share/ca-certificates";
    const own = existsSync(local) ? readdirSync(local).filter((name) => name.endsWith(".crt")) : [];
    for (const name of own) {
      for (const certificate of bundle(join(local, name))) assert.ok(!shipped.includes(certificate), name);
    }
  });

  test("the Debian package installs where the libraries are that it depends on, and serves", async () => {
    const root = join(folder, "debian");
    mkdirSync(join(root, "var/lib/dpkg/info"), { recursive: true });
    mkdirSync(join(root, "var/lib/dpkg/updates"), { recursive: true });
    // An empty root with the libraries alone, and dpkg's record of the packages that they are from.
    run("tar", "--extract", "--directory", root, "--exclude=./usr/bin", "--exclude=./usr/share", "--file", product(".rootfs.tar"));
    const libraries = [...run("ldd", join(out, "drawgate")).matchAll(/\/\S+/g)].map(([path]) => run("realpath", path).trim());
    const search = (path) => run("dpkg-query", "--search", path.replace(/^\/usr(?=\/lib)/, "*"));
    const owners = [...new Set(libraries.map((path) => /^\S+(?=: )/.exec(search(path))[0]))];
    writeFileSync(join(root, "var/lib/dpkg/status"), run("dpkg-query", "--status", ...owners));
    for (const owner of owners) writeFileSync(join(root, "var/lib/dpkg/info", `${owner}.list`), "");
    run("dpkg", "--root", root, "--force-not-root", "--force-script-chrootless", "--install", product(".deb"));
    await check(root, IMAGE_USER, "var/lib/drawgate");
  });

  test("the Debian package has completions, a man page for each command, a unit of systemd, documents and examples", () => {
    const root = join(folder, "debian");
    const share = join(root, "usr/share");
    for (const file of ["bash-completion/completions/drawgate", "zsh/vendor-completions/_drawgate", "fish/vendor_completions.d/drawgate.fish"]) {
      assert.match(readFileSync(join(share, file), "utf8"), /approvals/, file);
    }
    const pages = readdirSync(join(share, "man/man1"));
    const expected = commands(join(out, "drawgate"));
    assert.ok(expected.length > 80, String(expected.length));
    assert.deepEqual(pages.sort(), expected.map((words) => `${["drawgate", ...words].join("-")}.1.gz`).sort());
    const page = gunzipSync(readFileSync(join(share, "man/man1/drawgate-servers-add.1.gz"))).toString();
    assert.match(page, /\.SH OPTIONS/);
    const unit = readFileSync(join(root, "usr/lib/systemd/user/drawgate.service"), "utf8");
    assert.match(unit, /^ExecStart="\/usr\/bin\/drawgate" "serve"$/m);
    for (const file of ["copyright", "README.md", "docs/configuration.md", "examples/drawgate.toml"]) {
      assert.ok(existsSync(join(share, "doc/drawgate", file)), file);
    }
    const listed = run("dpkg-deb", "--contents", product(".deb"));
    assert.doesNotMatch(listed, /node_modules|__pycache__/);
    for (const line of listed.trim().split("\n")) assert.match(line, /^\S+ root\/root /);
  });

  test("are the same again", { skip: made && "made elsewhere" }, () => {
    const again = join(folder, "again");
    pack(again);
    assert.equal(readFileSync(join(again, "SHA256SUMS"), "utf8"), readFileSync(join(out, "SHA256SUMS"), "utf8"));
  });
});

/** Every command of the program, by its words: what `--help` lists, and so on below. */
function commands(drawgate, words = []) {
  const help = run(drawgate, ...words, "--help");
  const list = help.split("\nCommands:\n")[1]?.split("\n\n")[0] ?? "";
  const names = list.split("\n").map((line) => /^ {2}(\S+)/.exec(line)?.[1]).filter((name) => name && name !== "help");
  return [words, ...names.flatMap((name) => commands(drawgate, [...words, name]))];
}
