// The error that is thrown, values on their way to JSON and back, and other small things.

"use strict";

/** The longest time that crosses. */
const LONGEST_MS = 2 ** 32 - 1;

class GatewayError extends Error {
  constructor({ code, message, details }) {
    super(message);
    this.name = "GatewayError";
    this.code = code;
    if (details !== undefined) this.details = details;
  }
}

const invalid = (message) => new GatewayError({ code: "VALIDATION_ERROR", message });

/** What a native method returned, or what it failed with. */
function unwrap(text) {
  const { ok, error } = JSON.parse(text);
  if (error) throw new GatewayError(error);
  return ok;
}

/** JSON of a value that a caller gave. */
function json(value, what) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw invalid(`${what} can't be written as JSON: ${describe(error)}`);
  }
  if (text === undefined) throw invalid(`${what} is missing, or can't be written as JSON`);
  return text;
}

/** The message of whatever was thrown. */
function describe(thrown) {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return "something was thrown that can't be shown";
  }
}

/** A time that a caller gave. */
function milliseconds(value, what) {
  if (!(typeof value === "number" && value >= 0)) throw invalid(`${what}: give a time in milliseconds`);
  return Math.min(Math.trunc(value), LONGEST_MS);
}

/** Calls a listener. What it throws is the program's to handle, as of any event's listener. */
function call(listener, value) {
  try {
    listener?.(value);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** The error of a constructor, which crosses as the message of another one. */
function asGatewayError(error) {
  try {
    return new GatewayError(JSON.parse(error.message).error);
  } catch {
    return error;
  }
}

module.exports = { GatewayError, asGatewayError, call, describe, invalid, json, milliseconds, unwrap };
