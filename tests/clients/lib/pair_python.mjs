// The official Python client, of 2026-07-28, in a process of its own, with the same few methods as the
// other clients of the pairs.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Inbox } from "./inbox.mjs";
import { clients, python } from "./paths.mjs";

export class PythonClient {
  inbox = new Inbox();
  #ids = 0;
  #pending = new Map();
  #watches = new Map();
  #complaints = "";

  static async connect(url, token, { capabilities, answers }) {
    const one = new PythonClient();
    one.answers = answers;
    const wanted = JSON.stringify(Object.keys(capabilities));
    const connected = one.#await(0);
    one.#start([join(clients, "pair_client.py"), url, token, wanted]);
    one.protocol = (await connected).protocol;
    return one;
  }

  #start(args) {
    this.child = spawn(python, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.child.stderr.setEncoding("utf8").on("data", (chunk) => { this.#complaints += chunk; });
    createInterface({ input: this.child.stdout }).on("line", (line) => this.#take(JSON.parse(line)));
    this.child.stdin.on("error", () => this.#giveUp());
    this.exited = new Promise((resolve) => this.child.on("close", resolve));
    this.exited.then(() => this.#giveUp());
  }

  #giveUp() {
    for (const { reject } of this.#pending.values()) {
      reject(new Error(`the client has ended: ${this.#complaints}`));
    }
  }

  #await(id, onprogress) {
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject, onprogress }));
  }

  #send(message) {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  async #take(message) {
    const { id, result, error, progress, question, notification, params, watch, method } = message;
    if (progress !== undefined) this.#pending.get(progress)?.onprogress(params);
    else if (question !== undefined) {
      this.#send({ answer: question, result: await this.answers[method](params) });
    } else if (notification !== undefined) {
      const inbox = this.#watches.get(watch) ?? this.inbox;
      inbox.put({ method: notification, params });
    } else {
      const { resolve, reject } = this.#pending.get(id);
      this.#pending.delete(id);
      if (error) reject(Object.assign(new Error(error.message), error));
      else resolve(result);
    }
  }

  request(method, params = {}, { signal, onprogress, logLevel } = {}) {
    const id = ++this.#ids;
    const pending = this.#await(id, onprogress);
    this.#send({ id, request: method, params, progress: onprogress !== undefined, logLevel });
    signal?.addEventListener("abort", () => this.#send({ cancel: id }));
    return pending;
  }

  async watch(watch) {
    const id = ++this.#ids;
    const inbox = new Inbox();
    this.#watches.set(id, inbox);
    const acknowledged = this.#await(id);
    this.#send({ id, watch });
    await acknowledged;
    return { inbox, end: () => this.#send({ end: id }) };
  }

  async close() {
    this.child.stdin.end();
    await this.exited;
  }
}
