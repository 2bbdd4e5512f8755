import { SlotLostError } from '../cohort.errors.js';
import { type EngineContext, inLedger } from '../engine/context.js';
import { type OccurrenceClaim, renewLease } from '../sql/occurrences.js';

export interface SlotLease {
  /** Aborted when the caller's is, or when the slot is no longer ours. */
  readonly signal: AbortSignal;
  end(): void;
}

/** Renews the lease of a claimed slot three times within it. What cannot be renewed in time counts as lost. */
export function keepLease(
  ctx: EngineContext,
  claim: OccurrenceClaim,
  leaseMs: number,
  stopping: AbortSignal,
): SlotLease {
  const lost = new AbortController();
  const lose = () => lost.abort(new SlotLostError(claim.slot));
  let renewedAt = performance.now();
  const timer = setInterval(() => {
    const askedAt = performance.now();
    if (askedAt - renewedAt >= leaseMs) lose();
    inLedger(ctx, (tx) => renewLease(tx, ctx.registry.cohortSchema, claim, leaseMs))
      .then((ours) => {
        if (ours) renewedAt = askedAt;
        else lose();
      })
      .catch((error: unknown) =>
        ctx.logger.warn(`The lease of slot ${claim.slot.toISOString()} was not renewed: ${(error as Error).name}`),
      );
  }, leaseMs / 3);
  timer.unref();
  return { signal: AbortSignal.any([stopping, lost.signal]), end: () => clearInterval(timer) };
}
