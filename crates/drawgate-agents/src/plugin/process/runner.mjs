// Runs one plugin in Node: loads its definition, and speaks the plugin protocol on the standard streams.
//
// The gateway starts it as `node --input-type=module --eval TEXT -- MAIN`, and puts a constant `LIBRARY` before
// it, the text of `@drawgate/plugin`. Standard output belongs to the protocol: what the plugin prints goes to
// the gateway's log.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import * as modules from 'node:module';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';

const EXTENSION = 'dev.drawgate/plugin';
const TYPESCRIPT_FROM = '22.18';
const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;

const main = process.argv[1];
const write = process.stdout.write.bind(process.stdout);

let definition;
let hooks = {};
let context;

// --- messages ---

const asked = new Map();
const running = new Map();
let lastId = 0;

function send(message) {
  write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

function ask(method, params) {
  lastId += 1;
  const id = lastId;
  const { promise, resolve, reject } = withResolvers();
  asked.set(id, { resolve, reject });
  send({ id, method, params });
  return promise;
}

function withResolvers() {
  const deferred = {};
  deferred.promise = new Promise((resolve, reject) => Object.assign(deferred, { resolve, reject }));
  return deferred;
}

async function receive(message) {
  const { id, method, params } = message;
  if (method === undefined) {
    const waiting = asked.get(id);
    asked.delete(id);
    if (message.error) waiting?.reject(new Error(message.error.message));
    else waiting?.resolve(message.result);
  } else if (id !== undefined) {
    await answer(id, method, params ?? {});
  } else if (method === 'notifications/cancelled') {
    running.get(params?.requestId)?.abort(new Error('the caller gave up'));
  }
}

async function answer(id, method, params) {
  const handle = methods[method];
  if (!handle) {
    send({ id, error: { code: METHOD_NOT_FOUND, message: `unknown method \`${method}\`` } });
    return;
  }
  try {
    send({ id, result: (await handle(params, id)) ?? {} });
  } catch (error) {
    if (error?.stack) process.stderr.write(`${error.stack}\n`);
    send({ id, error: { code: INTERNAL_ERROR, message: messageOf(error) } });
  }
}

function messageOf(error) {
  return error instanceof Error ? error.message : format(error);
}

/** What Node says about the syntax of the plugin: errors of `import` have no place. */
function syntaxCheck() {
  const check = (args, input) =>
    spawnSync(process.execPath, ['--check', ...args], { encoding: 'utf8', timeout: 5000, input }).stderr;
  const said = check([main]);
  if (said || !main.endsWith('.js')) return said;
  // Node 20 says nothing about a module whose name does not say that it is one.
  return check(['--input-type=module'], readFileSync(main)).replaceAll('[stdin]', () => main);
}

/** An error with the line of the plugin's own code that it comes from. */
function withPlace(error) {
  if (!(error instanceof Error)) return error;
  const folder = dirname(main);
  const starts = [pathToFileURL(folder).href, folder];
  const text = `${error.stack}\n${error instanceof SyntaxError ? syntaxCheck() : ''}`;
  const rests = starts.flatMap((start) => text.split(`${start}/`).slice(1));
  // This text counts as a file in the current folder, `[eval1]`.
  const place = rests.map((rest) => rest.match(/^[^\s():[]+:\d+/)?.[0]).find(Boolean);
  if (place) error.message += ` (${place})`;
  return error;
}

// --- what the gateway asks for ---

const methods = {
  initialize: async (params) => {
    const { settings } = params.capabilities.extensions[EXTENSION];
    context = contextWith(settings);
    try {
      definition = await load();
      hooks = (await definition.register?.(context)) ?? {};
    } catch (error) {
      throw withPlace(error);
    }
    const { name, version } = definition;
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {}, extensions: { [EXTENSION]: { hooks: hookNames() } } },
      serverInfo: { name, version },
    };
  },
  'tools/list': () => ({ tools: describe(definition.tools ?? []) }),
  'tools/call': callTool,
  'drawgate/start': async () => void (await definition.start?.(context)),
  'drawgate/hook': callHook,
  'drawgate/stop': async () => void (await definition.stop?.(context)),
  ping: () => ({}),
};

function hookNames() {
  const wrong = Object.keys(hooks).find((name) => hooks[name] && typeof hooks[name] !== 'function');
  if (wrong) throw new Error(`the hook \`${wrong}\` is not a function`);
  return Object.keys(hooks).filter((name) => hooks[name]);
}

/** The tools without their handlers. What is wrong with them the gateway says, for all plugins alike. */
function describe(tools) {
  if (!Array.isArray(tools)) return tools;
  return tools.map((tool) => {
    if (tool === null || typeof tool !== 'object' || Array.isArray(tool)) return tool;
    const { name, description, schema, handler } = tool;
    const _meta = { 'dev.drawgate/handler': typeof handler };
    return { name, description, inputSchema: plain(schema), _meta };
  });
}

/** What JSON can't write is told as a text, which is not a schema. */
function plain(schema) {
  try {
    JSON.stringify(schema);
    return schema;
  } catch (error) {
    return messageOf(error);
  }
}

async function callTool({ name, arguments: input, _meta }, id) {
  const tool = definition.tools.find((tool) => tool.name === name);
  const abort = new AbortController();
  running.set(id, abort);
  try {
    const meta = { threadId: _meta['dev.drawgate/threadId'], signal: abort.signal };
    const taskId = _meta['dev.drawgate/taskId'];
    if (taskId !== undefined) meta.taskId = taskId;
    const text = await tool.handler(context, input, meta);
    if (typeof text !== 'string') {
      throw new Error(`the handler of \`${name}\` returned ${typeOf(text)}; return a string`);
    }
    return { content: [{ type: 'text', text }] };
  } catch (error) {
    return { content: [{ type: 'text', text: messageOf(error) }], isError: true };
  } finally {
    running.delete(id);
  }
}

function typeOf(value) {
  return value === null ? 'null' : typeof value;
}

async function callHook(event) {
  const { hook, threadId, taskId } = event;
  const call = (...args) => hooks[hook](...args);
  switch (hook) {
    case 'onMessage':
      return void (await call(threadId, event.role, event.content));
    case 'onBeforeInvoke': {
      const prompt = await call(threadId, event.prompt);
      return prompt === undefined || prompt === null ? {} : { prompt };
    }
    case 'onAfterInvoke':
      return void (await call(threadId, event.result));
    case 'onTaskCreate':
      return void (await call(threadId, taskId));
    case 'onTaskComplete':
      return call(threadId, taskId, event.result);
    case 'onTaskFailed':
      return void (await call(threadId, taskId, new Error(event.error)));
    case 'onBroadcast':
      return void (await call(event.event, event.data));
    case 'rewriteCall':
    case 'beforeCall':
      return call(event.call);
    case 'afterCall':
      return call(event.call, event.result);
    default:
      throw new Error(`unknown hook \`${hook}\``);
  }
}

// --- what the plugin asks for ---

function contextWith(config) {
  const done = async (method, params) => void (await ask(`drawgate/${method}`, params));
  return {
    config,
    logger: {
      debug: (...values) => log('debug', values),
      info: (...values) => log('info', values),
      warn: (...values) => log('warning', values),
      error: (...values) => log('error', values),
    },
    invoker: {
      invoke: (prompt, options = {}) => ask('drawgate/invoke', { prompt, ...options }),
    },
    sendToThread: (threadId, message) => done('sendToThread', { threadId, message }),
    broadcast: (event, data = null) => done('broadcast', { event, data }),
    tasks: {
      delegate: (task) => ask('drawgate/delegate', task),
      get: (taskId) => ask('drawgate/task', { taskId }),
      checkIn: (threadId, message) => done('checkIn', { threadId, message }),
    },
    store: {
      get: async (key) => (await ask('drawgate/load', { key })).value,
      set: (key, value) => done('save', { key, value }),
      delete: (key) => done('save', { key }),
    },
  };
}

function log(level, values) {
  send({ method: 'notifications/message', params: { level, data: format(...values) } });
}

// --- the plugin's own module ---

async function load() {
  if (/\.[cm]?ts$/.test(main) && !process.features.typescript) throw tooOld();
  let exported;
  try {
    exported = await import(pathToFileURL(main));
  } catch (error) {
    if (error?.code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[cm]?ts/.test(error.message)) throw tooOld();
    throw error;
  }
  const found = exported.plugin ?? exported.default?.plugin ?? exported.default;
  if (found === null || typeof found !== 'object') {
    throw new Error('the module exports no plugin; export it as `plugin`, or as the default export');
  }
  for (const name of ['register', 'start', 'stop']) {
    if (found[name] !== undefined && typeof found[name] !== 'function') {
      throw new Error(`\`${name}\` of the plugin must be a function, not ${typeOf(found[name])}`);
    }
  }
  return found;
}

function tooOld() {
  return new Error(
    `a plugin in TypeScript needs Node ${TYPESCRIPT_FROM} or later, and this is Node ${process.versions.node} ` +
      `(${process.execPath}); install a current Node, or set \`node\` in \`[plugins]\` to the path of one`,
  );
}

const library = `data:text/javascript,${encodeURIComponent(LIBRARY)}`;
const missing = ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'];

/** Provides `@drawgate/plugin` to a plugin that has not installed it. */
function provideLibrary() {
  const provided = { url: library, format: 'module', shortCircuit: true };
  if (modules.registerHooks) {
    modules.registerHooks({
      resolve(specifier, parent, next) {
        if (specifier !== '@drawgate/plugin') return next(specifier, parent);
        try {
          return next(specifier, parent);
        } catch (error) {
          if (!missing.includes(error.code)) throw error;
          return provided;
        }
      },
    });
    return;
  }
  const hooks = `export async function resolve(specifier, parent, next) {
    if (specifier !== '@drawgate/plugin') return next(specifier, parent);
    try {
      return await next(specifier, parent);
    } catch (error) {
      if (!${JSON.stringify(missing)}.includes(error.code)) throw error;
      return ${JSON.stringify(provided)};
    }
  }`;
  modules.register(`data:text/javascript,${encodeURIComponent(hooks)}`);
}

// --- start ---

provideLibrary();
process.stdout.write = (chunk, encoding, done) => {
  log('info', [Buffer.from(chunk).toString().replace(/\n$/, '')]);
  const callback = typeof encoding === 'function' ? encoding : done;
  if (callback) process.nextTick(callback);
  return true;
};
// A promise that nobody waits for must not end the plugin.
process.on('unhandledRejection', (reason) => log('error', ['unhandled rejection:', reason]));

// Not by `readline`, which takes U+2028 for the end of a line.
let rest = [];
process.stdin.on('data', (chunk) => {
  let from = 0;
  for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
    const line = Buffer.concat([...rest, chunk.subarray(from, end)]);
    rest = [];
    from = end + 1;
    receive(JSON.parse(line));
  }
  rest.push(chunk.subarray(from));
});
process.stdin.on('end', () => process.exit(0));
