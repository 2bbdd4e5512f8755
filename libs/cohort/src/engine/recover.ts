import { lockAbandoned, selectAbandoned } from '../sql/lanes.js';
import { settlePass } from '../sql/ledger.js';
import { type EngineContext, inLedger } from './context.js';
import { RECOVERED } from './failure.js';

/**
 * Ends passes whose owner stopped giving signs of life: their progress is folded, their runs are marked failed, their
 * lanes are closed, so that an owner that wakes up can commit nothing more. Any process may do it, several at once.
 * Returns how many passes were ended.
 */
export async function recoverAbandoned(ctx: EngineContext): Promise<number> {
  const { cohortSchema } = ctx.registry;
  const staleMs = ctx.settings.sweepSettleTimeoutMs;
  const passIds = await inLedger(ctx, (tx) => selectAbandoned(tx, cohortSchema, staleMs));
  let recovered = 0;
  for (const passId of passIds) {
    const ended = await inLedger(ctx, async (tx) => {
      const tokens = await lockAbandoned(tx, cohortSchema, passId, staleMs);
      if (!tokens) return false;
      await settlePass(tx, cohortSchema, { passId, tokens, as: 'recovered' }, [], {
        status: 'failed',
        error: RECOVERED,
      });
      return true;
    });
    if (!ended) continue;
    recovered++;
    ctx.logger.warn(`Pass ${passId} was abandoned by its owner; its runs are recovered as failed.`);
  }
  return recovered;
}
