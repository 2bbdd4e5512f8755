import type { EngineContext } from '../engine/context.js';
import { drainQueue } from './drain.js';
import { listenForWork } from './listener.js';
import { recoverLost, scrubOld } from './upkeep.js';
import { Wake } from './wake.js';

const SCRUB_EVERY_MS = 3_600_000;

export interface LoopControl {
  readonly stop: AbortSignal;
  readonly random: () => number;
}

/** Recover, scrub, drain, sleep: until it is stopped. A turn that fails is logged, and the next one comes. */
export async function runDispatchLoop(ctx: EngineContext, { stop, random }: LoopControl): Promise<void> {
  const wake = new Wake();
  const { listenUrl } = ctx.settings;
  const listening = listenUrl === null ? undefined : listenForWork(ctx, listenUrl, wake, stop);
  let scrubbedAt = -Infinity;
  while (!stop.aborted) {
    try {
      await recoverLost(ctx);
      if (performance.now() - scrubbedAt >= SCRUB_EVERY_MS) {
        await scrubOld(ctx);
        scrubbedAt = performance.now();
      }
      // Whoever has no handler at all knows none of the work: that is for others.
      if (ctx.handlers.size > 0) await drainQueue(ctx, { ignoreBackoff: false, stop, random });
    } catch (error) {
      if (!stop.aborted) ctx.logger.error('A turn of the row handler dispatcher failed', error);
    }
    await wake.sleep(ctx.settings.dispatch.pollIntervalMs, stop);
  }
  await listening;
}
