// Helpers for plugins of Drawgate. The gateway does the work; these are calls on the plugin's context.
//
// The gateway provides this module to plugins that do not have it in their own `node_modules`.

/**
 * Delegates a task. The gateway runs it, has it reviewed, tries it again with what the reviewers say, and
 * tells the conversation from which it was delegated how it ended. Returns as soon as the task exists.
 */
export async function runDelegationLoop(ctx, _hooks, options) {
  const { prompt, parentThreadId, model, maxIterations } = options;
  return ctx.tasks.delegate({ prompt, parentThreadId, model, maxIterations });
}

/** Tells the conversation from which a task was delegated how it gets on. */
export async function handleCheckin(ctx, threadId, message) {
  await ctx.tasks.checkIn(threadId, message);
}
