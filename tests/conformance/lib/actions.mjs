// What each client scenario wants to see done. A scenario that is not here only wants Drawgate to
// connect and to list the tools.

const ACTIONS = {
  tools_call: (client) => client.callTool("add_numbers", { a: 5, b: 3 }),

  "elicitation-sep1034-client-defaults": (client) =>
    client.callTool("test_client_elicitation_defaults"),

  "sse-retry": (client) => client.callTool("test_reconnection"),

  async "json-schema-2020-12-preservation"(client, _context, tools) {
    const { inputSchema } = tools.find(({ name }) => name === "json_schema_2020_12_tool");
    await client.callTool("json_schema_echo", { schema: inputSchema });
  },

  async "sep-2322-client-request-state"(client) {
    await Promise.all([
      client.callTool("test_mrtr_echo_state"),
      client.callTool("test_mrtr_unrelated"),
    ]);
    await client.callTool("test_mrtr_no_state");
    await client.callTool("test_mrtr_no_result_type");
  },

  async "http-standard-headers"(client) {
    await client.callTool("test_headers");
    await client.callTool("my-hyphenated-tool");
    for (const { uri } of (await client.request("resources/list")).resources) {
      await client.request("resources/read", { uri });
    }
    for (const { name } of (await client.request("prompts/list")).prompts) {
      await client.request("prompts/get", { name });
    }
  },

  async "http-custom-headers"(client, { toolCalls }) {
    for (const { name, arguments: args } of toolCalls) await client.callTool(name, args);
  },

  async "http-invalid-tool-headers"(client, _context, tools) {
    for (const { name, inputSchema } of tools) {
      const properties = Object.keys(inputSchema.properties);
      const args = Object.fromEntries(properties.map((property) => [property, "value"]));
      await client.callTool(name, args);
    }
  },
};

/** Does what the scenario is about. */
export async function act(scenario, client, context) {
  const tools = await client.listTools();
  await ACTIONS[scenario]?.(client, context, tools);
}
