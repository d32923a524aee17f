import type { PluginDefinition } from '@drawgate/plugin';

export const plugin: PluginDefinition = {
  name: 'notes',
  version: '1.0.0',
  register: async () => ({}),
  tools: [{
    name: 'add',
    description: 'Adds a note to this conversation, and returns all its notes',
    schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    handler: async (ctx, input, meta) => {
      const notes = [...((await ctx.store.get(meta.threadId)) as string[] ?? []), input.text as string];
      await ctx.store.set(meta.threadId, notes);
      return notes.map((note) => `- ${note}`).join('\n');
    },
  }],
};
