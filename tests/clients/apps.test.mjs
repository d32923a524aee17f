// Two servers that have the same names, behind one gateway: everything of each can be reached. And
// their interactive views (MCP Apps) arrive as they are.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { listTools, overStdio } from "./lib/connect.mjs";
import { startGatewayWith } from "./lib/gateway.mjs";
import { Modern } from "./lib/modern.mjs";
import { TypeScriptClient } from "./lib/pair_typescript.mjs";
import { clients, node } from "./lib/paths.mjs";

const script = join(clients, "servers/apps.mjs");
const NAMES = ["left", "right"];
const UI = "io.modelcontextprotocol/ui";
const APP = "text/html;profile=mcp-app";

/** Only one of them lists the view that both have. */
const argsOf = (name) => [script, name, ...(name === "right" ? ["--lists-views"] : [])];

const tables = (naming) => NAMES.map((name) => [
  `[servers.${name}]`,
  `command = ${JSON.stringify(node)}`,
  `args = ${JSON.stringify(argsOf(name))}`,
  `names = "${naming}"`,
  "",
].join("\n")).join("\n");

/** Both eras, as a host with views. */
const OPTIONS = { capabilities: { extensions: { [UI]: { mimeTypes: [APP] } } }, answers: {} };
const CLIENTS = {
  "2025-11-25": (url, token) => TypeScriptClient.connect(url, token, OPTIONS),
  "2026-07-28": (url, token) => Modern.connect(url, token, OPTIONS),
};

const SHOWN = {
  qualified: (server, tool) => `${server}__${tool}_${server}`,
  flat: (server, tool) => `${tool}_${server}`,
};

for (const [naming, shown] of Object.entries(SHOWN)) {
  describe(`two servers with ${naming} names`, { timeout: 120_000 }, () => {
    let gateway;
    const direct = {};
    before(async () => {
      const expected = NAMES.map((name) => shown(name, "show"));
      gateway = await startGatewayWith(tables(naming), expected);
      for (const name of NAMES) direct[name] = await overStdio(node, argsOf(name));
    });
    after(async () => {
      await Promise.all(Object.values(direct).map((one) => one.close()));
      await gateway?.stop();
    });

    for (const [revision, connect] of Object.entries(CLIENTS)) {
      describe(`and a client of ${revision}`, () => {
        let client;
        before(async () => { client = await connect(gateway.url, gateway.adminToken); });
        after(() => client?.close());
        const call = (server, tool) =>
          client.request("tools/call", { name: shown(server, tool), arguments: {} });
        const read = async (uri) => (await client.request("resources/read", { uri })).contents;
        const toolOf = async (server, tool) => {
          const { tools } = await client.request("tools/list");
          return tools.find(({ name }) => name === shown(server, tool));
        };
        /** The two entries of a list that say whose they are, in the order of the servers. */
        const entries = (list, word) => NAMES.map((name) => {
          const found = list.filter((entry) => entry.name === `${word} of ${name}`);
          assert.equal(found.length, 1, JSON.stringify(list));
          return found[0];
        });

        for (const server of NAMES) {
          test(`the definition of a tool with a view of \`${server}\` is untouched`, async () => {
            const own = await listTools(direct[server]);
            for (const tool of ["show", "refresh"]) {
              const expected = own.find(({ name }) => name === `${tool}_${server}`);
              assert.ok(expected._meta.ui.resourceUri.startsWith("ui://"));
              const name = shown(server, tool);
              assert.deepEqual(await toolOf(server, tool), { ...expected, name });
            }
          });

          test(`the view of \`${server}\` is not listed, and can be read as it is`, async () => {
            const { _meta } = await toolOf(server, "show");
            const { resources } = await client.request("resources/list");
            assert.ok(!resources.some(({ uri }) => uri === _meta.ui.resourceUri));
            const [view] = await read(_meta.ui.resourceUri);
            assert.deepEqual(view, {
              uri: `ui://${server}/panel.html`,
              mimeType: APP,
              text: `<!doctype html><title>${server}</title>`,
              _meta: {
                ui: { csp: { connectDomains: [`https://${server}.example`] }, prefersBorder: true },
              },
            });
          });

          test(`the tools that a view of \`${server}\` uses can be called`, async () => {
            assert.deepEqual((await call(server, "show")).structuredContent, { shown: server });
            assert.equal((await call(server, "refresh")).content[0].text, `${server} refreshed`);
          });

          test(`the view that both have can be read from \`${server}\``, async () => {
            const { resourceUri } = (await toolOf(server, "share"))._meta.ui;
            assert.ok(resourceUri.startsWith("ui://"), `hosts refuse \`${resourceUri}\` as a view`);
            const [view] = await read(resourceUri);
            assert.equal(view.uri, resourceUri);
            assert.equal(view.text, `<!doctype html><title>${server}</title>`);
          });

          test(`\`${server}\` knows that there is a host for its views`, async () => {
            const { content } = await call(server, "capabilities");
            const { extensions } = JSON.parse(content[0].text);
            assert.deepEqual(extensions?.[UI]?.mimeTypes, [APP]);
          });

          test(`a link in a result leads to the resource of \`${server}\``, async () => {
            const [link] = (await call(server, "share")).content;
            assert.equal((await read(link.uri))[0].text, `${server} today`);
          });
        }

        test("everything that is listed can be read", async () => {
          const { resources } = await client.request("resources/list");
          assert.equal(resources.length, 3, JSON.stringify(resources));
          for (const { uri } of resources) assert.equal((await read(uri))[0].uri, uri);
        });

        test("a resource that both have is listed twice, and each can be read", async () => {
          const { resources } = await client.request("resources/list");
          const uris = entries(resources, "today").map(({ uri }) => uri);
          assert.notEqual(uris[0], uris[1]);
          const texts = await Promise.all(uris.map(async (uri) => (await read(uri))[0].text));
          assert.deepEqual(texts, ["left today", "right today"]);
        });

        test("a URI that could be either's says which there are", async () => {
          await assert.rejects(read("memo://today"), ({ code, message }) => {
            assert.equal(code, -32602);
            for (const name of NAMES) assert.ok(message.includes(`servers/${name}/`), message);
            return true;
          });
        });

        test("a family that both have is listed twice, and each can be read", async () => {
          const { resourceTemplates } = await client.request("resources/templates/list");
          const texts = await Promise.all(entries(resourceTemplates, "days").map(async (family) => {
            return (await read(family.uriTemplate.replace("{day}", "monday")))[0].text;
          }));
          assert.deepEqual(texts, ["left on monday", "right on monday"]);
        });

        test("a resource is watched at its own server", async () => {
          const { resources } = await client.request("resources/list");
          const [left, right] = entries(resources, "today").map(({ uri }) => uri);
          const watching = await client.watch({ uris: [left, right] });
          const heard = () => watching.inbox.all("notifications/resources/updated");
          await call("right", "touch");
          await watching.inbox.next("notifications/resources/updated");
          assert.deepEqual(heard().map(({ uri }) => uri), [right]);
          await call("left", "touch");
          await watching.inbox.next("notifications/resources/updated", ({ uri }) => uri === left);
          await watching.end();
        });

        test("a prompt that both have is listed twice, and each can be got", async () => {
          const { prompts } = await client.request("prompts/list");
          const listed = prompts.map(({ name }) => name);
          assert.deepEqual(listed.sort(), ["left__greet", "right__greet"]);
          for (const name of NAMES) {
            const { messages } = await client.request("prompts/get", { name: `${name}__greet` });
            assert.equal(messages[0].content.text, `${name} greets`);
          }
        });

        test("arguments are completed by their own server, under its own names", async () => {
          const complete = async (ref, name) => {
            const params = { ref, argument: { name, value: "" } };
            return (await client.request("completion/complete", params)).completion.values;
          };
          const { resourceTemplates } = await client.request("resources/templates/list");
          const families = entries(resourceTemplates, "days");
          for (const [index, name] of NAMES.entries()) {
            const prompt = { type: "ref/prompt", name: `${name}__greet` };
            assert.deepEqual(await complete(prompt, "whom"), [`${name} ref/prompt greet`]);
            const family = { type: "ref/resource", uri: families[index].uriTemplate };
            const expected = [`${name} ref/resource memo://days/{day}`];
            assert.deepEqual(await complete(family, "day"), expected);
          }
        });
      });
    }
  });
}
