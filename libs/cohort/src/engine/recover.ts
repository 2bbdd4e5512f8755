import { lockAbandoned, selectAbandoned } from '../sql/lanes.js';
import { settlePass } from '../sql/ledger.js';
import { type EngineContext, inLedger } from './context.js';
import { RECOVERED } from './failure.js';
import { measureRuns } from './pass.js';

/**
 * Ends passes whose owner stopped giving signs of life: their progress is folded, their runs are marked failed, their
 * lanes are closed, so that an owner that wakes up can commit nothing more. Any process may do it, several at once.
 */
export async function recoverAbandoned(ctx: EngineContext): Promise<void> {
  const { cohortSchema } = ctx.registry;
  const staleMs = ctx.settings.sweepSettleTimeoutMs;
  const passIds = await inLedger(ctx, (tx) => selectAbandoned(tx, cohortSchema, staleMs));
  for (const passId of passIds) {
    const ended = await endPass(ctx, passId, staleMs).catch((error: unknown) => {
      // Somebody else may manage; a pass that cannot be ended must not keep every other from starting.
      ctx.logger.error(`Abandoned pass ${passId} could not be recovered`, error);
      return false;
    });
    if (ended) ctx.logger.warn(`Pass ${passId} was abandoned by its owner; its runs are recovered as failed.`);
  }
}

/** Ends one pass, unless a lane of it is in the middle of a batch or gave a sign of life within `staleMs`. */
export async function endPass(ctx: EngineContext, passId: string, staleMs: number): Promise<boolean> {
  const { cohortSchema } = ctx.registry;
  const outcome = { status: 'failed', error: RECOVERED };
  const ended = await inLedger(ctx, async (tx) => {
    const tokens = await lockAbandoned(tx, cohortSchema, passId, staleMs);
    if (!tokens) return null;
    return settlePass(tx, cohortSchema, { passId, tokens, as: 'recovered' }, [], outcome);
  });
  // Their owner cannot count them any more.
  if (ended) measureRuns(ctx, ended, () => outcome.status);
  return ended !== null;
}
