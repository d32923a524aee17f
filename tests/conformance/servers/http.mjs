// The part of an HTTP server that both upstream servers share: who may ask, and the body as JSON.

import { createServer } from "node:http";

const LOOPBACK = /^(https?:\/\/)?(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;

/** Answers with JSON. */
export function sendJson(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

const refusal = (code, message) => ({ jsonrpc: "2.0", id: null, error: { code, message } });

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString());
}

async function answer(request, response, serve) {
  const { host, origin } = request.headers;
  if (!LOOPBACK.test(host ?? "") || (origin && !LOOPBACK.test(origin))) {
    return sendJson(response, 403, refusal(-32600, "forbidden host or origin"));
  }
  if (request.url !== "/mcp") return response.writeHead(404).end();
  let body;
  if (request.method === "POST") {
    try {
      body = await bodyOf(request);
    } catch {
      return sendJson(response, 400, refusal(-32700, "Parse error"));
    }
  }
  return serve(request, response, body);
}

/** Serves on the port that stands behind `--http` in the arguments; 0 takes a free one. */
export function listen(serve) {
  const port = Number(process.argv[process.argv.indexOf("--http") + 1]);
  const server = createServer((request, response) => answer(request, response, serve));
  server.listen(port, "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${server.address().port}/mcp`);
  });
}
