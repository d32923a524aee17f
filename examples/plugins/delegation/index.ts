import { handleCheckin, runDelegationLoop, type PluginDefinition, type RegisterFn } from '@drawgate/plugin';

// The gateway asks the hooks of all plugins about each task.
const allHooks: unknown[] = [];

const createRegister = (): RegisterFn => async () => ({});

export const plugin: PluginDefinition = {
  name: 'delegation',
  version: '1.0.0',
  register: createRegister(),
  tools: [
    {
      name: 'delegate',
      description: 'Spawn a sub-agent to work on a task in a separate thread. Use this when a task can be done independently without blocking the current conversation. The sub-agent will work autonomously and report results back.',
      schema: {
        type: 'object',
        properties: {
          prompt: {
            type: 'string',
            description: 'Detailed task description for the sub-agent',
          },
          model: {
            type: 'string',
            description: 'Model to use (e.g. claude-sonnet-4-6). Defaults to system default.',
          },
          maxIterations: {
            type: 'number',
            description: 'Maximum validation retry attempts. Default 5.',
          },
        },
        required: ['prompt'],
      },
      handler: async (ctx, input, meta) => {
        // Fire-and-forget delegation
        runDelegationLoop(ctx, allHooks, {
          prompt: input.prompt as string,
          parentThreadId: meta.threadId,
          model: input.model as string | undefined,
          maxIterations: input.maxIterations as number | undefined,
        }).catch((err) => {
          ctx.logger.error(`Delegation failed: ${err}`);
        });
        return 'Task delegated. You will be notified when it completes.';
      },
    },
    {
      name: 'checkin',
      description: 'Send a progress update to the parent thread. Use this during long-running delegated tasks to keep the user informed.',
      schema: {
        type: 'object',
        properties: {
          message: {
            type: 'string',
            description: 'The progress update message',
          },
        },
        required: ['message'],
      },
      handler: async (ctx, input, meta) => {
        await handleCheckin(ctx, meta.threadId, input.message as string);
        return 'Check-in sent.';
      },
    },
    {
      name: 'result',
      description: 'Show how a delegated task is, and its result if there is one.',
      schema: {
        type: 'object',
        properties: {
          taskId: {
            type: 'string',
            description: 'The id of the task',
          },
        },
        required: ['taskId'],
      },
      handler: async (ctx, input, meta) => {
        const task = await ctx.tasks.get(input.taskId as string);
        if (task.parentThreadId !== meta.threadId) {
          throw new Error(`this conversation has not delegated a task \`${input.taskId}\``);
        }
        const { id: taskId, state, iteration, maxIterations, result, feedback, messages } = task;
        return JSON.stringify({ taskId, state, iteration, maxIterations, result, feedback, messages });
      },
    },
  ],
};
