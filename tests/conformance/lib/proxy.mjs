// Adds Drawgate's token to each request, because the suite has no option for one. Everything else
// passes as it came, except that the proxy's own address becomes the gateway's.

import { createServer, request } from "node:http";

/** A proxy in front of `url`; returns its own address and how to end it. */
export async function startProxy(url, token) {
  const target = new URL(url);
  const server = createServer((incoming, answer) => {
    const own = `127.0.0.1:${server.address().port}`;
    const headers = { ...incoming.headers, authorization: `Bearer ${token}` };
    if (headers.host === own) headers.host = target.host;
    if (headers.origin) headers.origin = headers.origin.replace(own, target.host);
    const { hostname, port } = target;
    const { method, url: path } = incoming;
    const outgoing = request({ hostname, port, path, method, headers }, (response) => {
      answer.writeHead(response.statusCode, response.headers);
      answer.flushHeaders();
      response.pipe(answer);
    });
    outgoing.on("error", () => answer.destroy());
    answer.on("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}${target.pathname}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
