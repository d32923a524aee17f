// Finds and loads the native library, once. There is no gateway in JavaScript to take its place: it would be a
// way around the gate.

"use strict";

const { existsSync } = require("node:fs");
const { dirname, join, resolve } = require("node:path");
const { version } = require("./package.json");

const PATH_VARIABLES = ["DRAWGATE_NATIVE_PATH", "KU0_TOOL_GATEWAY_NATIVE_PATH"];
const OFF_VARIABLES = ["DRAWGATE_DISABLE_NATIVE", "KU0_TOOL_GATEWAY_DISABLE_NATIVE"];
const ON = ["1", "true", "yes"];

let outcome;

/** `{ native, helper }`, or `{ code, problem }` where there is none. */
exports.load = () => (outcome ??= find());

function find() {
  const off = OFF_VARIABLES.find((name) => ON.includes((process.env[name] ?? "").toLowerCase()));
  if (off) {
    return { code: "DRAWGATE_NATIVE_DISABLED", problem: `the native library is switched off by the variable ${off}` };
  }
  const tried = [];
  for (const path of candidates()) {
    const problem = attempt(path);
    if (!problem) return outcome;
    tried.push(`  ${path}: ${problem}`);
  }
  const problem = ["the native library of @drawgate/gateway can't be loaded; tried:", ...tried].join("\n");
  return { code: "DRAWGATE_NATIVE_UNAVAILABLE", problem };
}

/** Loads a file into `outcome`, or says why that can't be done. */
function attempt(path) {
  if (!existsSync(path)) return "there is no such file";
  const module = { exports: {} };
  try {
    process.dlopen(module, path);
  } catch (error) {
    return error.message;
  }
  const native = module.exports;
  if (typeof native.ToolGateway !== "function" || typeof native.version !== "function") {
    return "it is not the library of @drawgate/gateway";
  }
  if (native.version() !== version) {
    return `its version is ${native.version()}, and the package's is ${version}; install both from one release`;
  }
  outcome = { native, helper: join(dirname(path), "drawgate-launch") };
}

function candidates() {
  const named = PATH_VARIABLES.map((name) => process.env[name]).find((path) => path);
  if (named) return [resolve(named)];
  const prebuilt = join(__dirname, "prebuilds", `${process.platform}-${process.arch}-gnu`, "drawgate.node");
  const checkout = resolve(__dirname, "../../..");
  if (!existsSync(join(checkout, "crates/drawgate-node/Cargo.toml"))) return [prebuilt];
  const target = resolve(checkout, process.env.CARGO_TARGET_DIR ?? "target");
  return [prebuilt, ...["release", "debug"].map((profile) => join(target, profile, "libdrawgate_node.so"))];
}
