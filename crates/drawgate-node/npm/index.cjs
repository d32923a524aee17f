// The public class around the native one. What crosses is JSON text; what is decided is decided there.

"use strict";

const { GatewayError, asGatewayError, call, describe, invalid, json, milliseconds, unwrap } = require("./support.cjs");
const { load } = require("./loader.cjs");

const LONGEST_TIMER_MS = 2 ** 31 - 1;
const EVENTS = ["audit", "tools", "approval", "lagged"];
const GIVEN_UP = { code: "CANCELLED", message: "nobody waits for this call any more" };

/** Why there is no native library. */
const missing = () => new GatewayError({ code: load().code, message: load().problem });

class ToolGateway {
  #native;
  #next = 0;
  /** What is under way, by number: `{ resolve, reject, onProgress }`. */
  #pending = new Map();
  /** Keeps the process alive while something is under way. */
  #alive;
  /** Handlers by server and tool. */
  #handlers = new Map();
  /** What handlers are told by when nobody waits for them any more. */
  #aborts = new Map();
  #listeners = new Map(EVENTS.map((name) => [name, new Set()]));
  #cursor = 0;
  #closing;

  constructor(options = {}) {
    const { native, helper: defaultHelper } = load();
    if (!native) throw missing();
    if (options === null || typeof options !== "object") throw invalid("the options are not an object");
    const given = json({ ...options, env: { ...(options.env ?? process.env) }, defaultHelper }, "the options");
    try {
      this.#native = new native.ToolGateway(given, () => this.#deliver());
    } catch (error) {
      throw asGatewayError(error);
    }
  }

  registerManifest(manifest) {
    this.#request("registerManifest", manifest, "the manifest");
  }

  registerServer(config) {
    this.#request("registerServer", config, "the server");
  }

  registerTools(serverId, tools) {
    if (!Array.isArray(tools)) throw invalid("the tools are not a list");
    const handlers = new Map();
    const specs = tools.map((tool) => {
      if (typeof tool?.handler !== "function") throw invalid(`tool \`${tool?.name}\` has no function \`handler\``);
      const { handler, ...spec } = tool;
      handlers.set(spec.name, handler);
      return spec;
    });
    this.#request("registerTools", { serverId, tools: specs }, "the tools");
    this.#handlers.set(serverId, handlers);
  }

  listTools() {
    return this.#request("listTools", null);
  }

  async callTool(invocation, { onProgress, signal } = {}) {
    const given = onProgress ? { ...invocation, $progress: true } : invocation;
    const text = json(given, "the invocation");
    let id;
    const cancel = () => this.#native.cancel(id);
    try {
      return await this.#begin((number) => {
        unwrap(this.#native.call((id = number), text));
        signal?.addEventListener("abort", cancel);
        if (signal?.aborted) cancel();
      }, onProgress);
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  grantCapability(grant) {
    return this.#request("grantCapability", grant, "the grant");
  }

  revokeCapability(grantId) {
    this.#request("revokeCapability", grantId, "the grant's id");
  }

  decideApproval(id, approve) {
    this.#request("decideApproval", { id, approve }, "the decision");
  }

  drainAuditEvents(after = this.#cursor, limit = 1000) {
    const events = unwrap(this.#native.drain(json({ after, limit }, "the range of events")));
    if (events.length > 0) this.#cursor = events.at(-1).sequence;
    return events;
  }

  readArtifact(uri) {
    try {
      return this.#native.artifact(String(uri));
    } catch (error) {
      throw asGatewayError(error);
    }
  }

  getSnapshot() {
    return this.#request("getSnapshot", null);
  }

  reset() {
    this.#request("reset", null);
    this.#handlers.clear();
  }

  async ready(serverId, timeoutMs = 30_000) {
    const limit = milliseconds(timeoutMs, "timeoutMs");
    await this.#begin((id) => unwrap(this.#native.ready(id, serverId, limit)));
  }

  on(event, listener) {
    const listeners = this.#listeners.get(event);
    if (!listeners) throw invalid(`there is no event \`${String(event)}\`; use one of ${EVENTS.join(", ")}`);
    if (typeof listener !== "function") throw invalid("the listener is not a function");
    this.#request("on", event);
    const entry = { listener };
    listeners.add(entry);
    return () => void listeners.delete(entry);
  }

  async close(graceMs = 5_000) {
    const grace = milliseconds(graceMs, "graceMs");
    this.#closing ??= this.#begin((id) => this.#native.close(id, grace)).finally(() => this.#native.release());
    await this.#closing;
  }

  #request(method, argument, what) {
    return unwrap(this.#native.request(method, json(argument, what)));
  }

  /** Begins something whose end comes as a message. */
  #begin(start, onProgress) {
    return new Promise((resolve, reject) => {
      const id = (this.#next = (this.#next + 1) % 2 ** 32);
      start(id);
      this.#pending.set(id, { resolve, reject, onProgress });
      this.#alive ??= setInterval(() => {}, LONGEST_TIMER_MS);
    });
  }

  #end(id) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) {
      clearInterval(this.#alive);
      this.#alive = undefined;
    }
    return pending;
  }

  #deliver() {
    for (const [kind, key, value] of JSON.parse(this.#native.take())) this.#receive(kind, key, value);
  }

  #receive(kind, key, value) {
    switch (kind) {
      case "result":
        return this.#end(key)?.resolve(value);
      case "settled":
        return value.error ? this.#end(key)?.reject(new GatewayError(value.error)) : this.#end(key)?.resolve();
      case "call":
        return void this.#perform(key, value);
      case "abort":
        return this.#aborts.get(key)?.abort(new GatewayError(GIVEN_UP));
      case "progress":
        return call(this.#pending.get(key)?.onProgress, value);
      case "event":
        for (const { listener } of [...this.#listeners.get(key)]) call(listener, value);
    }
  }

  /** Calls a handler. Whatever it does, there is one answer. */
  async #perform(id, { server, tool, callId, deadline, arguments: args }) {
    const abort = new AbortController();
    this.#aborts.set(id, abort);
    const progress = (done, total, message) =>
      this.#native.progress(id, json({ progress: done, total, message }, "the progress"));
    let answer;
    try {
      const handler = this.#handlers.get(server).get(tool);
      const value = await handler(args, { callId, signal: abort.signal, deadline, progress });
      answer = value === undefined ? "{}" : `{"value":${json(value, "the tool's result")}}`;
    } catch (error) {
      answer = JSON.stringify({ error: describe(error) });
    }
    this.#aborts.delete(id);
    this.#native.answer(id, answer);
  }
}

/** The class, or `null` where there is no native library. */
const getNativeToolGateway = () => (load().native ? { ToolGateway } : null);
/** Why there is none, or `null`. */
const getNativeToolGatewayError = () => (load().native ? null : missing());

module.exports = { GatewayError, ToolGateway, getNativeToolGateway, getNativeToolGatewayError };
