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

/**
 * Drains the queue and keeps it up until it is stopped, side by side: a handler that takes its time holds up neither. A
 * turn that fails is logged, and the next one comes.
 */
export async function runDispatchLoop(ctx: EngineContext, { stop, random }: LoopControl): Promise<void> {
  const wake = new Wake();
  const { listenUrl } = ctx.settings;
  await Promise.all([
    listenUrl === null ? undefined : listenForWork(ctx, listenUrl, wake, stop),
    keepUp(ctx, wake, stop),
    // Whoever has no handler at all knows none of the work: that is for others.
    ctx.handlers.size > 0 &&
      takeTurns(ctx, wake, stop, () => drainQueue(ctx, { ignoreBackoff: false, stop, random, wake })),
  ]);
}

async function keepUp(ctx: EngineContext, work: Wake, stop: AbortSignal): Promise<void> {
  let scrubbedAt = -Infinity;
  await takeTurns(ctx, new Wake(), stop, async () => {
    await recoverLost(ctx);
    work.call();
    if (performance.now() - scrubbedAt < SCRUB_EVERY_MS) return;
    await scrubOld(ctx);
    scrubbedAt = performance.now();
  });
}

async function takeTurns(ctx: EngineContext, wake: Wake, stop: AbortSignal, turn: () => Promise<void>): Promise<void> {
  while (!stop.aborted) {
    try {
      await turn();
    } catch (error) {
      if (!stop.aborted) ctx.logger.error('A turn of the row handler dispatcher failed', error);
    }
    await wake.sleep(ctx.settings.dispatch.pollIntervalMs, stop);
  }
}
