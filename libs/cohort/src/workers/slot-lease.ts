import { SlotLostError } from '../cohort.errors.js';
import { type EngineContext, inLedger } from '../engine/context.js';
import { type Repetition, repeat } from '../engine/repeat.js';
import { type OccurrenceClaim, renewLease } from '../sql/occurrences.js';

export interface SlotLease extends Repetition {
  /** Aborted when the caller's is, or when the slot is no longer ours. */
  readonly signal: AbortSignal;
}

/** Renews the lease of a claimed slot three times within it. What is not renewed in time counts as lost. */
export function keepLease(
  ctx: EngineContext,
  claim: OccurrenceClaim,
  leaseMs: number,
  stopping: AbortSignal,
): SlotLease {
  const lost = new AbortController();
  const lose = () => lost.abort(new SlotLostError(claim.slot));
  let runsOut = setTimeout(lose, leaseMs).unref();
  const renewing = repeat(leaseMs / 3, async () => {
    const askedAt = performance.now();
    try {
      if (!(await inLedger(ctx, (tx) => renewLease(tx, ctx.registry.cohortSchema, claim, leaseMs)))) return lose();
      // From when it was asked for: the lease in the database is no older.
      clearTimeout(runsOut);
      runsOut = setTimeout(lose, Math.max(0, askedAt + leaseMs - performance.now())).unref();
    } catch (error) {
      ctx.logger.warn(`The lease of slot ${claim.slot.toISOString()} was not renewed: ${(error as Error).name}`);
    }
  });
  const end = () => {
    clearTimeout(runsOut);
    return renewing.end().finally(() => clearTimeout(runsOut));
  };
  return { signal: AbortSignal.any([stopping, lost.signal]), end };
}
