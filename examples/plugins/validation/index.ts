import type { PluginDefinition, Verdict } from '@drawgate/plugin';

const QUESTION = `Answer with JSON alone: {"accepted": true}, or {"accepted": false, "feedback": "what to do better"}.`;

export const plugin: PluginDefinition = {
  name: 'validation',
  version: '1.0.0',
  register: async (ctx) => ({
    onTaskComplete: async (threadId, taskId, result) => {
      // Invoke a model to review the sub-agent's output
      const review = await ctx.invoker.invoke(
        `Review this sub-agent output for completeness and quality:\n\n${result}\n\n${QUESTION}`,
        { model: (ctx.config.model as string | undefined) ?? 'haiku' },
      );
      if (review.error) throw new Error(`the reviewer failed: ${review.error}`);
      return verdict(review.output);
    },
  }),
};

/** Parses accept or reject from a review. A review that says neither fails, so that the task stays unreviewed. */
function verdict(output: string): Verdict {
  const { accepted, feedback } = JSON.parse(output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1));
  if (typeof accepted !== 'boolean') throw new Error('the reviewer did not say whether it accepts the result');
  return { accepted, feedback: feedback === undefined ? undefined : String(feedback) };
}
